package stats

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

// MethodSpearman is the correlation of ranks, with an interval by Fisher's
// transformation.
const MethodSpearman Method = "Spearman"

// fewestRanks is the least number of points for an interval of a correlation: one
// more than leaves its error undefined.
const fewestRanks = 5

// Spearman estimates how far y rises with x: the correlation of their ranks
// (Spearman 1904), 1 where it always does and -1 where it always falls. The interval is
// normal on Fisher's scale with the error of Bonett and Wright (Psychometrika 65, 2000),
// √((1 + r²/2)/(n-3)); points are taken as independent. Ties share their mean rank.
func Spearman(x, y []float64, level float64) Estimate {
	return PartialSpearman(x, y, nil, level)
}

// PartialSpearman is [Spearman] of what is left of x and of y once what is linear in
// the ranks of others has been taken off: whether y rises with x among points that
// the others do not tell apart. Each of the others costs a degree of freedom.
func PartialSpearman(x, y []float64, others [][]float64, level float64) Estimate {
	n := min(len(x), len(y))
	fail := func(format string, args ...any) Estimate {
		return undefined(n, level, MethodSpearman, format, args...)
	}
	if !(level > 0 && level < 1) {
		return fail("level %v is not between 0 and 1: no interval", level)
	}
	if err := paired(x, y, finite); err != nil {
		return fail("no correlation: %v", err)
	}
	if want := fewestRanks + len(others); n < want {
		return fail("need at least %d points for a correlation, have %d", want, n)
	}
	left, right := ranks(x), ranks(y)
	if len(others) > 0 {
		columns := [][]float64{slices.Repeat([]float64{1}, n)}
		for i, o := range others {
			if err := paired(x, o, finite); err != nil {
				return fail("no correlation: of what is held, the %d. is amiss: %v", i+1, err)
			}
			columns = append(columns, ranks(o))
		}
		var err error
		if left, err = without(left, columns); err == nil {
			right, err = without(right, columns)
		}
		if err != nil {
			return fail("no correlation: %v", err)
		}
	}
	r, ok := pearson(left, right)
	if !ok {
		return fail("no correlation: all values of one side are equal, or wholly explained by what is held")
	}
	e := unknown(n, level, MethodSpearman)
	e.Value = r
	spread := math.Sqrt((1 + r*r/2) / float64(n-3-len(others)))
	half := distuv.UnitNormal.Quantile((1+level)/2) * spread
	// At 1 and -1 Fisher's scale ends. The nearest that ranks of so many points can
	// come to it otherwise stands for it.
	most := 1 - 6/(float64(n)*(float64(n)*float64(n)-1))
	z := math.Atanh(max(-most, min(most, r)))
	e.Interval.Low, e.Interval.High = math.Tanh(z-half), math.Tanh(z+half)
	if r >= most {
		e.Interval.High = 1
	}
	if r <= -most {
		e.Interval.Low = -1
	}
	return e
}

// ranks are 1 for the least; ties share the mean of theirs.
func ranks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case x[a] < x[b]:
			return -1
		case x[a] > x[b]:
			return 1
		}
		return 0
	})
	r := make([]float64, len(x))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && x[order[j]] == x[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			r[k] = float64(i+j+1) / 2
		}
		i = j
	}
	return r
}

// pearson is the correlation, and whether there is one.
func pearson(x, y []float64) (float64, bool) {
	meanX, sdX := meanSD(x)
	meanY, sdY := meanSD(y)
	// Ranks go up to n: less than this is rounding.
	least := 1e-9 * float64(len(x))
	if !(sdX > least) || !(sdY > least) {
		return 0, false
	}
	var sum float64
	for i := range x {
		sum += (x[i] - meanX) * (y[i] - meanY)
	}
	return max(-1, min(1, sum/(sdX*sdY*float64(len(x)-1)))), true
}

// without is what least squares on columns leaves of y.
func without(y []float64, columns [][]float64) ([]float64, error) {
	design := mat.NewDense(len(y), len(columns), nil)
	for j, c := range columns {
		for i, v := range c {
			design.Set(i, j, v)
		}
	}
	var qr mat.QR
	qr.Factorize(design)
	if !(qr.Cond() < worstCondition) {
		return nil, errors.New("what is held is constant, or the same twice")
	}
	var solved mat.VecDense
	if err := qr.SolveVecTo(&solved, false, mat.NewVecDense(len(y), y)); err != nil {
		return nil, fmt.Errorf("least squares: %w", err)
	}
	rest := slices.Clone(y)
	for j, c := range columns {
		for i, v := range c {
			rest[i] -= solved.AtVec(j) * v
		}
	}
	return rest, nil
}
