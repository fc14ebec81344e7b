package startup

import (
	"context"
	"fmt"
	"math"

	"tare/lab"
)

// The knee is the highest rate at which the backlog does not grow. A trial
// searches it anew: outward from a guess until one rate is kept up with and
// another is not, then inward, halving the gap on the log scale. What separates
// the two is growthOf; its chance errors make one search differ from the next,
// and the searches of the blocks give the interval.
const (
	// kneeGrowth is the growth from which a rate counts as not kept up with: an
	// arrival rate one twentieth above capacity.
	kneeGrowth = 0.05
	// kneeGap is the ratio of the bounds at which a search ends; the knee is
	// their geometric mean, so a search alone is within 6 % of it.
	kneeGap = 1.12
	// kneeSeconds is how long a rate is tried, kneeFewest and kneeMost bound
	// the starts that this makes.
	kneeSeconds = 4
	kneeFewest  = 24
	kneeMost    = 96
	// firstGuess is where the first search begins.
	firstGuess = 6
)

// kneeCount is how many starts a rate is tried with.
func kneeCount(rate float64) int {
	return int(min(max(math.Ceil(rate*kneeSeconds), kneeFewest), kneeMost))
}

// searchKnee finds the highest rate that keeps says is kept up with, between
// lowest and highest. bounded is false where even the highest is: then knee is
// that. It is an error where not even the lowest is.
func searchKnee(guess, lowest, highest float64, keeps func(rate float64) (bool, error)) (knee float64, bounded bool, err error) {
	low, high := 0.0, math.Inf(1)
	rate := min(max(guess, lowest), highest)
	for stride := 1.3; low == 0 || math.IsInf(high, 1); stride *= 1.25 {
		ok, err := keeps(rate)
		switch {
		case err != nil:
			return 0, false, err
		case ok && rate >= highest:
			return highest, false, nil
		case ok:
			low = rate
			rate = min(rate*stride, highest)
		case rate <= lowest:
			return 0, false, fmt.Errorf("not even %g starts a second are kept up with", lowest)
		default:
			high = rate
			rate = max(rate/stride, lowest)
		}
	}
	for high/low > kneeGap {
		rate := math.Sqrt(low * high)
		ok, err := keeps(rate)
		if err != nil {
			return 0, false, err
		}
		if ok {
			low = rate
		} else {
			high = rate
		}
	}
	return math.Sqrt(low * high), true, nil
}

// knee is a trial that searches the knee.
type knee struct {
	ramp
	guess *float64 // where the next search begins; the same platform's last knee
}

func (k knee) run(ctx context.Context, b lab.Bench) error {
	if b.WarmUp() {
		r := k.ramp
		r.rate, r.count = *k.guess, warmUpCount
		_, err := r.measure(ctx, b)
		return err
	}
	failures := 0
	tried := 0
	found, bounded, err := searchKnee(*k.guess, MinRate*10, MaxRate/2, func(rate float64) (bool, error) {
		r := k.ramp
		r.rate, r.count = rate, kneeCount(rate)
		timings, err := r.measure(ctx, b)
		if err != nil {
			return false, err
		}
		tried++
		now := failuresOf(timings)
		failures += now
		g := growthOf(timings, 0.95)
		if math.IsNaN(g.Value) {
			return false, fmt.Errorf("at %.3g starts a second too few succeeded to tell whether it is kept up with", rate)
		}
		// A rate whose starts fail is not kept up with either.
		return g.Value <= kneeGrowth && now == 0, nil
	})
	if err != nil {
		return err
	}
	*k.guess = found
	b.Record(kneeRate, found)
	b.Record(failed, float64(failures))
	b.Covariate("rates_tried", float64(tried))
	if !bounded {
		b.Covariate("knee_beyond", 1)
	}
	return nil
}
