package overhead

import (
	"math"
	"testing"
)

func TestTrendPValue(t *testing.T) {
	for _, c := range []struct {
		name string
		y    []float64
		want float64
	}{
		// Counted by hand: 1 of the 24 orders of four values rises throughout.
		{"four that rise", []float64{1, 2, 3, 4}, 2.0 / 24},
		{"five that fall", []float64{5, 4, 3, 2, 1}, 2.0 / 120},
		// Orders of four with at most one inversion: 1 + 3.
		{"one out of place", []float64{2, 1, 3, 4}, 2 * 4.0 / 24},
		{"no trend", []float64{2, 4, 1, 3}, 1},
		{"all equal", []float64{1, 1, 1, 1, 1}, 1},
		{"one", []float64{1}, 1},
		{"none", nil, 1},
	} {
		if got := trendPValue(c.y); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	// Kendall, Rank Correlation Methods, table 1: S = 23 of n = 10 has a
	// one-sided probability of 0.023.
	if p := exactTrendPValue(10, 23); math.Abs(p-2*0.023) > 0.001 {
		t.Errorf("n = 10, S = 23: %v, want 0.046", p)
	}
}

func TestTrendApproximationMeetsTheExactOne(t *testing.T) {
	y := make([]float64, 50)
	for i := range y {
		y[i] = float64((i*31)%50) + 0.7*float64(i)
	}
	exact := trendPValue(y)
	tied := append(append([]float64(nil), y...), y[49]) // one tie takes the other way
	if approximate := trendPValue(tied); math.Abs(approximate-exact) > 0.02 {
		t.Errorf("%v for 50 values, %v with one doubled", exact, approximate)
	}
}

func TestSlopeIgnoresAWildPoint(t *testing.T) {
	at, y := []float64{1, 2, 3, 4, 5, 6, 7}, []float64{2, 4, 6, 800, 10, 12, 14}
	if got := slope(at, y); got != 2 {
		t.Errorf("slope %v, want 2", got)
	}
}
