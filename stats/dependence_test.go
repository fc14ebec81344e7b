package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"tare/stats"
)

// Independent values are called dependent as often as the level says, whatever their
// distribution and however coarse they are, and dependent ones nearly always.
func TestSerialDependence(t *testing.T) {
	random := rand.New(rand.NewPCG(20260101, 1))
	const times = 4000
	for _, n := range []int{10, 20, 100, 300} {
		for what, draw := range map[string]func() float64{
			"normal": random.NormFloat64,
			"skewed": func() float64 { return math.Exp(2 * random.NormFloat64()) },
			"coarse": func() float64 { return math.Round(random.NormFloat64()) },
		} {
			found := map[float64]float64{0.05: 0, 0.01: 0}
			for range times {
				series := make([]float64, n)
				for i := range series {
					series[i] = draw()
				}
				d, ok := stats.SerialDependence(series)
				for level := range found {
					if ok && d.P < level {
						found[level]++
					}
				}
			}
			for level, is := range found {
				if error := 4 * math.Sqrt(level*(1-level)/times); math.Abs(is/times-level) > error {
					t.Errorf("%d values, %s: %.2f %% are called dependent, want %.0f within %.2f", n, what, 100*is/times, 100*level, 100*error)
				}
			}
		}
	}
	found := 0
	for range 200 {
		series, last := make([]float64, 50), 0.0
		for i := range series {
			last = 0.7*last + random.NormFloat64()
			series[i] = last
		}
		if d, ok := stats.SerialDependence(series); ok && d.P < 0.01 {
			found++
		}
	}
	if found < 190 {
		t.Errorf("%d of 200 series with a correlation of 0.7 are found", found)
	}
}

// Ten values are the fewest, and a rising series has the least ratio.
func TestSerialDependenceOfFew(t *testing.T) {
	rising := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	if d, ok := stats.SerialDependence(rising); !ok || d.P > 1e-4 || math.Abs(d.Ratio-9/82.5) > 1e-12 {
		t.Errorf("a rising series: %+v", d)
	}
	for what, series := range map[string][]float64{"nine values": rising[:9], "equal values": make([]float64, 20), "no number": append(rising, math.NaN())} {
		if d, ok := stats.SerialDependence(series); ok {
			t.Errorf("%s: %+v", what, d)
		}
	}
}
