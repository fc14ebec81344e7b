package overhead

import "math"

// trendPValue is the two-sided p-value of the test for a monotonic trend by
// Mann (1945) on Kendall's rank correlation with order: exact for up to 50
// values that all differ, by the normal approximation with Kendall's (1975)
// correction for ties otherwise.
func trendPValue(y []float64) float64 {
	n := len(y)
	if n < 2 {
		return 1
	}
	s := 0
	ties := map[float64]int{}
	for i := range y {
		ties[y[i]]++
		for j := i + 1; j < n; j++ {
			switch {
			case y[j] > y[i]:
				s++
			case y[j] < y[i]:
				s--
			}
		}
	}
	if len(ties) == n && n <= 50 {
		return exactTrendPValue(n, s)
	}
	variance := float64(n*(n-1)) * float64(2*n+5)
	for _, t := range ties {
		variance -= float64(t*(t-1)) * float64(2*t+5)
	}
	if variance <= 0 {
		return 1
	}
	z := (math.Abs(float64(s)) - 1) / math.Sqrt(variance/18)
	return min(1, math.Erfc(max(z, 0)/math.Sqrt2))
}

// exactTrendPValue counts the orders of n values that are at least as far from
// no trend. An order with k inversions has s = n(n-1)/2 - 2k.
func exactTrendPValue(n, s int) float64 {
	most := n * (n - 1) / 2
	// share[k] is the share of the orders of i values with k inversions: the
	// i-th value, put in at any of i places, adds 0 to i-1.
	share := make([]float64, most+1)
	share[0] = 1
	for i := 2; i <= n; i++ {
		next := make([]float64, most+1)
		for k := range share {
			for add := 0; add < i && k+add <= most; add++ {
				next[k+add] += share[k] / float64(i)
			}
		}
		share = next
	}
	if s < 0 {
		s = -s
	}
	var tail float64
	for k := 0; k <= (most-s)/2; k++ {
		tail += share[k]
	}
	return min(1, 2*tail)
}
