package stats

import (
	"math"
	"slices"
)

// Trim is the share that [TrimmedMean] leaves out at each end of contrasts, which are as
// likely to be too large as too small.
const Trim = 0.2

// SlowTrim and FastTrim are the shares of an instance's strips that [Typical] leaves out:
// of the slowest and of the fastest. They are the same for every metric and every run: a
// trim that is chosen after the data are seen chooses the result.
const (
	SlowTrim = 0.4
	FastTrim = 0.1
)

// Typical is the level of an instance in a round, from the logarithms of its strips' speeds
// (of a time or a cost, those of its inverse): their mean without the floor(SlowTrim * n)
// slowest and the floor(FastTrim * n) fastest. What disturbs a host only ever slows, so that
// the slow end holds the disturbances and the fast end hardly any. Two instances are compared
// by the difference of their levels, on strips that both have. The mean of ratios of two
// single strips is less precise, and that of a strip to the mean of several is biased: the
// mean of two is disturbed more often than one. NaN where x is empty or not finite.
func Typical(logSpeeds []float64) float64 { return meanWithout(logSpeeds, SlowTrim, FastTrim) }

func meanWithout(x []float64, low, high float64) float64 {
	if len(x) == 0 || each(x, finite) != nil {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(x))
	mean, _ := meanSD(sorted[trimmed(len(x), low) : len(x)-trimmed(len(x), high)])
	return mean
}

// TypicalParts are values, one a strip in the order of the strips, whose mean is [Typical]
// and whose spread is what each strip contributes to its variance: the winsorised values,
// spread by one over the share that is kept (Tukey and McLaughlin 1963; Huber, Robust
// Statistics, 1981, 3.2). The difference of those of two instances is a series for
// [VarianceComponents] with no trim.
func TypicalParts(logSpeeds []float64) []float64 {
	n := len(logSpeeds)
	center := Typical(logSpeeds)
	if math.IsNaN(center) {
		return nil
	}
	sorted := slices.Sorted(slices.Values(logSpeeds))
	low, high := trimmed(n, SlowTrim), trimmed(n, FastTrim)
	parts := make([]float64, n)
	for i, v := range logSpeeds {
		parts[i] = min(max(v, sorted[low]), sorted[n-1-high])
	}
	mean, _ := meanSD(parts)
	for i, v := range parts {
		parts[i] = center + (v-mean)*float64(n)/float64(n-low-high)
	}
	return parts
}

// TrimmedMean is the mean of what remains of x when floor(share * n) of its n values are
// left out at each end: of the lowest and of the highest. share lies from 0, the mean, to
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
	return int(share*float64(n) + slack)
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
