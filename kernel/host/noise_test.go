package host

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLatenessSumsUp(t *testing.T) {
	var late []time.Duration
	for i := range 100 {
		late = append(late, time.Duration(100-i)*time.Microsecond)
	}
	got := lateness(late)
	want := Lateness{N: 100, P50: 50 * time.Microsecond, P99: 99 * time.Microsecond, Max: 100 * time.Microsecond, Histogram: []Bucket{
		{2 * time.Microsecond, 1}, {4 * time.Microsecond, 2}, {8 * time.Microsecond, 4}, {16 * time.Microsecond, 8},
		{32 * time.Microsecond, 16}, {64 * time.Microsecond, 32}, {128 * time.Microsecond, 37},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestLatenessCountsEverySleep(t *testing.T) {
	for _, late := range [][]time.Duration{{0}, {1}, {time.Microsecond}, {1<<63 - 1}, {0, time.Hour, 1<<63 - 1}} {
		n := len(late)
		total := 0
		for _, b := range lateness(late).Histogram {
			total += b.Count
		}
		if total != n {
			t.Errorf("%v: %d in the histogram", late, total)
		}
	}
}

func TestRepeatability(t *testing.T) {
	// Every other run takes 10 % longer, and one stumbles.
	took := make([]time.Duration, 100)
	for i := range took {
		took[i] = time.Duration(1000 + i%2*100)
	}
	took[50] = 5000
	got := repeatability(took)
	if got.N != 100 || got.Median != 1100 && got.Median != 1000 || got.Max != 5000/float64(got.Median) || got.AA != 100/float64(got.Median) {
		t.Errorf("%+v", got)
	}
	steady := repeatability([]time.Duration{700, 700, 700, 700})
	if steady.AA != 0 || steady.P99 != 1 || steady.Max != 1 {
		t.Errorf("%+v", steady)
	}
}

func TestMeasureNoise(t *testing.T) {
	n, err := MeasureNoise(t.Context(), Effort{Sleeps: 20, Sleep: 100 * time.Microsecond, Loops: 20, Loop: 50 * time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	if n.Timer.N != 20 || n.Timer.P50 > n.Timer.P99 || n.Timer.P99 > n.Timer.Max {
		t.Errorf("timer %+v", n.Timer)
	}
	if n.Loop.N != 20 || n.Loop.Median <= 0 || n.Loop.P99 > n.Loop.Max || n.Loop.P99 < 1 {
		t.Errorf("loop %+v", n.Loop)
	}
	if n.Steal < 0 || n.Steal > 1 {
		t.Errorf("steal %v", n.Steal)
	}
}

func TestMeasuringEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := MeasureTimer(ctx, 1000, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("timer: %v", err)
	}
	if _, err := MeasureLoop(ctx, 1000, time.Microsecond); !errors.Is(err, context.Canceled) {
		t.Errorf("loop: %v", err)
	}
	if _, err := MeasureTimer(t.Context(), 0, time.Second); err == nil {
		t.Error("no sleeps at all are accepted")
	}
	if _, err := MeasureLoop(t.Context(), 1, time.Second); err == nil {
		t.Error("one loop is accepted, with nothing to compare it to")
	}
}
