package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestSlopeOfALine(t *testing.T) {
	var x, y []float64
	for i := range 20 {
		x = append(x, float64(i))
		y = append(y, 3-0.5*float64(i))
	}
	y[4], y[11] = 100, -70 // a third may be wild
	if e := Slope(x, y, 0.95); math.Abs(e.Value+0.5) > 1e-12 || e.N != 20 {
		t.Errorf("slope %+v, want -0.5", e)
	}
}

// Sen (1968), section 4: the numbers of his example, by his own arithmetic.
func TestSlopeByHand(t *testing.T) {
	x := []float64{1, 2, 3, 4, 10, 12, 18}
	y := []float64{9, 15, 19, 20, 45, 55, 78}
	e := Slope(x, y, 0.93)
	if math.Abs(e.Value-4) > 1e-12 {
		t.Errorf("slope %v, Sen has 4", e.Value)
	}
	if math.Abs(e.Interval.Low-26.0/7) > 1e-12 || math.Abs(e.Interval.High-35.0/8) > 1e-12 {
		t.Errorf("interval %v to %v, Sen has 26/7 to 35/8", e.Interval.Low, e.Interval.High)
	}
}

func TestSlopeCoverage(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const runs, n, slope = 2000, 24, 0.3
	held := 0
	for range runs {
		x, y := make([]float64, n), make([]float64, n)
		for i := range x {
			x[i] = float64(i)
			y[i] = slope*x[i] + 4*random.NormFloat64()
		}
		if e := Slope(x, y, 0.95); e.Interval.Low <= slope && slope <= e.Interval.High {
			held++
		}
	}
	if share := float64(held) / runs; share < 0.93 || share > 0.975 {
		t.Errorf("95 %% intervals held the slope in %.1f %% of runs", 100*share)
	}
}

func TestSlopeUndefined(t *testing.T) {
	for name, c := range map[string]struct{ x, y []float64 }{
		"nothing":     {},
		"two points":  {[]float64{1, 2}, []float64{1, 2}},
		"same x":      {[]float64{1, 1, 1}, []float64{1, 2, 3}},
		"not numbers": {[]float64{1, 2, 3}, []float64{1, math.NaN(), 3}},
	} {
		if e := Slope(c.x, c.y, 0.95); !math.IsNaN(e.Value) || len(e.Warnings) == 0 {
			t.Errorf("%s: %+v, want NaN and why", name, e)
		}
	}
	if e := Slope([]float64{1, 2, 3}, []float64{5, 5, 5}, 0.95); e.Value != 0 {
		t.Errorf("level points have slope %v", e.Value)
	}
}
