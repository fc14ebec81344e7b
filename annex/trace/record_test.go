package trace

import (
	"bytes"
	"context"
	"io"
	"testing"
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
		return nil, monitor.ErrGone
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
	if r.Lost != 4 || r.Told != uint64(len(want)) {
		t.Errorf("%d told, %d lost", r.Told, r.Lost)
	}
	if len(evicted) != 2 || cmp.Diff([]annex.Run{{Space: space, First: 100, Pages: 2}, {Space: space, First: 104, Pages: 1}}, evicted[1].Runs) != "" {
		t.Errorf("evicted: %+v", evicted)
	}
}
