package stats

import (
	"math"
	"testing"
)

func TestCountDifferenceTakesZeros(t *testing.T) {
	base := []float64{0, 1, 0, 0, 2, 0, 1, 0}
	treatment := []float64{3, 4, 2, 5, 3, 4, 2, 6}
	e := CountDifference(base, treatment, 0.95, 1)
	want := MeanBy(MethodT, []float64{3, 3, 2, 5, 1, 4, 1, 6}, 0.95, 1)
	same(t, e, want, 1)
	if e.N != 8 || e.Method != "t" {
		t.Errorf("n = %d, method %q", e.N, e.Method)
	}
}

// Fieller's interval is where a paired t test of treatment - r base does not
// reject: the definition, against the formula.
func TestCountRatioInvertsTheTest(t *testing.T) {
	base := []float64{12, 15, 9, 20, 14, 11, 0, 17}
	treatment := []float64{18, 21, 16, 33, 18, 20, 4, 22}
	e := CountRatio(base, treatment, 0.95, 1)
	near(t, "value", e.Value, 152.0/98, 1e-12)
	for _, r := range []float64{e.Interval.Low, e.Interval.High} {
		rest := make([]float64, len(base))
		for i := range rest {
			rest[i] = treatment[i] - r*base[i]
		}
		mean, sd := meanSD(rest)
		const t7 = 2.364624 // Student's table, 7 degrees of freedom, 97.5 %
		near(t, "t at the limit", math.Abs(mean)*math.Sqrt(8)/sd, t7, 1e-5)
	}
}

func TestCountRatioSwappedAndScaled(t *testing.T) {
	base := []float64{12, 15, 9, 20, 14, 11, 0, 17}
	treatment := []float64{18, 21, 16, 33, 18, 20, 4, 22}
	there, back := CountRatio(base, treatment, 0.95, 1), CountRatio(treatment, base, 0.95, 1)
	near(t, "value", back.Value, 1/there.Value, 1e-9)
	near(t, "low", back.Interval.Low, 1/there.Interval.High, 1e-9)
	near(t, "high", back.Interval.High, 1/there.Interval.Low, 1e-9)
	same(t, CountRatio(scaled(base, 10), scaled(treatment, 10), 0.95, 1), there, 1)
}

func TestDegenerateCounts(t *testing.T) {
	none, some := []float64{0, 0, 0, 0, 0, 0}, []float64{3, 5, 2, 4, 6, 4}
	for _, c := range []struct {
		name    string
		e       Estimate
		value   float64
		warning string
	}{
		{"none of either, difference", CountDifference(none, none, 0.95, 1), 0, "rates up to 0.5 a block would show none with probability 0.05"},
		{"none of either, ratio", CountRatio(none, none, 0.95, 1), math.NaN(), "no events in 6 blocks of the baseline"},
		{"none in the baseline", CountRatio(none, some, 0.95, 1), math.NaN(), "no ratio, see the difference"},
		{"none in the condition", CountRatio(some, none, 0.95, 1), 0, "no events in 6 blocks of the condition"},
		{"baseline near zero", CountRatio([]float64{0, 0, 1, 0, 0, 0}, some, 0.95, 1), 24, "the ratio has no upper bound"},
		{"one ratio", CountRatio(some, scaled(some, 2), 0.95, 1), 2, "every block has the same ratio"},
		{"a negative count", CountRatio(some, []float64{1, 2, 3, -4, 5, 6}, 0.95, 1), math.NaN(), "value 4 of 6: -4 is not a count"},
		{"NaN", CountDifference([]float64{math.NaN()}, []float64{1}, 0.95, 1), math.NaN(), "NaN is not a finite number"},
		{"no blocks, ratio", CountRatio(nil, nil, 0.95, 1), math.NaN(), "no blocks"},
		{"no blocks, difference", CountDifference(nil, nil, 0.95, 1), math.NaN(), "no blocks"},
		{"two blocks", CountRatio(some[:2], some[2:4], 0.95, 1), 0.75, "need at least 3 blocks"},
		{"level", CountRatio(some, []float64{1, 2, 3, 4, 5, 6}, 0, 1), 21.0 / 24, "level 0 is not between"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !math.IsNaN(c.e.Interval.Low) || !math.IsNaN(c.e.Interval.High) {
				t.Errorf("interval %v to %v, want none", c.e.Interval.Low, c.e.Interval.High)
			}
			if math.IsNaN(c.value) != math.IsNaN(c.e.Value) || math.Abs(c.e.Value-c.value) > 1e-12 {
				t.Errorf("value %v, want %v", c.e.Value, c.value)
			}
			if !warns(c.e, c.warning) {
				t.Errorf("warnings %q lack %q", c.e.Warnings, c.warning)
			}
		})
	}
}

func TestFewEventsWarn(t *testing.T) {
	e := CountDifference([]float64{0, 1, 0, 0, 2}, []float64{1, 2, 0, 1, 1}, 0.95, 1)
	if !warns(e, "8 events in all") {
		t.Errorf("eight events: %q", e.Warnings)
	}
}
