package load

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A stall of a second shows in the spans it lies in: in those of the answers as a gap, and
// in those of due moments as latency.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := &service{answer: func(n int64) (bool, error) {
			switch n {
			case 40: // due at 0.4 s, the warm-up left out: 0.2 s
				time.Sleep(time.Second)
			case 95:
				return true, errors.New("no")
			}
			return true, nil
		}}
		r := mustRun(t, target, Options{Rate: 100, Connections: 1, Warmup: 200 * time.Millisecond, Duration: time.Second, Batches: 10})
		b := r.Batches
		if b.Length != 100*time.Millisecond {
			t.Errorf("spans of %v", b.Length)
		}
		// 20 before the stall; after it, 80 at once, of which one failed; and the backlog's end.
		if want := []int64{10, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 79}; !slices.Equal(b.Answered, want) {
			t.Errorf("answered %v, want %v", b.Answered, want)
		}
		if want := []int64{0, 0, 0, 0, 0, 0, 0, 1, 0, 0}; !slices.Equal(b.Failed, want) {
			t.Errorf("failed %v, want %v", b.Failed, want)
		}
		var held int64
		for i, h := range b.Corrected {
			held += h.TotalCount()
			if want := time.Duration(12-i) * 100 * time.Millisecond; i >= 2 && (h.Max() < want.Microseconds() || h.Max() > want.Microseconds()+1000) {
				t.Errorf("span %d: at most %d us, want %v", i, h.Max(), want)
			}
		}
		if held != r.Requests {
			t.Errorf("spans hold %d, want %d", held, r.Requests)
		}
	})
}

func TestBatchesOfAClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := &service{answer: func(n int64) (bool, error) {
			time.Sleep(30 * time.Millisecond)
			return true, nil
		}}
		r := mustRun(t, target, Options{Connections: 2, Duration: 200 * time.Millisecond, Batches: 2})
		if want := []int64{6, 6, 2}; !slices.Equal(r.Batches.Answered, want) || r.Batches.Corrected != nil {
			t.Errorf("%+v, want %v", r.Batches, want)
		}
		if r = mustRun(t, target, Options{Connections: 2, Duration: 200 * time.Millisecond}); r.Batches != nil {
			t.Errorf("not asked for: %+v", r.Batches)
		}
	})
}

func TestBatchesOutOfRange(t *testing.T) {
	for _, o := range []Options{
		{Duration: time.Second, Batches: -1}, {Duration: time.Hour, Batches: mostBatches + 1},
		{Count: 5, Batches: 10}, {Duration: time.Second, Count: 5, Batches: 10}, {Duration: 5 * time.Millisecond, Batches: 10},
	} {
		if _, err := Run(t.Context(), &service{}, o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}
