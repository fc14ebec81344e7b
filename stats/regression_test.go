package stats

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

func TestRegressALine(t *testing.T) {
	design := [][]float64{{1, 0}, {1, 1}, {1, 2}, {1, 3}}
	r, err := Regress(design, []float64{3, 5, 7, 9}, []float64{0.1, 0.2, 0.1, 0.2}, 0.95)
	if err != nil || math.Abs(r.Coefficients[0].Value-3) > 1e-9 || math.Abs(r.Coefficients[1].Value-2) > 1e-9 || r.Between != 0 {
		t.Errorf("%+v, %v: want 3 and 2, and nothing between", r, err)
	}
	if p, c := r.Prediction([]float64{1, 4}, 1), r.Combination([]float64{1, 4}); math.Abs(p.Value-11) > 1e-9 || !(p.Interval.Low < c.Interval.Low) {
		t.Errorf("prediction %+v of %+v: want 11, and wider", p, c)
	}
}

// Two equal points a unit either side of 0 with tiny errors: the variance between
// them is that of the two, 2, by which the squares come to one degree of freedom.
func TestRegressBetween(t *testing.T) {
	r, err := Regress([][]float64{{1}, {1}}, []float64{-1, 1}, []float64{1e-4, 1e-4}, 0.95)
	if err != nil || math.Abs(r.Between-2) > 1e-6 || r.Agree > 1e-6 {
		t.Errorf("between %v (%v): want 2", r.Between, err)
	}
}

func TestRegressRefuses(t *testing.T) {
	var few *TooFewPoints
	if _, err := Regress([][]float64{{1, 2}, {1, 3}}, []float64{1, 2}, []float64{1, 1}, 0.95); !errors.As(err, &few) || few.Want != 3 {
		t.Errorf("two points for a line: %v", err)
	}
	if _, err := Regress([][]float64{{1, 2}, {1, 2}, {1, 2}}, []float64{1, 2, 3}, []float64{1, 1, 1}, 0.95); !errors.Is(err, ErrCollinear) {
		t.Errorf("one x: %v", err)
	}
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := Regress([][]float64{{1}, {1}}, []float64{1, 2}, []float64{1, bad}, 0.95); err == nil {
			t.Errorf("an error of %v was taken", bad)
		}
	}
}

func TestShrinkVariances(t *testing.T) {
	// Samples of one population come closer; samples that differ keep their order.
	s, err := ShrinkVariances([]float64{1, 1.5, 2}, []int{2, 2, 2})
	if err != nil || s[0] != s[2] {
		t.Errorf("%v, %v: want one variance", s, err)
	}
	s, err = ShrinkVariances([]float64{1e-8, 1, 1e8}, []int{20, 20, 20})
	if err != nil || !(s[0] < 1e-3 && math.Abs(s[1]-1) < 0.5) {
		t.Errorf("%v, %v: want them about as they were", s, err)
	}
	if _, err := ShrinkVariances([]float64{0}, []int{1}); err == nil {
		t.Error("a variance of 0 was taken")
	}
}

func TestSpearman(t *testing.T) {
	x := []float64{1, 2, 3, 4, 5, 6, 7, 8}
	if e := Spearman(x, []float64{1, 8, 27, 64, 125, 216, 343, 512}, 0.95); math.Abs(e.Value-1) > 1e-12 || e.Interval.High != 1 || !(e.Interval.Low > 0.5) {
		t.Errorf("rising: %+v", e)
	}
	// 1 - 6 * 4 / (8 * 63), two neighbours being exchanged twice.
	if e := Spearman(x, []float64{2, 1, 3, 4, 5, 6, 8, 7}, 0.95); math.Abs(e.Value-(1-24.0/504)) > 1e-12 {
		t.Errorf("by hand: %+v", e)
	}
	if e := Spearman(x, []float64{1, 1, 1, 1, 1, 1, 1, 1}, 0.95); e.Known() || len(e.Warnings) == 0 {
		t.Errorf("level: %+v", e)
	}
	if e := PartialSpearman(x, x, [][]float64{x}, 0.95); e.Known() {
		t.Errorf("with itself held: %+v", e)
	}
}

// Two things that a third causes go together, and no longer once it is held.
func TestPartialSpearmanCoverage(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const runs, n = 500, 20
	together, held := 0, 0
	for range runs {
		x, y, z := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range n {
			z[i] = random.NormFloat64()
			x[i], y[i] = z[i]+0.5*random.NormFloat64(), z[i]+0.5*random.NormFloat64()
		}
		if e := Spearman(x, y, 0.95); e.Interval.Low > 0 {
			together++
		}
		// Ranks do not take z off wholly: what is left is small.
		if e := PartialSpearman(x, y, [][]float64{z}, 0.95); e.Interval.Low <= 0.05 && 0.05 <= e.Interval.High {
			held++
		}
	}
	if together < runs*95/100 || held < runs*90/100 {
		t.Errorf("of %d: %d together, and %d not once their cause is held", runs, together, held)
	}
}
