package load

import (
	"math"
	"testing"
	"time"
)

func moments(o Options) []time.Duration {
	s := newSequence(o)
	var all []time.Duration
	for {
		at, ok := s.next()
		if !ok {
			return all
		}
		all = append(all, at)
	}
}

func TestUniformScheduleDoesNotDrift(t *testing.T) {
	all := moments(Options{Rate: 3, Duration: 1000 * time.Second})
	if len(all) != 3000 {
		t.Fatalf("%d moments, want 3000", len(all))
	}
	if last, want := all[2999], 2999*time.Second/3; (last - want).Abs() > time.Nanosecond {
		t.Errorf("last moment %v, want %v", last, want)
	}
}

func TestPoissonSchedule(t *testing.T) {
	o := Options{Rate: 1000, Arrival: Poisson, Seed: 7, Count: 100_000}
	all := moments(o)
	var sum, squares float64
	var last time.Duration
	for _, at := range all {
		gap := (at - last).Seconds() * o.Rate
		if gap < 0 {
			t.Fatalf("moment %v before %v", at, last)
		}
		sum += gap
		squares += gap * gap
		last = at
	}
	n := float64(len(all))
	mean := sum / n
	// Exponential gaps have a mean and a standard deviation of 1; five
	// standard errors wide, for a fixed seed.
	if deviation := math.Sqrt(squares/n - mean*mean); math.Abs(mean-1) > 0.016 || math.Abs(deviation-1) > 0.03 {
		t.Errorf("gaps have mean %.4f and deviation %.4f, want 1 and 1", mean, deviation)
	}
	again, other := moments(o), moments(Options{Rate: 1000, Arrival: Poisson, Seed: 8, Count: 100_000})
	if again[99_999] != all[99_999] {
		t.Error("the same seed gave another schedule")
	}
	if other[99_999] == all[99_999] {
		t.Error("another seed gave the same schedule")
	}
}

func TestScheduleBounds(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want int
	}{
		{"duration", Options{Rate: 10, Duration: time.Second}, 10},
		{"duration after warm-up", Options{Rate: 10, Warmup: time.Second, Duration: time.Second}, 20},
		{"count after warm-up", Options{Rate: 10, Warmup: time.Second, Count: 5}, 15},
		{"count first", Options{Rate: 10, Duration: time.Second, Count: 3}, 3},
		{"duration first", Options{Rate: 10, Duration: time.Second, Count: 30}, 10},
	} {
		if got := len(moments(c.o)); got != c.want {
			t.Errorf("%s: %d moments, want %d", c.name, got, c.want)
		}
	}
}

func TestBacklog(t *testing.T) {
	s := newSchedule(Options{Rate: 10, Duration: 2 * time.Second}) // moments at 0, 100 ms, ... 1.9 s
	take := func(now, want time.Duration, backlog int64) {
		t.Helper()
		at, ok := s.take(now)
		if !ok || at != want || s.backlogMax != backlog {
			t.Fatalf("at %v: took %v (%v), backlog %d; want %v and %d", now, at, ok, s.backlogMax, want, backlog)
		}
	}
	take(0, 0, 0)
	take(0, 100*time.Millisecond, 0)
	// At 1.05 s, 0.2 to 1.0 s are overdue; the first of them is taken.
	take(1050*time.Millisecond, 200*time.Millisecond, 8)
	take(1050*time.Millisecond, 300*time.Millisecond, 8)
	if s.drained(2*time.Second, time.Second) {
		t.Error("drained a tenth of a second after the last moment, with a second's grace")
	}
	if !s.drained(2950*time.Millisecond, time.Second) {
		t.Error("not drained more than a second after the last moment")
	}
}
