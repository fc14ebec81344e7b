package stats

import (
	"math"
	"slices"
)

// Trim is the share of strips that a round's typical ratio leaves out at each end
// ([TrimmedMean]): what is left is close to the median. It is the same for every metric and
// every run: a trim that is chosen after the data are seen chooses the result.
//
// On a shared host a fifth to two fifths of all slices are disturbed, and of the ratios of two
// slices up to two thirds. A trim of 20 % keeps many of these.
const Trim = 0.4

// TrimmedMean is the mean of what remains of x when floor(share * n) of its n values are
// left out at each end, of the lowest and of the highest, but never so many that fewer than
// two remain. share lies from 0, the mean, to
// below 0.5. NaN where x is empty, or an argument is out of range or not finite.
func TrimmedMean(x []float64, share float64) float64 {
	if len(x) == 0 || !(share >= 0 && share < 0.5) || each(x, finite) != nil {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(x))
	g := trimmed(len(x), share)
	mean, _ := meanSD(sorted[g : len(sorted)-g])
	return mean
}

// trimmed is how many of n values are left out at each end.
func trimmed(n int, share float64) int {
	const slack = 1e-9 // in floating point, 0.29 * 100 is below 29
	return max(0, min(int(share*float64(n)+slack), (n-2)/2))
}

// RoundMean estimates an effect from the log ratio that each round found: the exponential
// of their mean, with Student's t over rounds. Rounds are the independent units: strips of
// one round share its launches.
func RoundMean(logRatios []float64, level float64) Estimate {
	n := len(logRatios)
	if err := each(logRatios, finite); err != nil {
		return undefined(n, level, MethodT, "no ratio: %v", err)
	}
	return locateIn(ofRounds, MethodT, logRatios, rounding*max(1, largest(logRatios)), level, 0).exponential(n, level)
}

// Stalls estimates by what factor the ratio of totals exceeds the typical ratio, from the
// log ratios that each round found of either. It differs from 1 where a condition changes
// how often the program stalls, or for how long: the typical ratio leaves stalls out, and
// totals hold them. notExcluded is the largest such change, in either direction, that the
// interval leaves possible, as a ratio-effect (0.01 is 1 %); NaN where there is no interval.
func Stalls(total, typical []float64, level float64) (difference Estimate, notExcluded float64) {
	n := min(len(total), len(typical))
	if err := paired(typical, total, finite); err != nil {
		return undefined(n, level, MethodT, "no difference: %v", err), math.NaN()
	}
	differences := make([]float64, n)
	for i := range differences {
		differences[i] = total[i] - typical[i]
	}
	resolution := rounding * max(1, largest(total), largest(typical))
	l := locateIn(ofRounds, MethodT, differences, resolution, level, 0)
	return l.exponential(n, level), math.Expm1(max(math.Abs(l.low), math.Abs(l.high)))
}
