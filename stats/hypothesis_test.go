package stats

import (
	"cmp"
	"math"
	"slices"
	"testing"
)

// Student's sleep data again: t = 4.0621 with 9 degrees of freedom, p = 0.002833.
func TestPValueAgreesWithStudent(t *testing.T) {
	base, treatment := make([]float64, 10), make([]float64, 10)
	for i := range base {
		base[i], treatment[i] = math.Exp(sleepFirst[i]), math.Exp(sleepSecond[i])
	}
	near(t, "p", PValue(base, treatment), 0.002832890, 1e-8)
	near(t, "p, swapped", PValue(treatment, base), PValue(base, treatment), 1e-12)
}

// An interval at 95 % excludes no effect where, and only where, p is below 5 %.
func TestPValueAgreesWithTheInterval(t *testing.T) {
	for seed := range uint64(30) {
		base, treatment := noisy(8, seed)
		e := PairedRatioBy(MethodT, base, treatment, 0.95, 1)
		excluded := e.Interval.Low > 1 || e.Interval.High < 1
		if p := PValue(base, treatment); excluded != (p < 0.05) {
			t.Errorf("seed %d: p = %v, interval %v to %v", seed, p, e.Interval.Low, e.Interval.High)
		}
	}
}

func TestPValueUndefined(t *testing.T) {
	same := []float64{1, 2, 3, 4}
	for _, p := range []float64{PValue(nil, nil), PValue(same, same), PValue(same[:2], []float64{2, 3}), PValue(same, []float64{1, 2, 3, 0})} {
		if !math.IsNaN(p) {
			t.Errorf("p = %v, want NaN", p)
		}
	}
}

// The example with which Holm's procedure is usually shown.
func TestHolm(t *testing.T) {
	for _, c := range []struct{ p, want []float64 }{
		{[]float64{0.01, 0.04, 0.03, 0.005}, []float64{0.03, 0.06, 0.06, 0.02}},
		{[]float64{0.2}, []float64{0.2}},
		{[]float64{0.9, 0.8}, []float64{1, 1}},
		{[]float64{0.01, math.NaN(), 0.02}, []float64{0.02, math.NaN(), 0.02}},
		{nil, nil},
	} {
		got := Holm(c.p)
		if len(got) != len(c.want) {
			t.Fatalf("Holm(%v) = %v", c.p, got)
		}
		for i := range got {
			if math.IsNaN(got[i]) != math.IsNaN(c.want[i]) || math.Abs(got[i]-c.want[i]) > 1e-12 {
				t.Errorf("Holm(%v) = %v, want %v", c.p, got, c.want)
				break
			}
		}
	}
}

// An interval decides at a level where its p-value is at most 1 - level: the steps
// decide what Holm's adjusted p-values do.
func TestStepDownAgreesWithHolm(t *testing.T) {
	for _, p := range [][]float64{
		{0.01, 0.04, 0.03, 0.005}, {0.01, 0.02, 0.04}, {0.049, 0.0001, 0.06, 0.024}, {0.04}, {0.2}, {0.3, 0.3}, {0.001, 0.001}, nil,
	} {
		adjusted := Holm(p)
		var levels []float64
		got := StepDown(len(p), 0.05, func(i int, level float64) bool {
			levels = append(levels, level)
			return p[i] <= 1-level+1e-12
		})
		for i := range p {
			if got[i] != (adjusted[i] <= 0.05+1e-12) {
				t.Errorf("p %v: decided %v, adjusted %v", p, got, adjusted)
				break
			}
		}
		if !slices.IsSortedFunc(levels, func(a, b float64) int { return cmp.Compare(b, a) }) {
			t.Errorf("p %v: levels %v rise", p, levels)
		}
	}
}

// Fisher (1935): the lady tasting tea, three of four cups right, 17/35 one- and
// 34/70 two-sided; and his convicted twins (1935), p = 0.000537.
func TestFisherExact(t *testing.T) {
	near(t, "tea, three right", FisherExact(3, 1, 1, 3), 34.0/70, 1e-9)
	near(t, "tea, all right", FisherExact(4, 0, 0, 4), 2.0/70, 1e-9)
	near(t, "twins", FisherExact(10, 3, 2, 15), 0.0005367, 1e-7)
	near(t, "empty", FisherExact(0, 0, 0, 0), 1, 1e-12)
	near(t, "nothing tainted", FisherExact(0, 20, 0, 20), 1, 1e-9)
	near(t, "large", FisherExact(50000, 50000, 50000, 50000), 1, 1e-6)
	near(t, "turned", FisherExact(15, 2, 3, 10), FisherExact(10, 3, 2, 15), 1e-9)
	if p := FisherExact(-1, 2, 3, 4); !math.IsNaN(p) {
		t.Errorf("p = %v for a negative count", p)
	}
}

func TestEquivalentWithin(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		low, high float64
		want      bool
	}{
		{0.99, 1.01, true},
		{1 / 1.02, 1.02, true}, // the bounds belong to it
		{0.979, 1.01, false},
		{0.99, 1.021, false},
		{1.001, 1.019, true}, // differs from 1, and yet too small to matter
		{nan, nan, false},
	} {
		if got := EquivalentWithin(Estimate{Value: 1, Interval: Interval{c.low, c.high, 0.95}}, 0.02); got != c.want {
			t.Errorf("%v to %v: %v, want %v", c.low, c.high, got, c.want)
		}
	}
}
