package bursts

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestStepsHoldWhatFallsIntoThem(t *testing.T) {
	for bucket := range buckets {
		low, high := bounds(bucket)
		if got := bucketOf(low); got != bucket {
			t.Fatalf("%v is counted in step %d, want %d", low, got, bucket)
		}
		if got := bucketOf(high - 1); got != bucket {
			t.Fatalf("%v is counted in step %d, want %d", high-1, got, bucket)
		}
		if bucket >= steps && float64(high-low) > float64(low)/steps {
			t.Fatalf("step %d is from %v to %v: wider than a sixteenth", bucket, low, high)
		}
	}
	if got := bucketOf(time.Hour); got != buckets-1 {
		t.Errorf("an hour is counted in step %d, want the last", got)
	}
	if got := bucketOf(-1); got != 0 {
		t.Errorf("a negative duration is counted in step %d, want the first", got)
	}
}

func TestQuantilesAreWithinAStepOfTheExact(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h Histogram
	var all []time.Duration
	for range 10_000 {
		d := time.Duration(random.ExpFloat64() * float64(300*time.Microsecond))
		all = append(all, d)
		h.Add(d)
	}
	slices.Sort(all)
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 0.999} {
		exact := all[int(q*float64(len(all)))]
		low, high := bounds(bucketOf(exact))
		step := high - low
		if got := h.Quantile(q); got < exact-step || got > exact+step {
			t.Errorf("quantile %v is %v, exactly it is %v, in a step of %v", q, got, exact, step)
		}
	}
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	if h.Count() != 10_000 || h.Sum() != sum || h.Mean() != sum/10_000 {
		t.Errorf("%d durations of %v, mean %v; want 10000 of %v", h.Count(), h.Sum(), h.Mean(), sum)
	}
}

func TestDifferenceOfHistograms(t *testing.T) {
	var before, after, want Histogram
	for i := range 100 {
		d := time.Duration(i) * time.Microsecond
		after.Add(d)
		if i < 40 {
			before.Add(d)
		} else {
			want.Add(d)
		}
	}
	got := after
	got.subtract(&before)
	if got != want {
		t.Error("what is left after taking away the first forty is not the other sixty")
	}
	got.Merge(&before)
	if got != after {
		t.Error("both parts together are not the whole")
	}
	var steps int
	for step, n := range want.Steps {
		if steps++; n == 0 || step.Low >= step.High {
			t.Errorf("the step from %v to %v holds %d", step.Low, step.High, n)
		}
		if steps == 3 {
			break
		}
	}
	if steps != 3 {
		t.Errorf("%d steps were given, want to be able to stop at 3", steps)
	}
	var none Histogram
	if none.Quantile(0.5) != 0 || none.Mean() != 0 {
		t.Error("an empty histogram has a median or a mean")
	}
}

func TestReadingSince(t *testing.T) {
	earlier := &Reading{Began: 0, Ended: 10, Lost: 1, Groups: []Group{{
		Name: "a", Counts: Counts{CPUTime: 5, Wakeups: 2}, PerCPU: []Counts{{CPUTime: 5, Wakeups: 2}},
		Behind: []Behind{{1, 7, 1}, {Others, 3, 1}},
	}}}
	later := &Reading{Began: 0, Ended: 30, Lost: 1, Groups: []Group{{
		Name: "a", Counts: Counts{CPUTime: 9, Wakeups: 3}, PerCPU: []Counts{{CPUTime: 9, Wakeups: 3}},
		Behind: []Behind{{1, 7, 1}, {Others, 9, 3}}, Waiting: []time.Duration{4},
	}, {Name: "b"}}}
	d := later.Since(earlier)
	a := d.Groups[0]
	if d.Span() != 20 || d.Lost != 0 || a.CPUTime != 4 || a.Wakeups != 1 || a.PerCPU[0].CPUTime != 4 || len(d.Groups) != 2 {
		t.Errorf("the difference is %+v over %v", a.Counts, d.Span())
	}
	if len(a.Behind) != 1 || a.Behind[0] != (Behind{Others, 6, 2}) {
		t.Errorf("waits of the second part are behind %+v, want 6 ns, twice, behind others", a.Behind)
	}
	if later.Groups[0].PerCPU[0].CPUTime != 9 || len(later.Groups[0].Behind) != 2 {
		t.Error("the later reading was changed")
	}
	if waits := a.AllWaits(); waits.Count() != 1 || a.Wait.Count() != 0 {
		t.Error("the wait that goes on is not counted once, and only where it is asked for")
	}
}
