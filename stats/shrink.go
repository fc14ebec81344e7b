package stats

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// ShrinkVariances makes the estimated variances of several samples, each with its
// degrees of freedom, better ones: with few values a sample whose values happen to lie
// close together would count for far more than it is worth as a weight. Each is drawn
// towards what all have in common, the more so the fewer values it has and the more
// alike all are (the moderated variances of Smyth, Statistical Applications in Genetics
// and Molecular Biology 3 (2004), sections 4 and 6). Samples that really differ keep what
// they have. All must be positive.
func ShrinkVariances(variances []float64, freedom []int) ([]float64, error) {
	s, err := shrinkVariances(variances, freedom)
	return s.variances, err
}

// shrunk are variances that were drawn towards what all have in common.
type shrunk struct {
	variances []float64
	// freedom are the degrees of freedom of each: its own with those of what all have in common,
	// but no more than all have together.
	freedom []float64
	own     []int
	// common is with how many degrees of freedom what all have in common counts; infinite where
	// nothing says that they differ.
	common float64
	// unsure is the variance of the logarithm of what all have in common, as an estimate.
	unsure float64
}

func shrinkVariances(variances []float64, freedom []int) (shrunk, error) {
	n := len(variances)
	if len(freedom) != n {
		return shrunk{}, fmt.Errorf("shrink variances: %d of them and %d degrees of freedom", n, len(freedom))
	}
	// On the log scale, the logarithm of a variance lies about that of the truth by an
	// amount that its degrees of freedom tell.
	var mean, expected, all float64
	logs := make([]float64, n)
	for i, v := range variances {
		if err := positive(v); err != nil {
			return shrunk{}, fmt.Errorf("shrink variances: number %d: %w", i, err)
		}
		if freedom[i] < 1 {
			return shrunk{}, fmt.Errorf("shrink variances: number %d has %d degrees of freedom: want 1 or more", i, freedom[i])
		}
		half := float64(freedom[i]) / 2
		logs[i] = math.Log(v) - mathext.Digamma(half) + math.Log(half)
		mean += logs[i] / float64(n)
		expected += trigamma(half) / float64(n)
		all += float64(freedom[i])
	}
	s := shrunk{
		variances: slices.Clone(variances), freedom: slices.Repeat([]float64{all}, n), own: freedom,
		common: math.Inf(1), unsure: expected / float64(n),
	}
	if n < 2 {
		return s, nil
	}
	var scatter float64
	for _, l := range logs {
		scatter += (l - mean) * (l - mean) / float64(n-1)
	}
	if !(scatter > expected) {
		for i := range s.variances {
			s.variances[i] = math.Exp(mean) // nothing says that they differ
		}
		return s, nil
	}
	half := inverseTrigamma(scatter - expected)
	s.common, s.unsure = 2*half, scatter/float64(n)
	common := mean + mathext.Digamma(half) - math.Log(half)
	for i, v := range variances {
		d := float64(freedom[i])
		s.variances[i] = (2*half*math.Exp(common) + d*v) / (2*half + d)
		s.freedom[i] = min(all, 2*half+d)
	}
	return s, nil
}

// trigamma is the second derivative of the logarithm of the gamma function.
func trigamma(x float64) float64 { return mathext.Zeta(2, x) }

// inverseTrigamma finds where trigamma has a value above 0. It falls all the way.
func inverseTrigamma(y float64) float64 {
	low, high := 1e-8, 1e8
	for range 200 {
		middle := math.Sqrt(low * high)
		if trigamma(middle) > y {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}
