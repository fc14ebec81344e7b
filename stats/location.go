package stats

import (
	"fmt"
	"math"
	"slices"
)

// location is the centre of a sample and an interval for it, on the scale of
// the sample.
type location struct {
	value, low, high float64
	method           Method
	warnings         []string
}

// Of what values are, for warnings.
const (
	ofBlocks = "blocks"
	ofRounds = "rounds"
)

// locate estimates the centre of x by method. It answers the same for any order
// of x, and the mirror image for -x, to the last digit that floating point
// allows. Values that differ by no more than resolution count as equal: it is
// the rounding in the arithmetic that led to x.
func locate(method Method, x []float64, resolution, level float64, seed int64) location {
	return locateIn(ofBlocks, method, x, resolution, level, seed)
}

// locateIn is locate for values of other things than blocks.
func locateIn(things string, method Method, x []float64, resolution, level float64, seed int64) location {
	loc := location{value: math.NaN(), low: math.NaN(), high: math.NaN(), method: method}
	n := len(x)
	if n == 0 {
		loc.warn("no %s: nothing to estimate from", things)
		return loc
	}

	s := newSample(x)
	if loc.method == MethodHodgesLehmann {
		loc.value = s.restore(s.pseudomedian())
	} else {
		loc.value = s.restore(s.mean)
	}
	switch {
	case !(level > 0 && level < 1):
		loc.warn("level %v is not between 0 and 1: no interval", level)
		return loc
	case n < fewest:
		loc.warn("need at least %d %s for an interval, have %d", fewest, things, n)
		return loc
	case s.x[n-1]-s.x[0] <= resolution:
		loc.warn("all %d values are equal: their spread, and so an interval, is unknown", n)
		return loc
	}

	var low, high float64
	switch loc.method {
	case MethodT:
		low, high = s.studentT(level)
	case MethodBootstrapT:
		low, high = s.bootstrapT(level, seed)
	case MethodBCa:
		low, high = s.bca(level, seed)
	case MethodHodgesLehmann:
		var reached float64
		low, high, reached = s.hodgesLehmann(level)
		if reached < level {
			loc.warn("%d %s reach at most %.1f %% by Hodges-Lehmann, less than the %g %% asked for", n, things, 100*reached, 100*level)
		}
	default:
		loc.warn("method %q is not one for paired values or means", method)
		return loc
	}
	if math.IsInf(low, 0) || math.IsInf(high, 0) || math.IsNaN(low) || math.IsNaN(high) {
		loc.warn("%d %s are too few for an interval by %s", n, things, loc.method)
		return loc
	}
	loc.low, loc.high = s.restore(low), s.restore(high)
	if s.flipped {
		loc.low, loc.high = loc.high, loc.low
	}
	loc.warnings = append(loc.warnings, s.warnings(things, loc.method)...)
	return loc
}

func (l *location) warn(format string, args ...any) {
	l.warnings = append(l.warnings, fmt.Sprintf(format, args...))
}

// sample is a set of values in canonical form: deviations from the median, in
// ascending order, turned so that the longer tail is on the right. Resampling
// by rank from this form makes a bootstrap blind to the order of blocks and
// even-handed between an effect and its inverse.
type sample struct {
	x       []float64
	median  float64
	flipped bool
	mean    float64 // of x
	sd      float64 // of x
}

func newSample(values []float64) sample {
	s := sample{x: slices.Clone(values)}
	slices.Sort(s.x)
	s.median = middle(s.x)
	var skew float64
	for i := range s.x {
		s.x[i] -= s.median
		skew += s.x[i] * s.x[i] * s.x[i]
	}
	if skew < 0 {
		s.flipped = true
		slices.Reverse(s.x)
		for i := range s.x {
			s.x[i] = -s.x[i]
		}
	}
	s.mean, s.sd = meanSD(s.x)
	return s
}

// restore takes a value from the canonical form back to the scale of the sample.
func (s *sample) restore(v float64) float64 {
	if s.flipped {
		v = -v
	}
	return v + s.median
}

// middle is the median of sorted values.
func middle(sorted []float64) float64 {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return sorted[n/2-1] + (sorted[n/2]-sorted[n/2-1])/2
}

// meanSD gives the mean and the standard deviation (divisor n-1) in two passes.
func meanSD(x []float64) (mean, sd float64) {
	n := float64(len(x))
	for _, v := range x {
		mean += v
	}
	mean /= n
	if n < 2 {
		return mean, math.NaN()
	}
	var ss float64
	for _, v := range x {
		ss += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(ss / (n - 1))
}
