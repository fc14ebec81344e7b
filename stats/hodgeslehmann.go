package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// exactRanks is the sample size up to which the distribution of Wilcoxon's
// statistic is computed rather than approximated.
const exactRanks = 60

// walsh gives the means of all pairs, each value with itself included, sorted.
func (s *sample) walsh() []float64 {
	n := len(s.x)
	means := make([]float64, 0, n*(n+1)/2)
	for i, a := range s.x {
		for _, b := range s.x[i:] {
			means = append(means, a+(b-a)/2)
		}
	}
	slices.Sort(means)
	return means
}

// pseudomedian is the estimate of Hodges and Lehmann (1963).
func (s *sample) pseudomedian() float64 { return middle(s.walsh()) }

// hodgesLehmann is the interval that inverts the signed-rank test of Wilcoxon
// (1945), as Tukey found it: the k-th means of pairs from either end. reached
// is the level that it has where the distribution is symmetric.
func (s *sample) hodgesLehmann(level float64) (low, high, reached float64) {
	means := s.walsh()
	k, reached := signedRankCut(len(s.x), level)
	return means[k-1], means[len(means)-k], reached
}

// signedRankCut gives the largest k, at least 1, for which the k-th means of
// pairs from either end enclose the centre with probability level or more, and
// that probability.
func signedRankCut(n int, level float64) (k int, reached float64) {
	alpha := (1 - level) / 2
	if n > exactRanks {
		mean := float64(n) * float64(n+1) / 4
		sd := math.Sqrt(float64(n) * float64(n+1) * float64(2*n+1) / 24)
		k = max(1, int(mean+sd*distuv.UnitNormal.Quantile(alpha)-0.5)+1)
		return k, level
	}
	// ways[t] is the share of the 2^n sign patterns whose positive ranks sum to t.
	ways := make([]float64, n*(n+1)/2+1)
	ways[0] = 1
	for rank := 1; rank <= n; rank++ {
		for t := len(ways) - 1; t >= 0; t-- {
			ways[t] /= 2
			if t >= rank {
				ways[t] += ways[t-rank] / 2
			}
		}
	}
	tail := ways[0]
	k = 1
	for k < len(ways)/2 && tail+ways[k] <= alpha*(1+1e-12) {
		tail += ways[k]
		k++
	}
	return k, 1 - 2*tail
}
