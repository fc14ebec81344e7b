package causes

import (
	"testing"
	"time"
)

// A step of the histogram reaches beyond what was in it: no quantile exceeds what one of
// them can have been.
func TestNoQuantileAboveTheLongest(t *testing.T) {
	for name, c := range map[string]struct {
		of      Distribution
		longest time.Duration
	}{
		"one":              {Distribution{Count: 1, Sum: 33, Steps: []Step{{32, 48, 1}}}, 33},
		"one among others": {Distribution{Count: 3, Sum: 70, Steps: []Step{{16, 32, 2}, {32, 48, 1}}}, 38},
		"many in the last": {Distribution{Count: 2, Sum: 80, Steps: []Step{{32, 48, 2}}}, 48},
		// What was read while it moved.
		"a sum that is too small": {Distribution{Count: 1, Sum: 3, Steps: []Step{{32, 48, 1}}}, 32},
	} {
		for _, q := range []float64{0.5, 0.99, 1} {
			got := c.of.Quantile(q)
			if got > c.longest {
				t.Errorf("%s: the quantile %g is %v, more than %v", name, q, got, c.longest)
			}
		}
		if got := c.of.Quantile(1); got != c.longest {
			t.Errorf("%s: the longest is %v, want %v", name, got, c.longest)
		}
	}
}
