package stats

import (
	"fmt"
	"math"
)

// MethodWelch is Student's t on the difference of two means of which each spreads in
// its own way.
const MethodWelch Method = "Welch"

// UnpairedRatio estimates by what factor treatment differs from base, where nothing
// pairs the values of the one with those of the other: the ratio of the geometric
// means. The interval is that of Welch (1947) on the log scale, with Satterthwaite's
// degrees of freedom. All values must be positive. N is the smaller number of values.
func UnpairedRatio(base, treatment []float64, level float64) Estimate {
	a, b, err := bothLogs(base, treatment)
	if err != nil {
		return undefined(min(len(base), len(treatment)), level, MethodWelch, "no ratio: %v", err)
	}
	return welch(a, b, rounding*max(1, largest(a), largest(b)), level).exponential(min(len(a), len(b)), level)
}

// UnpairedDifference estimates by how much treatment exceeds base, in their unit,
// where nothing pairs their values: the difference of the means, by Welch. Values may
// be zero or negative.
func UnpairedDifference(base, treatment []float64, level float64) Estimate {
	n := min(len(base), len(treatment))
	for _, side := range [][]float64{base, treatment} {
		if err := each(side, finite); err != nil {
			return undefined(n, level, MethodWelch, "no difference: %v", err)
		}
	}
	return welch(base, treatment, rounding*max(largest(base), largest(treatment)), level).estimate(n, level)
}

// UnpairedLogSD is the standard deviation of the difference of two logarithms, one
// of each side: what [LogSD] is of pairs, to be asked of [DetectableEffect] and
// [BlocksNeeded] for as many values on each side. NaN below two values on a side, or
// where one is not positive.
func UnpairedLogSD(base, treatment []float64) float64 {
	a, b, err := bothLogs(base, treatment)
	if err != nil || len(a) < 2 || len(b) < 2 {
		return math.NaN()
	}
	_, sa := meanSD(a)
	_, sb := meanSD(b)
	return math.Hypot(sa, sb)
}

// welch locates the difference of the means of b and a. Spreads that are no more than
// resolution are the rounding of equal values.
func welch(a, b []float64, resolution, level float64) location {
	loc := location{value: math.NaN(), low: math.NaN(), high: math.NaN(), method: MethodWelch}
	if len(a) == 0 || len(b) == 0 {
		loc.warn("no values on one side: nothing to estimate from")
		return loc
	}
	difference, se, degrees := welchTerms(a, b)
	loc.value = difference
	switch {
	case !(level > 0 && level < 1):
		loc.warn("level %v is not between 0 and 1: no interval", level)
		return loc
	case len(a) < fewest || len(b) < fewest:
		loc.warn("need at least %d values on each side for an interval, have %d and %d", fewest, len(a), len(b))
		return loc
	case !(se > resolution):
		loc.warn("all values of a side are equal: their spread, and so an interval, is unknown")
		return loc
	}
	half := tQuantile(1-(1-level)/2, degrees) * se
	loc.low, loc.high = difference-half, difference+half
	if len(a) < shown || len(b) < shown {
		loc.warn("need at least %d values on each side, have %d and %d: below, no coverage has been simulated", shown, len(a), len(b))
	}
	return loc
}

// welchTerms are the difference of the means, its standard error (NaN below two
// values on a side), and Satterthwaite's degrees of freedom.
func welchTerms(a, b []float64) (difference, se, degrees float64) {
	ma, sa := meanSD(a)
	mb, sb := meanSD(b)
	va, vb := sa*sa/float64(len(a)), sb*sb/float64(len(b))
	degrees = (va + vb) * (va + vb) / (va*va/float64(len(a)-1) + vb*vb/float64(len(b)-1))
	return mb - ma, math.Sqrt(va + vb), degrees
}

// bothLogs gives the logarithms of two samples that are not paired.
func bothLogs(base, treatment []float64) (a, b []float64, err error) {
	for _, side := range []struct {
		of   string
		from []float64
		to   *[]float64
	}{{"baseline", base, &a}, {"condition", treatment, &b}} {
		if err := each(side.from, positive); err != nil {
			return nil, nil, fmt.Errorf("%s, %w", side.of, err)
		}
		for _, v := range side.from {
			*side.to = append(*side.to, math.Log(v))
		}
	}
	return a, b, nil
}
