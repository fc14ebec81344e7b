package trace

import (
	"context"
	"errors"
	"fmt"

	"tare/annex"
	"tare/annex/monitor"
)

// Watcher sees what containers do: *monitor.Monitor.
type Watcher interface {
	Events() <-chan monitor.Batch
	Err() error
	Scan(ctx context.Context, id annex.ID) ([]annex.Scan, error)
}

// Evict has pages leave: media's Do. It slows down what they are of.
type Evict func(ctx context.Context, r annex.Request) annex.Result

// Recorder writes what a watcher sees as a trace.
type Recorder struct {
	watcher Watcher
	writer  *Writer
	header  Header
	place   map[annex.ID]int
	evict   Evict
	number  uint64
	// Told is how many events were recorded, and Lost how many there was no room for.
	Told, Lost uint64
	// Unmoved is the last reason why pages did not leave that were to; nil where all did.
	Unmoved error
}

// NewRecorder makes one of the containers that the header names, all of which are watched. With evict, not nil, what a
// container has in memory leaves after each activation, so that the next one is seen whole.
func NewRecorder(watcher Watcher, writer *Writer, h Header, evict Evict) *Recorder {
	r := &Recorder{watcher: watcher, writer: writer, header: h, evict: evict, place: map[annex.ID]int{}}
	for i, c := range h.Containers {
		r.place[c.ID] = i
	}
	return r
}

// Record records until ctx is done, which is no error, or the watcher can tell nothing any
// more. The writer is left open.
func (r *Recorder) Record(ctx context.Context, now annex.Moment) error {
	for i, c := range r.header.Containers {
		if err := r.write(Event{Kind: Started, At: now, Container: i}); err != nil {
			return err
		}
		if err := r.look(ctx, i, c.ID); err != nil {
			return err
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case b, more := <-r.watcher.Events():
			if !more {
				return fmt.Errorf("recording: nothing is told any more: %w", r.watcher.Err())
			}
			if err := r.take(ctx, b); err != nil {
				return err
			}
		}
	}
}

func (r *Recorder) write(e Event) error {
	r.Told++
	return r.writer.Write(e)
}

func (r *Recorder) take(ctx context.Context, b monitor.Batch) error {
	if b.Lost > 0 {
		r.Lost += b.Lost
		if err := r.write(Event{Kind: Lost, Count: b.Lost}); err != nil {
			return err
		}
	}
	if err := r.faults(b.Faults); err != nil {
		return err
	}
	for _, a := range b.Activity {
		i, known := r.place[a.ID]
		if !known {
			continue
		}
		if a.What == annex.Woke {
			if err := r.write(Event{Kind: Woke, At: a.At, Container: i}); err != nil {
				return err
			}
			continue
		}
		if err := r.write(Event{Kind: Slept, At: a.At, Container: i, CPU: a.CPU}); err != nil {
			return err
		}
		if err := r.look(ctx, i, a.ID); err != nil {
			return err
		}
	}
	return nil
}

// faults writes those of one space that follow each other as one event. A page that faults is
// touched; of when within the event each was, only the order is kept.
func (r *Recorder) faults(faults []annex.Fault) error {
	for len(faults) > 0 {
		first := faults[0]
		n := 1
		for n < len(faults) && n < Most && faults[n].ID == first.ID && faults[n].Space == first.Space && faults[n].Write == first.Write && faults[n].At >= faults[n-1].At {
			n++
		}
		i, known := r.place[first.ID]
		if known {
			e := Event{Kind: Touched, At: first.At, Container: i, Space: first.Space, Took: faults[n-1].At.Since(first.At), Write: first.Write}
			for _, f := range faults[:n] {
				e.Pages = append(e.Pages, f.Page)
			}
			if err := r.write(e); err != nil {
				return err
			}
		}
		faults = faults[n:]
	}
	return nil
}

// look writes a scan, and has what it finds in memory leave where that is wanted.
func (r *Recorder) look(ctx context.Context, i int, id annex.ID) error {
	scans, err := r.watcher.Scan(ctx, id)
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, monitor.ErrGone):
		return nil // its processes are, and nothing more will be told
	case err != nil:
		return fmt.Errorf("recording: looking at the memory of %s: %w", r.header.Containers[i].Name, err)
	}
	for _, s := range scans {
		for _, e := range Scans(i, s) {
			if err := r.write(e); err != nil {
				return err
			}
		}
	}
	if r.evict == nil {
		return nil
	}
	runs := resident(scans)
	if len(runs) == 0 {
		return nil
	}
	r.number++
	if res := r.evict(ctx, annex.Request{Number: r.number, ID: id, Op: annex.Evict, Why: annex.Dormant, Runs: runs}); res.Err != nil && ctx.Err() == nil {
		r.Unmoved = res.Err
	}
	return nil
}

// resident are the runs of pages that are mapped, and by one process alone.
func resident(scans []annex.Scan) (runs []annex.Run) {
	for _, s := range scans {
		for _, stretch := range s.Stretches {
			for k, state := range stretch.States {
				if !state.Has(annex.Present) || state.Has(annex.Shared) {
					continue
				}
				p := stretch.First + annex.Page(k)
				if n := len(runs); n > 0 && runs[n-1].Space == s.Space && runs[n-1].End() == p {
					runs[n-1].Pages++
					continue
				}
				runs = append(runs, annex.Run{Space: s.Space, First: p, Pages: 1})
			}
		}
	}
	return runs
}
