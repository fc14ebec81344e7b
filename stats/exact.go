package stats

import "math"

// MethodExact is that of values of which each repetition has the same.
const MethodExact Method = "exact"

// Exact tells that all values of a sample are the same whole number, and all of the other,
// and that both have the five from which coverage is shown. Of n values a side that vary at
// random and have one distribution, at most 2/4^n differ so: 0.2 % of five.
func Exact(base, treatment []float64) bool {
	for _, side := range [][]float64{base, treatment} {
		if len(side) < shown || each(side, finite) != nil {
			return false
		}
		for _, v := range side {
			if v != side[0] || v != math.Trunc(v) {
				return false
			}
		}
	}
	return true
}

// ExactRatio is the ratio of two samples that are [Exact]: its interval has no width. Zero
// has no ratio.
func ExactRatio(base, treatment []float64, level float64) Estimate {
	n := min(len(base), len(treatment))
	if bound := 2 / math.Pow(4, float64(n)); bound > 1-level {
		return undefined(n, level, MethodExact, "%d equal values show no difference at the level %.4f", n, level)
	}
	if !(base[0] > 0) || !(treatment[0] > 0) {
		return undefined(n, level, MethodExact, "no ratio: a value is not positive")
	}
	return exactly(treatment[0]/base[0], n, level)
}

// ExactDifference is the difference of two samples that are [Exact].
func ExactDifference(base, treatment []float64, level float64) Estimate {
	return exactly(treatment[0]-base[0], min(len(base), len(treatment)), level)
}

func exactly(v float64, n int, level float64) Estimate {
	return Estimate{Value: v, Interval: Interval{Low: v, High: v, Level: level}, N: n, Method: string(MethodExact)}
}
