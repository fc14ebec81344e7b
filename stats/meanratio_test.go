package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Fieller's interval is where a paired t test of treatment - r base does not reject,
// whatever the signs of single blocks.
func TestMeanRatioInvertsTheTest(t *testing.T) {
	base := []float64{1.2, 0.9, -0.1, 1.4, 0.8, 1.1, 0.5, 1.6}
	treatment := []float64{0.4, -0.2, 0.1, 0.9, -0.3, 0.6, 0.2, 0.5}
	e := MeanRatio(base, treatment, 0.95, 1)
	near(t, "value", e.Value, 2.2/7.4, 1e-12)
	for _, r := range []float64{e.Interval.Low, e.Interval.High} {
		rest := make([]float64, len(base))
		for i := range rest {
			rest[i] = treatment[i] - r*base[i]
		}
		mean, sd := meanSD(rest)
		const t7 = 2.364624 // Student's table, 7 degrees of freedom, 97.5 %
		near(t, "t at the limit", math.Abs(mean)*math.Sqrt(8)/sd, t7, 1e-5)
	}
	// A ratio of parts has no sign to it: turned round, both are the same.
	same(t, MeanRatio(scaled(base, -1), scaled(treatment, -1), 0.95, 1), e, 1)
	down := MeanRatio(base, scaled(treatment, -1), 0.95, 1)
	near(t, "low of the negative", down.Interval.Low, -e.Interval.High, 1e-12)
	near(t, "high of the negative", down.Interval.High, -e.Interval.Low, 1e-12)
}

// Nine in ten intervals of 90 % hold the truth, also where it is 0 or negative and
// many blocks lie on the other side of it.
func TestMeanRatioCovers(t *testing.T) {
	const runs, blocks, level = 2000, 8, 0.9
	random := rand.New(rand.NewPCG(7, 8))
	for _, truth := range []float64{-0.5, 0, 0.3, 1} {
		held, bounded, negative := 0, 0, 0
		for range runs {
			base, treatment := make([]float64, blocks), make([]float64, blocks)
			for i := range base {
				shared := random.NormFloat64()
				base[i] = 1 + 0.4*(shared+random.NormFloat64())
				treatment[i] = truth + 0.3*(shared+random.NormFloat64())
				if base[i] < 0 || treatment[i] < 0 {
					negative++
				}
			}
			if e := MeanRatio(base, treatment, level, 1); e.Known() {
				bounded++
				if e.Interval.Low <= truth && truth <= e.Interval.High {
					held++
				}
			}
		}
		room := 4 * math.Sqrt(level*(1-level)/runs)
		if got := float64(held) / float64(bounded); math.Abs(got-level) > room+0.01 || bounded < runs*9/10 || negative == 0 {
			t.Errorf("at %g: %.1f %% of %d intervals held it (%d blocks had a negative figure), want %g %%", truth, 100*got, bounded, negative, 100*level)
		}
	}
}

func TestDegenerateMeanRatios(t *testing.T) {
	some := []float64{3, -5, 2, 4, 6, 4}
	for name, c := range map[string]struct {
		e       Estimate
		value   float64
		warning string
	}{
		"baseline about zero": {MeanRatio([]float64{1, -1, 2, -2, 0.5, 0}, some, 0.95, 1), 28, "no bounds"},
		"baseline zero":       {MeanRatio([]float64{1, -1, 2, -2, 3, -3}, some, 0.95, 1), math.NaN(), "mean is 0"},
		"one ratio":           {MeanRatio(some, scaled(some, -2), 0.95, 1), -2, "the same ratio"},
		"two blocks":          {MeanRatio([]float64{1, 2}, []float64{-1, 1}, 0.95, 1), 0, "at least 3 blocks"},
		"no blocks":           {MeanRatio(nil, nil, 0.95, 1), math.NaN(), "no blocks"},
		"NaN":                 {MeanRatio([]float64{math.NaN()}, []float64{1}, 0.95, 1), math.NaN(), "not a finite number"},
		"level":               {MeanRatio(some, some, 1, 1), 1, "level 1"},
	} {
		if c.e.Known() || !warns(c.e, c.warning) {
			t.Errorf("%s: known %v, warnings %q; want none and %q", name, c.e.Known(), c.e.Warnings, c.warning)
		}
		if math.IsNaN(c.value) != math.IsNaN(c.e.Value) || math.Abs(c.e.Value-c.value) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, c.e.Value, c.value)
		}
	}
}
