package trace

import (
	"bytes"
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tare/annex"
	"tare/annex/monitor"
)

// watched tells what it is given, and then nothing until it is asked no more.
type watched struct {
	batches chan monitor.Batch
	end     func()
}

func (w *watched) Events() <-chan monitor.Batch {
	if len(w.batches) == 0 {
		w.end()
	}
	return w.batches
}
func (w *watched) Err() error { return nil }
func (w *watched) Scan(_ context.Context, id annex.ID) ([]annex.Scan, error) {
	if id != "a" {
		return nil, nil // no process is in it yet
	}
	return []annex.Scan{{ID: id, Space: space, Began: 5, Ended: 6, Stretches: []annex.Stretch{
		{First: 100, States: []annex.State{annex.Present, annex.Present, annex.Swapped, annex.Present | annex.Shared, annex.Present}}}}}, nil
}

func TestRecords(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := &watched{batches: make(chan monitor.Batch, 9), end: cancel}
	fault := func(p annex.Page, at annex.Moment) annex.Fault {
		return annex.Fault{ID: "a", Space: space, Page: p, At: at, Swapped: true}
	}
	w.batches <- monitor.Batch{Activity: []annex.Activity{{ID: "a", What: annex.Woke, At: 10}, {ID: "stranger", What: annex.Woke, At: 11}}}
	w.batches <- monitor.Batch{Faults: []annex.Fault{fault(7, 12), fault(9, 14), {ID: "b", Space: space, Page: 3, At: 15, Write: true}, fault(8, 16)}}
	w.batches <- monitor.Batch{Lost: 4}
	w.batches <- monitor.Batch{Activity: []annex.Activity{{ID: "a", What: annex.Slept, At: 20, CPU: time.Nanosecond}}}
	var file bytes.Buffer
	out, err := NewWriter(&file, header)
	if err != nil {
		t.Fatal(err)
	}
	var evicted []annex.Request
	r := NewRecorder(w, out, header, func(_ context.Context, q annex.Request) annex.Result {
		evicted = append(evicted, q)
		return annex.Result{}
	})
	if err := r.Record(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	in, err := NewReader(&file)
	if err != nil {
		t.Fatal(err)
	}
	got, err := all(in)
	if err != io.EOF {
		t.Fatal(err)
	}
	scan := Event{Kind: Scanned, At: 5, Space: space, Took: 1, Stretches: []Stretch{{First: 100, Runs: []States{
		{annex.Present, 2}, {annex.Swapped, 1}, {annex.Present | annex.Shared, 1}, {annex.Present, 1}}}}}
	want := []Event{
		{Kind: Started, At: 1}, scan, {Kind: Started, At: 1, Container: 1},
		{Kind: Woke, At: 10},
		{Kind: Touched, At: 12, Space: space, Took: 2, Pages: []annex.Page{7, 9}},
		{Kind: Touched, At: 15, Container: 1, Space: space, Write: true, Pages: []annex.Page{3}},
		{Kind: Touched, At: 16, Space: space, Pages: []annex.Page{8}},
		{Kind: Lost, Count: 4},
		{Kind: Slept, At: 20, CPU: 1}, scan,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if r.Lost != 4 || r.Recorded != uint64(len(want)) {
		t.Errorf("%d told, %d lost", r.Recorded, r.Lost)
	}
	if len(evicted) != 2 || cmp.Diff([]annex.Run{{Space: space, First: 100, Pages: 2}, {Space: space, First: 104, Pages: 1}}, evicted[1].Runs) != "" {
		t.Errorf("evicted: %+v", evicted)
	}
}

// ending is a container of which a scan finds processes or none, or that its group is gone.
type ending struct {
	batches chan monitor.Batch
	finds   atomic.Pointer[func() ([]annex.Scan, error)]
}

func (e *ending) Events() <-chan monitor.Batch { return e.batches }
func (e *ending) Err() error                   { return nil }
func (e *ending) Scan(context.Context, annex.ID) ([]annex.Scan, error) {
	return (*e.finds.Load())()
}

// That a container ended is told when its last process has, and no other is found; whether or
// not it is told to have slept before, and whether or not its group is gone.
func TestRecordsEnd(t *testing.T) {
	other := annex.Space{PID: 8, Started: 9}
	found := func(spaces ...annex.Space) func() ([]annex.Scan, error) {
		return func() (all []annex.Scan, _ error) {
			for _, s := range spaces {
				all = append(all, annex.Scan{ID: "a", Space: s})
			}
			return all, nil
		}
	}
	gone := func() ([]annex.Scan, error) { return nil, monitor.ErrGone }
	step := func(what monitor.Step, s annex.Space, at annex.Moment) monitor.Batch {
		return monitor.Batch{Processes: []monitor.Process{{ID: "a", Space: s, What: what, At: at}}}
	}
	slept := monitor.Batch{Activity: []annex.Activity{{ID: "a", What: annex.Slept, At: 30}}}
	ended := func(at annex.Moment) Event { return Event{Kind: Ended, At: at} }
	for name, c := range map[string]struct {
		batches []monitor.Batch
		finds   func() ([]annex.Scan, error) // after the first look
		want    []Event                      // but for scans
	}{
		"its only process":           {[]monitor.Batch{step(monitor.Ended, space, 20)}, found(), []Event{ended(20)}},
		"its group too":              {[]monitor.Batch{step(monitor.Ended, space, 20)}, gone, []Event{ended(20)}},
		"the last of two":            {[]monitor.Batch{step(monitor.Forked, other, 10), step(monitor.Ended, space, 20), step(monitor.Ended, other, 25)}, gone, []Event{ended(25)}},
		"the first of two":           {[]monitor.Batch{step(monitor.Forked, other, 10), step(monitor.Ended, space, 20)}, gone, nil},
		"one was not told of":        {[]monitor.Batch{step(monitor.Ended, space, 20)}, found(other), nil},
		"it slept":                   {[]monitor.Batch{slept}, gone, []Event{{Kind: Slept, At: 30}, ended(30)}},
		"it slept when it had ended": {[]monitor.Batch{step(monitor.Ended, space, 31), slept}, found(), []Event{{Kind: Slept, At: 30}, ended(31)}},
		"another came":               {[]monitor.Batch{step(monitor.Ended, space, 20), step(monitor.Joined, other, 21)}, found(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &ending{batches: make(chan monitor.Batch)}
				first := found(space)
				w.finds.Store(&first)
				one := header
				one.Containers = header.Containers[:1]
				var file bytes.Buffer
				out, err := NewWriter(&file, one)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- NewRecorder(w, out, one, nil).Record(ctx, 1) }()
				synctest.Wait()
				w.finds.Store(&c.finds)
				for _, b := range c.batches {
					w.batches <- b
				}
				time.Sleep(2 * settles)
				// What begins again is told to have.
				again := len(c.want) > 0
				if again {
					w.batches <- monitor.Batch{Activity: []annex.Activity{{ID: "a", What: annex.Woke, At: 50}}}
				}
				synctest.Wait()
				cancel()
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				if err := out.Close(); err != nil {
					t.Fatal(err)
				}
				in, err := NewReader(&file)
				if err != nil {
					t.Fatal(err)
				}
				got, err := all(in)
				if err != io.EOF {
					t.Fatal(err)
				}
				want := append([]Event{{Kind: Started, At: 1}, {Kind: Scanned, Space: space}}, c.want...)
				if again {
					want = append(want, Event{Kind: Started, At: 50}, Event{Kind: Woke, At: 50})
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Error(d)
				}
			})
		})
	}
}
