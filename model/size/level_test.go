package size

import (
	"errors"
	"math"
	"testing"

	"tare/stats"
)

// A level's cost and that of the size multiply, and their errors add in squares.
func TestAtLevel(t *testing.T) {
	var points []Point
	for i, cpus := range []float64{1, 2, 4, 8, 16} {
		points = append(points, Point{
			Workload: "w", CPUs: cpus, HostCPUs: 16, Tasks: 1, SE: 0.01, N: 10,
			Log: 0.05 + 0.1*math.Log(16/cpus) + 0.002*float64(i%2),
		})
	}
	f, err := Fit(points, Options{Form: Logarithmic})
	if err != nil {
		t.Fatal(err)
	}
	bySize, err := f.SizeAt(0.25)
	if err != nil {
		t.Fatal(err)
	}
	level := stats.Estimate{Value: 0.02, Interval: stats.Interval{Low: 0.01, High: 0.04, Level: 0.95}, N: 6}
	got, err := f.AtLevel(level, 0.25)
	if err != nil || math.Abs(got.Value-(0.02+0.1*math.Log(4))) > 0.01 || got.N != 5 {
		t.Errorf("%+v, %v, want about %.3f", got, err, 0.02+0.1*math.Log(4))
	}
	if want := math.Hypot(0.01, bySize.Value-bySize.Interval.Low); math.Abs(got.Value-got.Interval.Low-want) > 1e-12 {
		t.Errorf("it reaches %.4f down, want %.4f", got.Value-got.Interval.Low, want)
	}
	if want := math.Hypot(0.02, bySize.Interval.High-bySize.Value); math.Abs(got.Interval.High-got.Value-want) > 1e-12 {
		t.Errorf("it reaches %.4f up, want %.4f", got.Interval.High-got.Value, want)
	}
	if e, err := f.AtLevel(f.absent(), 0.25); err != nil || e.Known() {
		t.Errorf("of an unknown level: %+v, %v", e, err)
	}
	alike := points[:2]
	alike[0].Log = alike[1].Log
	few, err := Fit(alike, Options{})
	if err != nil {
		t.Fatal(err)
	}
	none := new(NotIdentifiable)
	if e, err := few.AtLevel(level, 0.25); !errors.As(err, &none) || e.Known() {
		t.Errorf("without a size term: %+v, %v", e, err)
	}
}
