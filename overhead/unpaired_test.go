package overhead

import (
	"math"
	"math/rand/v2"
	"testing"

	"tare/stats"
)

func TestWelchAgainstAWorkedExample(t *testing.T) {
	// By hand: means 2 and 5, variances 1 and 4, n = 3 each; standard error
	// sqrt(1/3 + 4/3) = 1.2910, degrees (5/3)^2 / ((1/9 + 16/9) / 2) = 2.9412,
	// t(0.975) = 3.2190 at these degrees.
	e := welch([]float64{1, 2, 3}, []float64{3, 5, 7}, 0.95)
	if got := math.Log(e.Value); math.Abs(got-3) > 1e-12 {
		t.Errorf("difference %v, want 3", got)
	}
	if half := (math.Log(e.Interval.High) - math.Log(e.Interval.Low)) / 2; math.Abs(half-3.2190*1.2910) > 0.01 {
		t.Errorf("half-width %v, want %v", half, 3.2190*1.2910)
	}
}

func TestUnpairedIntervalsCover(t *testing.T) {
	random := rand.New(rand.NewPCG(41, 1))
	draw := func(n int, mean, sd float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = mean + sd*random.NormFloat64()
		}
		return x
	}
	exponentials := func(x []float64) []float64 {
		y := make([]float64, len(x))
		for i := range x {
			y[i] = math.Exp(x[i])
		}
		return y
	}
	const runs, truth = 1000, 1.05
	var byWelch, byMover int
	for range runs {
		a, b := draw(8, 0, 0.02), draw(15, math.Log(truth), 0.05)
		if e := welch(a, b, 0.95); e.Interval.Low <= truth && truth <= e.Interval.High {
			byWelch++
		}
		ea := stats.GeometricMean(exponentials(a), 0.95, 1)
		eb := stats.GeometricMean(exponentials(b), 0.95, 1)
		if e := mover(ea, eb, 0.95); e.Interval.Low <= truth && truth <= e.Interval.High {
			byMover++
		}
	}
	// Four binomial standard deviations, 0.7 % each, around 95 %; MOVER from t
	// intervals errs to the safe side.
	if share := float64(byWelch) / runs; share < 0.922 || share > 0.978 {
		t.Errorf("Welch covers %v", share)
	}
	if share := float64(byMover) / runs; share < 0.922 || share > 0.99 {
		t.Errorf("MOVER covers %v", share)
	}
}

func TestUnpairedWithoutEnough(t *testing.T) {
	none := absent(Options{Level: 0.95})
	for name, e := range map[string]stats.Estimate{
		"nothing":    welch(nil, []float64{1}, 0.95),
		"one each":   welch([]float64{1}, []float64{1}, 0.95),
		"all equal":  welch([]float64{1, 1}, []float64{2, 2}, 0.95),
		"no figures": mover(none, none, 0.95),
		"zero":       mover(stats.Estimate{N: 3}, stats.Estimate{Value: 1, N: 3}, 0.95),
	} {
		if !math.IsNaN(e.Interval.Low) || !math.IsNaN(e.Interval.High) || len(e.Warnings) == 0 {
			t.Errorf("%s: %+v", name, e)
		}
	}
}
