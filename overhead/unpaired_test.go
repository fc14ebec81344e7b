package overhead

import (
	"math"
	"math/rand/v2"
	"testing"

	"tare/stats"
)

func TestMoverCovers(t *testing.T) {
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
	var byMover int
	for range runs {
		a, b := draw(8, 0, 0.02), draw(15, math.Log(truth), 0.05)
		ea := stats.GeometricMean(exponentials(a), 0.95, 1)
		eb := stats.GeometricMean(exponentials(b), 0.95, 1)
		if e := mover(ea, eb, 0.95); e.Interval.Low <= truth && truth <= e.Interval.High {
			byMover++
		}
	}
	// Four binomial standard deviations, 0.7 % each, around 95 %; MOVER from t
	// intervals errs to the safe side.
	if share := float64(byMover) / runs; share < 0.922 || share > 0.99 {
		t.Errorf("MOVER covers %v", share)
	}
}

func TestMoverWithoutEnough(t *testing.T) {
	none := absent(Options{Level: 0.95})
	for name, e := range map[string]stats.Estimate{
		"no figures": mover(none, none, 0.95),
		"zero":       mover(stats.Estimate{N: 3}, stats.Estimate{Value: 1, N: 3}, 0.95),
	} {
		if !math.IsNaN(e.Interval.Low) || !math.IsNaN(e.Interval.High) || len(e.Warnings) == 0 {
			t.Errorf("%s: %+v", name, e)
		}
	}
}
