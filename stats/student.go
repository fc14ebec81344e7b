package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// tQuantile is the p-quantile of Student's t.
func tQuantile(p, degrees float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: degrees}.Quantile(p)
}

// studentT is the interval of Student (1908).
func (s *sample) studentT(level float64) (low, high float64) {
	n := float64(len(s.x))
	half := tQuantile(1-(1-level)/2, n-1) * s.sd / math.Sqrt(n)
	return s.mean - half, s.mean + half
}
