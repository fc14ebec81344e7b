package stats_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tare/stats"
)

// sweepsOf draws sweeps over 1, 3, ... whose logarithm is of(x), with scatter.
func sweepsOf(n, steps int, scatter float64, of func(x float64) float64) []stats.Sweep {
	rng := rand.New(rand.NewPCG(3, uint64(n)))
	sweeps := make([]stats.Sweep, n)
	for i := range sweeps {
		level := 0.2 * rng.NormFloat64()
		for j := range steps {
			x := float64(1 + 2*j)
			sweeps[i].X = append(sweeps[i].X, x)
			sweeps[i].Y = append(sweeps[i].Y, 300*math.Exp(level+of(x)+scatter*rng.NormFloat64()))
		}
	}
	return sweeps
}

func step(at, size float64) func(float64) float64 {
	return func(x float64) float64 {
		if x < at {
			return 0
		}
		return size
	}
}

func TestChangePoint(t *testing.T) {
	for _, c := range []struct {
		name   string
		sweeps []stats.Sweep
		rises  bool
		shape  stats.ChangeShape
		at     float64
		times  float64
	}{
		{"a step up", sweepsOf(3, 13, 0.1, step(14, math.Log(10))), true, stats.StepChange, 14, 10},
		{"a step down", sweepsOf(5, 13, 0.05, step(14, math.Log(0.5))), false, stats.StepChange, 14, 0.5},
		{"a step down, where a rise is asked for", sweepsOf(5, 13, 0.05, step(14, math.Log(0.5))), true, stats.NoChange, 0, 0},
		{"a ramp", sweepsOf(5, 13, 0.1, func(x float64) float64 { return 0.2 * math.Max(0, x-11) }), true, stats.RampChange, 11, math.Exp(0.2 * 14)},
		{"nothing", sweepsOf(5, 13, 0.5, step(99, 1)), true, stats.NoChange, 0, 0},
		{"nothing at all", sweepsOf(3, 13, 0, step(99, 1)), true, stats.NoChange, 0, 0},
	} {
		got := stats.ChangePoint(c.sweeps, c.rises, 0.95, 1)
		if got.Shape != c.shape {
			t.Errorf("%s: %s (p %.3g), want %s", c.name, got.Shape, got.P, c.shape)
			continue
		}
		if c.shape == stats.NoChange {
			if got.At.Known() || !math.IsNaN(got.At.Value) || len(got.At.Warnings) == 0 {
				t.Errorf("%s: at %+v", c.name, got.At)
			}
			continue
		}
		if i := got.At.Interval; !(i.Low <= c.at && c.at <= i.High) || !(i.Low <= got.At.Value && got.At.Value <= i.High) || !(i.Low < i.High) {
			t.Errorf("%s: at %+v, want %v", c.name, got.At, c.at)
		}
		if !(got.Before < got.After && got.Times.Interval.Low <= got.Times.Value) || math.Abs(math.Log(got.Times.Value/c.times)) > 0.4 {
			t.Errorf("%s: from %v to %v, %v times, want %v", c.name, got.Before, got.After, got.Times, c.times)
		}
	}
}

// A sweep that breaks off at the cliff is as good as one that goes on.
func TestChangeOfSweepsThatBreakOff(t *testing.T) {
	sweeps := sweepsOf(3, 13, 0.1, step(14, math.Log(20)))
	for i, keep := range []int{8, 9, 10} {
		sweeps[i].X, sweeps[i].Y = sweeps[i].X[:keep], sweeps[i].Y[:keep]
	}
	got := stats.ChangePoint(sweeps, true, 0.95, 1)
	if got.Shape == stats.NoChange || got.Before != 13 || got.After != 15 {
		t.Errorf("%s between %v and %v, p %v", got.Shape, got.Before, got.After, got.P)
	}
}

// Sweeps that each change plainly, elsewhere, must not give the interval of one place.
func TestChangeAtDifferentPlaces(t *testing.T) {
	var sweeps []stats.Sweep
	for _, at := range []float64{8, 12, 18, 14, 10} {
		sweeps = append(sweeps, sweepsOf(1, 13, 0.05, step(at, math.Log(10)))...)
	}
	got := stats.ChangePoint(sweeps, true, 0.95, 1)
	if i := got.At.Interval; i.High-i.Low < 4 || !strings.Contains(strings.Join(got.At.Warnings, " "), "places that differ") {
		t.Errorf("%+v", got.At)
	}
}

// What level a sweep has, and the unit, is of no account; the same seed gives the same.
func TestChangeIsBlindToLevels(t *testing.T) {
	sweeps := sweepsOf(4, 13, 0.3, step(14, math.Log(3)))
	before := stats.ChangePoint(sweeps, true, 0.95, 5)
	for i := range sweeps {
		for j := range sweeps[i].Y {
			sweeps[i].Y[j] *= math.Pow(10, float64(i))
		}
	}
	after := stats.ChangePoint(sweeps, true, 0.95, 5)
	if before.Shape != after.Shape || before.At.Interval != after.At.Interval || before.P != after.P || math.Abs(before.Times.Value-after.Times.Value) > 1e-9 {
		t.Errorf("%+v, then %+v", before, after)
	}
}

func TestChangeIsUnknown(t *testing.T) {
	whole := sweepsOf(3, 13, 0.1, step(14, 2))
	for name, sweeps := range map[string][]stats.Sweep{
		"none":              nil,
		"few levels":        sweepsOf(5, 4, 0.1, step(4, 2)),
		"a zero":            {{X: []float64{1, 2, 3, 4, 5, 6}, Y: []float64{1, 1, 0, 1, 1, 1}}},
		"not a number":      {{X: []float64{1, 2, 3, 4, 5, 6}, Y: []float64{1, 1, math.NaN(), 1, 1, 1}}},
		"unequal":           {{X: []float64{1, 2}, Y: []float64{1}}},
		"one reading each":  {{X: []float64{1}, Y: []float64{1}}, {X: []float64{2}, Y: []float64{1}}, {X: []float64{3}, Y: []float64{1}}, {X: []float64{4}, Y: []float64{1}}, {X: []float64{5}, Y: []float64{1}}},
		"the same all over": {{X: []float64{1, 2, 3, 4, 5, 6}, Y: []float64{2, 2, 2, 2, 2, 2}}},
	} {
		got := stats.ChangePoint(sweeps, true, 0.95, 1)
		if got.Shape != stats.NoChange || got.At.Known() || len(got.At.Warnings) == 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := stats.ChangePoint(whole, true, 2, 1); got.Shape != stats.NoChange {
		t.Errorf("at level 2: %+v", got)
	}
	two := stats.ChangePoint(whole[:2], true, 0.95, 1)
	if two.Shape != stats.StepChange || two.At.Known() || !slices.ContainsFunc(two.At.Warnings, func(w string) bool { return strings.Contains(w, "at least 3 sweeps") }) {
		t.Errorf("two sweeps have an interval: %+v", two.At)
	}
}
