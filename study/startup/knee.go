package startup

import (
	"context"
	"fmt"
	"math"

	"tare/lab"
	"tare/stats"
)

// The knee is the highest rate at which the backlog does not grow. A trial
// searches it anew, from the same rate: outward until one rate is kept up with
// and another is not, then inward, halving the gap on the log scale. What
// separates the two is growthOf; a rate whose growth is within its own error of
// the limit is tried again, up to kneeTries times, and decided by the mean. What
// errors are left make one search differ from the next, and the searches of the
// blocks give the interval.
const (
	// kneeGrowth is the share of arrivals that piles up from which a rate counts
	// as not kept up with. In the long run it does at a rate one nineteenth above
	// capacity.
	kneeGrowth = 0.05
	// kneeGap is the ratio of the bounds at which a search ends; the knee is
	// their geometric mean.
	kneeGap = 1.12
	// kneeSeconds is how long a rate is tried, kneeFewest and kneeMost bound
	// the starts that this makes.
	kneeSeconds = 4
	kneeFewest  = 24
	kneeMost    = 96
	kneeTries   = 3
	// A search begins at firstGuess and goes outward by kneeStride, between
	// lowestKnee and highestKnee.
	firstGuess  = 6
	kneeStride  = 2
	lowestKnee  = 0.1
	highestKnee = 500
)

// kneeCount is how many starts a rate is tried with.
func kneeCount(rate float64) int {
	return int(min(max(math.Ceil(rate*kneeSeconds), kneeFewest), kneeMost))
}

// searchKnee finds the highest rate that keeps reports as sustained, beginning
// with from. bounded is false where even the highest is: knee is then that. It is
// an error where not even the lowest is.
func searchKnee(from float64, keeps func(rate float64) (bool, error)) (knee float64, bounded bool, err error) {
	low, high := 0.0, math.Inf(1)
	for rate := from; low == 0 || math.IsInf(high, 1); {
		ok, err := keeps(rate)
		switch {
		case err != nil:
			return 0, false, err
		case ok && rate >= highestKnee:
			return highestKnee, false, nil
		case ok:
			low = rate
			rate = min(rate*kneeStride, highestKnee)
		case rate <= lowestKnee:
			return 0, false, fmt.Errorf("not even %g starts per second are sustained", float64(lowestKnee))
		default:
			high = rate
			rate = max(rate/kneeStride, lowestKnee)
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

// decide reports whether a rate is sustained, from as many tries of it as it
// takes.
func decide(try func() (stats.Estimate, error)) (bool, error) {
	var sum float64
	for n := 1; ; n++ {
		g, err := try()
		if err != nil {
			return false, err
		}
		if math.IsNaN(g.Value) {
			return false, nil // too few succeeded to speak of keeping up
		}
		sum += g.Value
		clear := !(g.Interval.Low <= kneeGrowth && g.Interval.High > kneeGrowth)
		if n == kneeTries || n == 1 && clear {
			return sum/float64(n) <= kneeGrowth, nil
		}
	}
}

// knee is a trial that searches the knee.
type knee struct {
	ramp
	from float64 // the rate where each search begins
}

func (k knee) run(ctx context.Context, b lab.Bench) error {
	if b.WarmUp() {
		r := k.ramp
		r.rate, r.count = k.from, warmUpCount
		_, _, err := r.measure(ctx, b)
		return err
	}
	failures, tries := 0, 0
	found, bounded, err := searchKnee(k.from, func(rate float64) (bool, error) {
		r := k.ramp
		r.rate, r.count = rate, kneeCount(rate)
		return decide(func() (stats.Estimate, error) {
			timings, _, err := r.measure(ctx, b)
			tries++
			if _, none := err.(*NothingStarted); none {
				failures += r.count
				return stats.Estimate{Value: math.NaN()}, nil
			}
			if err != nil {
				return stats.Estimate{}, err
			}
			now := failuresOf(timings)
			failures += now
			g := growthOf(timings, 0.95)
			if now > 0 {
				g.Value = math.NaN() // a rate whose starts fail is not kept up with either
			}
			return g, nil
		})
	})
	if err != nil {
		return err
	}
	b.Record(kneeRate, found)
	b.Record(failed, float64(failures))
	b.Covariate("ramps_tried", float64(tries))
	if !bounded {
		b.Covariate("knee_beyond", 1)
	}
	return nil
}
