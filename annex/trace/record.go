package trace

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	lives   []life // by place
	evict   Evict
	number  uint64
	// Recorded is how many events were recorded, and Lost how many there was no room for.
	Recorded, Lost uint64
	// Unmoved is the last reason why pages did not leave that were to; nil where all did.
	Unmoved error
}

// life is what is known of whether a container is there.
type life struct {
	spaces map[annex.Space]bool // of its processes, as far as they were reported
	last   annex.Moment         // when the last of them ended
	doubt  time.Time            // when it is to be looked at, since none is known; zero is not
	ended  bool                 // which was reported
}

// settles is how long after the last process' end a container is looked at: its memory is gone
// by then, and that it slept was reported, if it is.
const settles = 500 * time.Millisecond

// NewRecorder makes one of the containers that the header names, all of which are watched. With evict, not nil, what a
// container has in memory leaves after each activation, so that the next one is seen whole.
func NewRecorder(watcher Watcher, writer *Writer, h Header, evict Evict) *Recorder {
	r := &Recorder{watcher: watcher, writer: writer, header: h, evict: evict, place: map[annex.ID]int{}}
	for i, c := range h.Containers {
		r.place[c.ID] = i
		r.lives = append(r.lives, life{spaces: map[annex.Space]bool{}})
	}
	return r
}

// Record records until ctx is done, which is no error, or the watcher can tell nothing any
// more. The writer is left open.
func (r *Recorder) Record(ctx context.Context, now annex.Moment) error {
	for i := range r.header.Containers {
		if err := r.write(Event{Kind: Started, At: now, Container: i}); err != nil {
			return err
		}
		if err := r.look(ctx, i, now); err != nil {
			return err
		}
	}
	for {
		var doubts <-chan time.Time // nil never gives anything
		if at := r.doubted(); !at.IsZero() {
			doubts = time.After(time.Until(at))
		}
		select {
		case <-ctx.Done():
			return nil
		case due := <-doubts:
			if err := r.settle(ctx, due); err != nil {
				return err
			}
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
	r.Recorded++
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
	for _, p := range b.Processes {
		if err := r.process(p); err != nil {
			return err
		}
	}
	for _, a := range b.Activity {
		i, known := r.place[a.ID]
		if !known {
			continue
		}
		if a.What == annex.Woke {
			if err := r.runs(i, a.At); err != nil {
				return err
			}
			if err := r.write(Event{Kind: Woke, At: a.At, Container: i}); err != nil {
				return err
			}
			continue
		}
		if err := r.write(Event{Kind: Slept, At: a.At, Container: i, CPU: a.CPU}); err != nil {
			return err
		}
		if err := r.look(ctx, i, a.At); err != nil {
			return err
		}
	}
	return nil
}

// process takes note of who is there. A container of which no process is known any more is
// looked at, since some may never have been reported.
func (r *Recorder) process(p monitor.Process) error {
	i, known := r.place[p.ID]
	if !known {
		return nil
	}
	l := &r.lives[i]
	if p.What != monitor.Ended {
		l.spaces[p.Space] = true
		return r.runs(i, p.At)
	}
	delete(l.spaces, p.Space)
	if l.last = p.At; len(l.spaces) == 0 && !l.ended {
		l.doubt = time.Now().Add(settles)
	}
	return nil
}

// runs takes note that a container is there: one that had ended has begun again.
func (r *Recorder) runs(i int, at annex.Moment) error {
	l := &r.lives[i]
	l.doubt = time.Time{}
	if !l.ended {
		return nil
	}
	l.ended = false
	return r.write(Event{Kind: Started, At: at, Container: i})
}

// over tells that a container has ended.
func (r *Recorder) over(i int, at annex.Moment) error {
	l := &r.lives[i]
	l.doubt = time.Time{}
	if l.ended {
		return nil
	}
	l.ended = true
	clear(l.spaces)
	return r.write(Event{Kind: Ended, At: max(at, l.last), Container: i})
}

// doubted is when the next of those in doubt is to be looked at; zero is none.
func (r *Recorder) doubted() (first time.Time) {
	for _, l := range r.lives {
		if !l.doubt.IsZero() && (first.IsZero() || l.doubt.Before(first)) {
			first = l.doubt
		}
	}
	return first
}

// settle looks whether those in doubt are there.
func (r *Recorder) settle(ctx context.Context, now time.Time) error {
	for i := range r.lives {
		l := &r.lives[i]
		if l.doubt.IsZero() || l.doubt.After(now) {
			continue
		}
		l.doubt = time.Time{}
		scans, there, err := r.scan(ctx, i)
		if err == nil && !there && ctx.Err() == nil {
			err = r.over(i, l.last)
		}
		if err != nil {
			return err
		}
		r.seen(i, scans)
	}
	return nil
}

// seen takes note of the processes that a scan found.
func (r *Recorder) seen(i int, scans []annex.Scan) {
	for _, s := range scans {
		r.lives[i].spaces[s.Space] = true
	}
}

// scan looks at a container, which is not there without a process. Of one where there never
// was any that is not said.
func (r *Recorder) scan(ctx context.Context, i int) (scans []annex.Scan, there bool, err error) {
	c := r.header.Containers[i]
	scans, err = r.watcher.Scan(ctx, c.ID)
	switch l := &r.lives[i]; {
	case ctx.Err() != nil:
		return nil, true, nil
	case errors.Is(err, monitor.ErrGone):
		return nil, false, nil
	case err != nil:
		return nil, true, fmt.Errorf("recording: looking at the memory of %s: %w", c.Name, err)
	default:
		return scans, len(scans) > 0 || len(l.spaces) == 0 && l.last == 0, nil
	}
}

// faults writes those of one space that follow each other as one event. A page that faults is
// touched; of when within the event each was, only the order is kept.
func (r *Recorder) faults(faults []annex.Fault) error {
	for len(faults) > 0 {
		first := faults[0]
		n := 1
		for n < len(faults) && n < Most && faults[n].ID == first.ID &&
			faults[n].Space == first.Space && faults[n].Write == first.Write && faults[n].At >= faults[n-1].At {
			n++
		}
		i, known := r.place[first.ID]
		if known {
			r.lives[i].spaces[first.Space] = true
			e := Event{
				Kind:      Touched,
				At:        first.At,
				Container: i,
				Space:     first.Space,
				Took:      faults[n-1].At.Since(first.At),
				Write:     first.Write,
			}
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

// look writes a scan, and has what it finds in memory leave where that is wanted; of one that
// is not there any more, that it ended: at that moment, unless its last process did so later.
func (r *Recorder) look(ctx context.Context, i int, at annex.Moment) error {
	scans, there, err := r.scan(ctx, i)
	if err != nil {
		return err
	}
	if !there {
		return r.over(i, at)
	}
	r.seen(i, scans)
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
	if res := r.evict(ctx, annex.Request{
		Number: r.number, ID: r.header.Containers[i].ID, Op: annex.Evict, Why: annex.Dormant, Runs: runs,
	}); res.Err != nil && ctx.Err() == nil {
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
