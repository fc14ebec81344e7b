package load

import (
	"math"
	"slices"
	"testing"
	"time"
)

// dueIn counts the bursts that an open loop has in its time.
func dueIn(o ActivationOptions) (n int64) {
	o.Open = true
	s := newBurstSchedule(o)
	for {
		if _, ok := s.head.next(); !ok {
			return n
		}
		n++
	}
}

// The rate of requests is that of one every Think, whatever the pattern and however
// long the bursts; how many services there are is nothing that the moments depend on.
func TestPatternsAskAtOneRate(t *testing.T) {
	// A mean of n pauses lies within five of its standard errors; that of the heavy
	// tail, which has no variance, converges as the cube root of n.
	const n = 100_000
	for _, pattern := range Patterns {
		tolerance := 0.001
		switch pattern {
		case PoissonTarget:
			tolerance = 5 / math.Sqrt(n/32)
		case HeavyTailedTarget:
			tolerance = 3 / math.Cbrt(n/32)
		}
		for _, burst := range []int{1, 32} {
			o := ActivationOptions{Pattern: pattern, Think: 150 * time.Millisecond, Burst: burst, Seed: 11, Duration: n * 150 * time.Millisecond}
			if got := float64(dueIn(o)*int64(burst)) / n; math.Abs(got-1) > tolerance {
				t.Errorf("%s in bursts of %d: %.4f of the requests wanted, tolerance %.4f", pattern, burst, got, tolerance)
			}
		}
	}
}

func TestTurnsAreAFunctionOfTheirSeed(t *testing.T) {
	draw := func(pattern Pattern, seed uint64) (pauseSum time.Duration, asked []int) {
		pause, service := pauses(pattern, seed, time.Second, 0), services(pattern, seed, 20, 0)
		for range 1000 {
			pauseSum += pause()
			asked = append(asked, service())
		}
		return pauseSum, asked
	}
	for _, pattern := range Patterns {
		pause, asked := draw(pattern, 3)
		samePause, same := draw(pattern, 3)
		otherPause, other := draw(pattern, 4)
		if pause != samePause || !slices.Equal(asked, same) {
			t.Errorf("%s: the same seed gave other turns", pattern)
		}
		if slices.Equal(asked, other) {
			t.Errorf("%s: another seed turned to the same services", pattern)
		}
		drawn := pattern == PoissonTarget || pattern == HeavyTailedTarget
		if drawn == (pause == otherPause) {
			t.Errorf("%s: pauses of two seeds add up to %v and %v", pattern, pause, otherPause)
		}
	}
}

// turned counts the bursts of each of n services.
func turned(pattern Pattern, n, bursts int) []int {
	counts := make([]int, n)
	service := services(pattern, 5, n, 0)
	for range bursts {
		counts[service()]++
	}
	return counts
}

func TestEveryNumberOfServices(t *testing.T) {
	for _, pattern := range Patterns {
		for n := 1; n <= 50; n++ {
			service := services(pattern, uint64(n), n, 0)
			for range 200 {
				if s := service(); s < 0 || s >= n {
					t.Fatalf("%s turned to service %d of %d", pattern, s, n)
				}
			}
		}
	}
}

func TestEvenPatterns(t *testing.T) {
	const n, each = 10, 10_000
	for pattern, deviations := range map[Pattern]float64{PeriodicTarget: 0, RandomTarget: 5, PoissonTarget: 5} {
		for service, count := range turned(pattern, n, n*each) {
			if math.Abs(float64(count-each)) > deviations*math.Sqrt(each) {
				t.Errorf("%s turned to service %d %d times, want about %d", pattern, service, count, each)
			}
		}
	}
	// In turn: no service comes again before all others have.
	service := services(PeriodicTarget, 5, n, 0)
	for range 3 {
		seen := map[int]bool{}
		for range n {
			seen[service()] = true
		}
		if len(seen) != n {
			t.Errorf("a round of %d turns went to %d services", n, len(seen))
		}
	}
}

// The shapes, by quantiles that are known in closed form.
func TestHeavyTail(t *testing.T) {
	const n = 100_000
	next := pauses(HeavyTailedTarget, 9, 3*time.Second, 0)
	var all []time.Duration
	for range n {
		all = append(all, next())
	}
	slices.Sort(all)
	// Of mean 3 s and shape 1.5 the least is 1 s, and what is exceeded with probability
	// p is p to the power of -2/3 seconds.
	for beyond, want := range map[float64]float64{1: 1, 0.5: 1.5874, 0.1: 4.6416, 0.01: 21.544, 0.001: 100} {
		got := all[int((1-beyond)*n)].Seconds()
		// A sample quantile's standard error, in the terms of this distribution.
		if relative := math.Abs(got/want - 1); relative > 5/1.5/math.Sqrt(beyond*n) {
			t.Errorf("exceeded with probability %v: %.3f s, want %.3f", beyond, got, want)
		}
	}

	counts := turned(HeavyTailedTarget, 4, n)
	slices.Sort(counts)
	slices.Reverse(counts)
	for rank, want := range []float64{12. / 25, 6. / 25, 4. / 25, 3. / 25} { // 1, 1/2, 1/3, 1/4 over their sum
		if got := float64(counts[rank]) / n; math.Abs(got-want) > 5*math.Sqrt(want*(1-want)/n) {
			t.Errorf("the service of rank %d has %.4f of the bursts, want %.4f", rank+1, got, want)
		}
	}
}

func TestParetoIsBounded(t *testing.T) {
	if got := pareto(1, 3); math.Abs(got-1) > 1e-12 {
		t.Errorf("the least is %v, want 1", got)
	}
	// The rarest draw that there is, of the longest mean: no sum overflows.
	o := ActivationOptions{Pattern: HeavyTailedTarget, Think: longest, Burst: 1, Seed: 1}
	s := newBurstSchedule(o)
	var last time.Duration
	for range 10_000 {
		at, ok := s.head.next()
		if !ok || at < last {
			t.Fatalf("moment %v after %v", at, last)
		}
		last = at
	}
}

// A pattern that drifts asks few services within a short time, and all of them within
// a long one.
func TestDriftingSet(t *testing.T) {
	const n = 40 // five at a time
	service := services(DriftingTarget, 2, n, 0)
	ever := map[int]int{}
	var sets []map[int]bool
	for range n {
		set := map[int]bool{}
		for range driftingStay {
			s := service()
			set[s] = true
			ever[s]++
		}
		sets = append(sets, set)
	}
	for i, set := range sets {
		if len(set) > n/driftingPart {
			t.Errorf("%d services within %d bursts, want at most %d", len(set), driftingStay, n/driftingPart)
		}
		// Once round, half way, none of those is asked that were.
		for s := range sets[(i+n/2)%n] {
			if set[s] {
				t.Errorf("service %d is asked in stays %d and %d: the set did not move on", s, i, (i+n/2)%n)
			}
		}
	}
	if len(ever) != n {
		t.Errorf("%d of %d services were asked within a round", len(ever), n)
	}
}

// What goes on after so many turns has the services and the pauses of one that was never
// parted.
func TestTurnsGoOn(t *testing.T) {
	const n, behind, then = 15, 60, 40
	for _, pattern := range Patterns {
		whole, rest := services(pattern, 3, n, 0), services(pattern, 3, n, behind)
		pause, later := pauses(pattern, 3, time.Second, 0), pauses(pattern, 3, time.Second, behind)
		for range behind {
			whole()
			pause()
		}
		for i := range then {
			if want, got := whole(), rest(); got != want {
				t.Fatalf("%s: turn %d is to %d, want %d", pattern, behind+i, got, want)
			}
			if want, got := pause(), later(); got != want && (i > 0 || got != 0) {
				t.Fatalf("%s: pause %d is %v, want %v", pattern, behind+i, got, want)
			}
		}
	}
}
