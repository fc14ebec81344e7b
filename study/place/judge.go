package place

import (
	"fmt"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/probe/bursts"
	"tare/stats"
)

// Judged is the result of a change.
type Judged struct {
	// Wait is by what factor the p99 of the waits of those that answer changed, and
	// Others by what the CPU time of those that compute did.
	Wait, Others stats.Estimate
	// Without and With are the p99s themselves, in nanoseconds.
	Without, With stats.Estimate
	// Fair is the share of the CPUs that those that compute had a right to, in
	// CPUs; OthersWithout and OthersWith what they had.
	Fair, OthersWithout, OthersWith float64
	// Each is what came of it for every container that it concerns, by itself.
	Each []Beside
	Kept bool
	Why  string
}

const level = 0.95

// keepsOf is how much of what is theirs those that compute must keep: the rest
// is what windows differ by.
const keepsOf = 0.95

// judge decides whether a change stays. It does where the p99 of the waits of
// those that answer is wholly lower with it, by its 95 % interval over the pairs
// of windows, and those that compute still have 95 % of the lesser of what they had
// without it and their fair share: the part of the contested CPUs
// that their shares (weights) give them. A gain for the one side that is bought by
// less than that for the other is no gain.
//
// Nor is one that is bought from whoever else the change concerns: each that answers
// must not wait longer by an interval that is wholly above, and each but those for
// whose sake it is done must keep as much of what is its own; see [beside].
func judge(windows []Window, fair float64, all []Concerned, seed int64) Judged {
	var waits [2][]*hdrhistogram.Histogram
	var others [2][]float64
	for _, with := range []bool{false, true} {
		side := 0
		if with {
			side = 1
		}
		for _, w := range byPair(windows, with) {
			waits[side] = append(waits[side], hdr(&w.Waits))
			others[side] = append(others[side], w.Others)
		}
	}
	j := Judged{
		Wait:    stats.QuantileRatio(waits[0], waits[1], 0.99, level, seed),
		Without: stats.Quantile(waits[0], 0.99, level, seed),
		With:    stats.Quantile(waits[1], 0.99, level, seed),
		Others:  stats.PairedRatio(others[0], others[1], level, seed),
		Fair:    fair, OthersWithout: mean(others[0]), OthersWith: mean(others[1]),
		Each: beside(windows, all, seed),
	}
	harmed := slices.IndexFunc(j.Each, func(b Beside) bool { return b.Harm != "" })
	theirs := min(j.OthersWithout, fair)
	switch {
	case !j.Wait.Known():
		j.Why = "its effect on waits is unknown: too few waits, or windows"
	case j.Wait.Interval.Low > 1:
		j.Why = "latency-critical containers wait longer with the change"
	case j.Wait.Interval.High >= 1:
		j.Why = "waits of latency-critical containers do not change significantly"
	case j.OthersWith < keepsOf*theirs:
		j.Why = fmt.Sprintf("latency-critical containers wait less, but CPU-bound ones have only %s CPUs, of the %s that are theirs",
			digits(j.OthersWith), digits(theirs))
	case harmed >= 0:
		j.Why = "latency-critical containers wait less, but another container is harmed: " + j.Each[harmed].Harm
	default:
		j.Kept, j.Why = true, "latency-critical containers wait less, and the others keep their share"
	}
	return j
}

// byPair are the windows of one side, in the order of their pairs.
func byPair(windows []Window, with bool) []Window {
	side := slices.DeleteFunc(slices.Clone(windows), func(w Window) bool { return w.With != with })
	slices.SortStableFunc(side, func(a, b Window) int { return a.Pair - b.Pair })
	return side
}

func mean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(1, len(values)))
}

// hdr hands a histogram to the estimators, each step's values spread over it.
func hdr(h *bursts.Histogram) *hdrhistogram.Histogram {
	const parts = 4
	to := hdrhistogram.New(1, int64(time.Hour), 3)
	for step, n := range h.Steps {
		width := step.High - step.Low
		for i := range uint64(parts) {
			value := step.Low + width*time.Duration(2*i+1)/(2*parts)
			// Only what is longer than an hour is refused, and no step is.
			_ = to.RecordValues(min(int64(max(value, 1)), int64(time.Hour)), int64((n+i)/parts))
		}
	}
	return to
}
