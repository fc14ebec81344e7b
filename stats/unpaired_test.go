package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func exponentials(x ...float64) []float64 {
	y := make([]float64, len(x))
	for i := range x {
		y[i] = math.Exp(x[i])
	}
	return y
}

func TestUnpairedAgainstAWorkedExample(t *testing.T) {
	// By hand: means 2 and 5, variances 1 and 4, n = 3 each; standard error
	// sqrt(1/3 + 4/3) = 1.2910, degrees (5/3)^2 / ((1/9 + 16/9) / 2) = 2.9412,
	// t(0.975) = 3.2190 at these degrees.
	const half = 3.2190 * 1.2910
	d := UnpairedDifference([]float64{1, 2, 3}, []float64{3, 5, 7}, 0.95)
	if math.Abs(d.Value-3) > 1e-12 || math.Abs(d.Interval.High-d.Value-half) > 0.01 || math.Abs(d.Value-d.Interval.Low-half) > 0.01 {
		t.Errorf("difference %+v, want 3 and %v to either side", d, half)
	}
	r := UnpairedRatio(exponentials(1, 2, 3), exponentials(3, 5, 7), 0.95)
	if got := math.Log(r.Value); math.Abs(got-3) > 1e-12 {
		t.Errorf("log ratio %v, want 3", got)
	}
	if got := (math.Log(r.Interval.High) - math.Log(r.Interval.Low)) / 2; math.Abs(got-half) > 0.01 {
		t.Errorf("half-width %v, want %v", got, half)
	}
	if sd := UnpairedLogSD(exponentials(1, 2, 3), exponentials(3, 5, 7)); math.Abs(sd-math.Sqrt(5)) > 1e-12 {
		t.Errorf("spread %v, want the root of 1 + 4", sd)
	}
}

func TestUnpairedIntervalsCover(t *testing.T) {
	random := rand.New(rand.NewPCG(41, 1))
	draw := func(n int, mean, sd float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = math.Exp(mean + sd*random.NormFloat64())
		}
		return x
	}
	const runs, truth = 1000, 1.05
	for _, c := range []struct {
		na, nb int
		sb     float64
	}{{5, 5, 0.02}, {5, 5, 0.10}, {8, 15, 0.05}} {
		held := 0
		for range runs {
			e := UnpairedRatio(draw(c.na, 0, 0.02), draw(c.nb, math.Log(truth), c.sb), 0.95)
			if e.Interval.Low <= truth && truth <= e.Interval.High {
				held++
			}
		}
		// Four binomial standard deviations, 0.7 % each, around 95 %.
		if share := float64(held) / runs; share < 0.922 || share > 0.978 {
			t.Errorf("%d and %d values, spreads 0.02 and %v: covers %v", c.na, c.nb, c.sb, share)
		}
	}
}

func TestUnpairedWithoutEnough(t *testing.T) {
	for name, e := range map[string]Estimate{
		"nothing":      UnpairedRatio(nil, []float64{1}, 0.95),
		"one each":     UnpairedRatio([]float64{1}, []float64{1}, 0.95),
		"one":          UnpairedDifference([]float64{1, 2}, []float64{1}, 0.95),
		"two each":     UnpairedRatio([]float64{1, 1.1}, []float64{1, 1.1}, 0.95),
		"all equal":    UnpairedRatio([]float64{3, 3, 3}, []float64{2, 2, 2}, 0.95),
		"zero":         UnpairedRatio([]float64{0, 3}, []float64{2, 2}, 0.95),
		"not a number": UnpairedDifference([]float64{math.NaN(), 3}, []float64{2, 2}, 0.95),
		"level":        UnpairedRatio([]float64{1, 2, 3}, []float64{3, 4, 5}, 1),
	} {
		if e.Known() || len(e.Warnings) == 0 {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if e := UnpairedRatio([]float64{2}, []float64{3}, 0.95); e.Value != 1.5 && math.Abs(e.Value-1.5) > 1e-12 {
		t.Errorf("one each: %v, want the factor alone", e.Value)
	}
}
