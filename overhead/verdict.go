package overhead

import (
	"fmt"
	"math"

	"tare/stats"
	"tare/workload"
)

// power is the chance, by convention, with which an effect counts as one that
// a run could have seen.
const power = 0.8

// fewestBlocks are those below which stats shows no coverage.
const fewestBlocks = 5

// differs tells whether an interval excludes no effect: that of the ratio or, where it has
// none, that of the difference.
func differs(ratio, difference stats.Interval) bool {
	in, none := ratio, 1.0
	if math.IsNaN(in.Low) || math.IsNaN(in.High) {
		in, none = difference, 0
	}
	return in.Low > none || in.High < none
}

// judge gives the verdict on a ratio and, where the ratio has no interval (a
// count that is zero on the baseline), on the difference.
//
// An interval that lies wholly inside the smallest effect of interest is
// Equivalent even where it excludes 1: such an effect is real and small, and
// the figure beside the verdict shows it. Worse and Better need the whole
// interval on one side of 1; all else is Inconclusive. From a difference alone
// nothing can be called equivalent: the band is a relative one.
func judge(ratio, difference stats.Estimate, better workload.Better, smallest float64) Verdict {
	low, high, none := ratio.Interval.Low, ratio.Interval.High, 1.0
	if math.IsNaN(low) || math.IsNaN(high) {
		low, high, none = difference.Interval.Low, difference.Interval.High, 0
	} else if stats.EquivalentWithin(ratio, smallest) {
		return Equivalent
	}
	switch {
	case low > none && better == workload.Lower, high < none && better == workload.Higher:
		return Worse
	case high < none && better == workload.Lower, low > none && better == workload.Higher:
		return Better
	}
	return Inconclusive
}

// percent turns a ratio into percent of overhead: positive is worse.
func percent(ratio stats.Estimate, better workload.Better) (value, low, high float64) {
	value, low, high = 100*(ratio.Value-1), 100*(ratio.Interval.Low-1), 100*(ratio.Interval.High-1)
	if better == workload.Higher {
		return -value, -high, -low
	}
	return value, low, high
}

// needs says what it would take to reach a verdict: enough blocks, with 80 %
// power, to tell the effect from none if it is as large as it looks, or to fit
// its interval into the band if it is as small as it looks, whichever is easier. unit is
// what is counted: "blocks".
func needs(ratio stats.Estimate, sd float64, opt Options, unit string) (text string, number int) {
	n := ratio.N
	if n < fewestBlocks {
		return fmt.Sprintf("at least %d %s", fewestBlocks, unit), fewestBlocks
	}
	low, high := math.Log(ratio.Interval.Low), math.Log(ratio.Interval.High)
	if math.IsNaN(sd) {
		sd = (high - low) / 4 * math.Sqrt(float64(n)) // an interval is about two standard errors to either side
	}
	apparent := math.Abs(math.Log(ratio.Value))
	room := math.Log1p(opt.SmallestEffect) - apparent
	blocks := stats.BlocksNeeded(sd, math.Expm1(max(apparent, room)), opt.Level, power)
	switch {
	case math.IsNaN(apparent) || blocks == 0:
		return "", 0
	case blocks > mostNeeded:
		return fmt.Sprintf("more than %d %s", mostNeeded, unit), mostNeeded + 1
	case blocks <= n:
		// Some verdicts' methods (jackknife-t, Fieller) ask for a little more
		// than the t test that the number rests on.
		blocks = n + max(1, n/5)
	case blocks >= 100:
		blocks = (blocks + 9) / 10 * 10
	}
	return fmt.Sprintf("about %d %s", blocks, unit), blocks
}

// mostNeeded is beyond what anybody measures.
const mostNeeded = 10_000
