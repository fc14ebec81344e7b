package load

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Shapes of the patterns.
const (
	// paretoShape is the tail's: of finite mean and infinite variance.
	paretoShape = 1.5
	// An eighth of the services are asked at a time by a pattern that drifts, each until
	// eight bursts for each of them have come: all have had their time after eight
	// bursts a service.
	driftingPart = 8
	driftingStay = 8
)

// The second words of the seeds only separate the uses of one.
const (
	seedPauses = 0x706175736573
	seedOrder  = 0x6f72646572
	seedTurns  = 0x7475726e73
)

// pauses gives the pauses before bursts, of that mean, without end; the first is
// before the first burst. They depend on the pattern and the seed, and on no number
// of services: those who are more get no more between them. Of those that are drawn, as
// many as after are behind; where none is drawn, the first burst is due at once.
func pauses(pattern Pattern, seed uint64, mean time.Duration, after int64) func() time.Duration {
	random := rand.New(rand.NewPCG(seed, seedPauses))
	seconds := func(s float64) time.Duration {
		return time.Duration(min(s, longest.Seconds()) * float64(time.Second))
	}
	switch pattern {
	case PoissonTarget:
		return behind(after, func() time.Duration { return seconds(random.ExpFloat64() * mean.Seconds()) })
	case HeavyTailedTarget:
		return behind(after, func() time.Duration { return seconds(pareto(1-random.Float64(), mean.Seconds())) })
	}
	var next time.Duration // the first burst is due at once
	return func() time.Duration {
		pause := next
		next = mean
		return pause
	}
}

// behind gives a sequence without so many at its beginning.
func behind[T any](after int64, next func() T) func() T {
	for range after {
		next()
	}
	return next
}

// pareto is the value that a variable of Pareto's distribution with that mean exceeds
// with probability beyond, in (0, 1]: the inverse of (least/x)^shape, where the mean is
// least times shape/(shape-1) (Johnson, Kotz and Balakrishnan, Continuous Univariate
// Distributions 1, ch. 20).
func pareto(beyond, mean float64) float64 {
	least := mean * (paretoShape - 1) / paretoShape
	return least * math.Pow(beyond, -1/paretoShape)
}

// services gives which of n services each burst turns to, without end; as many bursts as
// after are behind.
func services(pattern Pattern, seed uint64, n int, after int64) func() int {
	return behind(after, turns(pattern, seed, n))
}

// turns are those services from the first burst on.
func turns(pattern Pattern, seed uint64, n int) func() int {
	order := rand.New(rand.NewPCG(seed, seedOrder)).Perm(n)
	random := rand.New(rand.NewPCG(seed, seedTurns))
	turn := -1
	switch pattern {
	case PeriodicTarget:
		return func() int {
			turn++
			return order[turn%n]
		}
	case HeavyTailedTarget:
		bounds := zipf(n)
		return func() int {
			// The last bound is 1, which no draw reaches.
			rank, _ := slices.BinarySearchFunc(bounds, random.Float64(), func(bound, u float64) int {
				if bound <= u {
					return -1
				}
				return 1
			})
			return order[rank]
		}
	case DriftingTarget:
		window := (n + driftingPart - 1) / driftingPart
		return func() int {
			turn++
			return order[(turn/driftingStay+random.IntN(window))%n]
		}
	}
	return func() int { return random.IntN(n) }
}

// zipf gives the probabilities of n ranks, added up: each is as probable as 1 over its
// place (Zipf, Human Behavior and the Principle of Least Effort, 1949).
func zipf(n int) []float64 {
	bounds := make([]float64, n)
	var sum float64
	for i := range bounds {
		sum += 1 / float64(i+1)
		bounds[i] = sum
	}
	for i := range bounds {
		bounds[i] /= sum
	}
	return bounds
}

// newBurstSchedule has a moment for each burst. end 0 is none.
func newBurstSchedule(o ActivationOptions) *schedule {
	moments := func() *sequence {
		next := pauses(o.Pattern, o.Seed, o.pause(), o.After)
		var sum time.Duration
		return &sequence{left: -1, end: o.Duration, draw: func() time.Duration {
			sum = min(sum+next(), math.MaxInt64-longest) // the next sum does not overflow
			return sum
		}}
	}
	return &schedule{head: moments(), scout: moments()}
}
