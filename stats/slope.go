package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// MethodTheilSen is the median of the slopes between all pairs of points, with
// the interval that inverts Kendall's test for a trend.
const MethodTheilSen Method = "Theil-Sen"

// Slope estimates by how much y rises with x: the median of the slopes of all
// pairs of points (Theil 1950), which a third of wild points does not move, with
// Sen's (1968) interval from the normal approximation to Kendall's statistic,
// corrected for tied y. Its level holds for independent errors; of points that
// hang together (successive latencies of a queue) the interval is too narrow.
// Pairs of the same x have no slope and are left out; with fewer than three
// points or no two different x nothing is estimated.
func Slope(x, y []float64, level float64) Estimate {
	n := min(len(x), len(y))
	x, y = x[:n], y[:n]
	if n < fewest {
		return undefined(n, level, MethodTheilSen, "need at least %d points for a slope, have %d", fewest, n)
	}
	slopes := make([]float64, 0, n*(n-1)/2)
	for i := range n {
		for j := i + 1; j < n; j++ {
			if x[i] != x[j] {
				slopes = append(slopes, (y[j]-y[i])/(x[j]-x[i]))
			}
		}
	}
	if len(slopes) == 0 {
		return undefined(n, level, MethodTheilSen, "all points have the same x")
	}
	for _, s := range slopes {
		if math.IsNaN(s) || math.IsInf(s, 0) {
			return undefined(n, level, MethodTheilSen, "a point is not a number")
		}
	}
	slices.Sort(slopes)
	e := unknown(n, level, MethodTheilSen)
	e.Value = middle(slopes)
	// Kendall's statistic has this deviation where there is no trend; the
	// interval holds the slopes that, taken off, leave none.
	spread := distuv.UnitNormal.Quantile((1+level)/2) * math.Sqrt(kendallVariance(y))
	half := float64(len(slopes))
	low := int(math.Floor((half-spread)/2)) - 1
	high := int(math.Ceil((half + spread) / 2))
	if low < 0 || high >= len(slopes) || low > high {
		e.warn("too few points for an interval of the slope")
		return e
	}
	e.Interval.Low, e.Interval.High = slopes[low], slopes[high]
	return e
}

// kendallVariance is that of the number of rising less that of falling pairs
// among n exchangeable values, with Kendall's (1975) correction for ties.
func kendallVariance(y []float64) float64 {
	n := len(y)
	ties := map[float64]int{}
	for _, v := range y {
		ties[v]++
	}
	variance := float64(n*(n-1)) * float64(2*n+5)
	for _, t := range ties {
		variance -= float64(t*(t-1)) * float64(2*t+5)
	}
	return max(variance, 0) / 18
}
