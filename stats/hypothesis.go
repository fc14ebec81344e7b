package stats

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// PValue is the two-sided p-value of Student's paired t test on log ratios: how
// often blocks as noisy as these would show such an effect where there is none.
// NaN where it is unknown.
func PValue(base, treatment []float64) float64 {
	ratios, err := logRatios(base, treatment)
	if err != nil || len(ratios) < fewest {
		return math.NaN()
	}
	s := newSample(ratios)
	if s.x[len(s.x)-1]-s.x[0] <= rounding {
		return math.NaN()
	}
	n := float64(len(ratios))
	t := math.Abs(s.restore(s.mean)) * math.Sqrt(n) / s.sd
	return 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Survival(t)
}

// Holm adjusts p-values of several comparisons by the procedure of Holm (1979),
// so that comparing each with alpha keeps the chance of any false finding at
// alpha. The order is kept; NaN stays NaN and is no comparison.
func Holm(p []float64) []float64 {
	order := make([]int, 0, len(p))
	adjusted := make([]float64, len(p))
	for i, v := range p {
		if math.IsNaN(v) {
			adjusted[i] = v
			continue
		}
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	var least float64
	for rank, i := range order {
		least = min(1, max(least, float64(len(order)-rank)*p[i]))
		adjusted[i] = least
	}
	return adjusted
}

// StepDown decides n comparisons by their intervals, in the steps of Holm (1979):
// decide reports whether the interval of comparison i at the level, 1-alpha/k,
// decides it, where k comparisons are undecided; every decision makes the next
// step's level lower, until a step decides nothing. The chance of any false
// decision is at most alpha, whatever the dependence between the comparisons.
// The result says which are decided.
func StepDown(n int, alpha float64, decide func(i int, level float64) bool) []bool {
	decided := make([]bool, n)
	for undecided, before := n, n+1; undecided > 0 && undecided < before; {
		level := 1 - alpha/float64(undecided)
		before = undecided
		for i := range decided {
			if !decided[i] && decide(i, level) {
				decided[i] = true
				undecided--
			}
		}
	}
	return decided
}

// FisherExact is the two-sided p-value of Fisher's (1934) exact test of the
// table with rows (a, b) and (c, d): the share of the tables with the same
// margins that are no likelier than this one. NaN for a negative count.
func FisherExact(a, b, c, d int) float64 {
	if a < 0 || b < 0 || c < 0 || d < 0 {
		return math.NaN()
	}
	row, column, all := a+b, a+c, a+b+c+d
	likelihood := func(x int) float64 {
		return logChoose(column, x) + logChoose(all-column, row-x) - logChoose(all, row)
	}
	// Tables as likely as this one count, though rounding sets them apart.
	limit := likelihood(a) + 1e-7
	var p float64
	for x := max(0, row+column-all); x <= min(row, column); x++ {
		if l := likelihood(x); l <= limit {
			p += math.Exp(l)
		}
	}
	return min(1, p)
}

// logChoose is the logarithm of the number of ways to choose k of n.
func logChoose(n, k int) float64 {
	of, _ := math.Lgamma(float64(n + 1))
	chosen, _ := math.Lgamma(float64(k + 1))
	left, _ := math.Lgamma(float64(n - k + 1))
	return of - chosen - left
}
