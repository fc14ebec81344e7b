package load

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestMomentsUniform(t *testing.T) {
	got := Moments(Uniform, 4, 3, 0)
	if want := []time.Duration{0, 250 * time.Millisecond, 500 * time.Millisecond}; !slices.Equal(got, want) {
		t.Errorf("moments %v, want %v", got, want)
	}
}

func TestMomentsPoisson(t *testing.T) {
	const rate, count = 50.0, 20000
	got := Moments(Poisson, rate, count, 7)
	if len(got) != count || !slices.IsSorted(got) {
		t.Fatalf("%d moments, sorted %v", len(got), slices.IsSorted(got))
	}
	// The sum of n gaps has a relative deviation of 1/sqrt(n).
	if mean := got[count-1].Seconds() / count; math.Abs(mean*rate-1) > 5/math.Sqrt(count) {
		t.Errorf("mean gap %v s at %v/s", mean, rate)
	}
	if !slices.Equal(got, Moments(Poisson, rate, count, 7)) {
		t.Error("the same seed gave other moments")
	}
	if slices.Equal(got, Moments(Poisson, rate, count, 8)) {
		t.Error("another seed gave the same moments")
	}
}
