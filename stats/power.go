package stats

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/stat/distuv"
)

// mostBlocks bounds the sample sizes that are searched and given: whoever
// needs more needs another experiment.
const mostBlocks = 1 << 30

// SteinBlocks is the total number of blocks, pilot included, that the two-stage
// procedure of Stein (1945) asks for: with that many, the t interval on the log
// scale is at most halfWidth wide to either side with probability level or more,
// whatever the true spread. halfWidth is a ratio-effect: 0.02 wants an interval
// between the estimate over 1.02 and the estimate times 1.02. pilotSD is the
// pilot's [LogSD]. 0 where it is unknown: fewer than two pilot blocks, or an
// argument out of range.
func SteinBlocks(pilotSD float64, pilotN int, halfWidth, level float64) int {
	if pilotN < 2 || !(pilotSD >= 0) || math.IsInf(pilotSD, 0) || !(halfWidth > 0) || !(level > 0 && level < 1) {
		return 0
	}
	t := tQuantile(1-(1-level)/2, float64(pilotN-1))
	root := t * pilotSD / math.Log1p(halfWidth)
	if root*root >= mostBlocks {
		return mostBlocks
	}
	return max(pilotN, int(math.Ceil(root*root)))
}

// DetectableEffect is the smallest ratio-effect (0.012 is 1.2 %) that a paired
// t test at 1-level would have found with probability power in n blocks whose
// log ratios have standard deviation sd. NaN where it is unknown: fewer
// than two blocks, or an argument out of range.
func DetectableEffect(sd float64, n int, level, power float64) float64 {
	if n < 2 || !(sd > 0) || math.IsInf(sd, 0) || !(level > 0 && level < 1) || !(power > 1-level && power < 1) {
		return math.NaN()
	}
	return math.Expm1(detectable(design{n, level, power}) * sd / math.Sqrt(float64(n)))
}

// design is what the power of a test follows from, beside the effect.
type design struct {
	n            int
	level, power float64
}

// shifts holds what [detectable] has found: an analysis asks for the same design at each
// of its comparisons.
var shifts sync.Map // of design to float64

// detectable is how many standard errors the mean must be away from zero for a test of
// this design to find it. The power grows with the shift, so bisection finds where it passes.
func detectable(d design) float64 {
	if known, ok := shifts.Load(d); ok {
		return known.(float64)
	}
	low, high := 0.0, 1.0
	for tPower(high, d.n, d.level) < d.power {
		low, high = high, 2*high
	}
	for range 60 {
		middle := low + (high-low)/2
		if tPower(middle, d.n, d.level) < d.power {
			low = middle
		} else {
			high = middle
		}
	}
	shifts.Store(d, high)
	return high
}

// BlocksNeeded is the number of blocks with which a paired t test at 1-level
// finds a ratio-effect (0.02 is 2 %) with probability power, where log ratios
// have standard deviation sd. 0 where it is unknown: an argument out of range.
func BlocksNeeded(sd, effect, level, power float64) int {
	if !(sd > 0) || math.IsInf(sd, 0) || !(effect > 0) || !(level > 0 && level < 1) || !(power > 1-level && power < 1) {
		return 0
	}
	standardised := math.Log1p(effect) / sd
	enough := func(n int) bool { return tPower(standardised*math.Sqrt(float64(n)), n, level) >= power }
	low, high := 1, 2
	for !enough(high) {
		if high >= mostBlocks {
			return mostBlocks
		}
		low, high = high, 2*high
	}
	for high-low > 1 {
		middle := low + (high-low)/2
		if enough(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// tPower is the probability that a two-sided one-sample t test at 1-level on n
// values rejects, where the mean is shift standard errors away from zero: the
// tails of the noncentral t, by integrating the normal over the distribution of
// the estimated standard deviation.
func tPower(shift float64, n int, level float64) float64 {
	critical := tQuantile(1-(1-level)/2, float64(n-1))
	if n > 10000 { // the estimated standard deviation is then as good as the true one
		return distuv.UnitNormal.CDF(shift-critical) + distuv.UnitNormal.CDF(-shift-critical)
	}
	degrees := float64(n - 1)
	logGamma, _ := math.Lgamma(degrees / 2)
	// Density of s/sigma, where degrees * s^2/sigma^2 is chi-squared.
	density := func(s float64) float64 {
		if s == 0 {
			if degrees == 1 {
				return math.Sqrt(2 / math.Pi)
			}
			return 0
		}
		return math.Exp(math.Ln2 + degrees/2*math.Log(degrees/2) - logGamma + (degrees-1)*math.Log(s) - degrees*s*s/2)
	}
	integrand := func(s float64) float64 {
		return density(s) * (distuv.UnitNormal.CDF(shift-critical*s) + distuv.UnitNormal.CDF(-shift-critical*s))
	}
	// s lies within ten of its standard deviations, about 1/sqrt(2 degrees), of 1.
	reach := 10 / math.Sqrt(2*degrees)
	return simpson(integrand, max(0, 1-reach), 1+reach)
}

// simpson integrates a smooth function.
func simpson(f func(float64) float64, from, to float64) float64 {
	const steps = 400
	h := (to - from) / steps
	total := f(from) + f(to)
	for i := 1; i < steps; i++ {
		weight := 2.0
		if i%2 == 1 {
			weight = 4
		}
		total += weight * f(from+float64(i)*h)
	}
	return total * h / 3
}
