package fanout_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tare/model/fanout"
)

func TestSlowRequests(t *testing.T) {
	for _, c := range []struct {
		slow  float64
		calls int
		want  float64
	}{
		{0.01, 100, 0.633968}, // Dean and Barroso
		{0.0001, 2000, 0.181277},
		{0.01, 1, 0.01},
		{0, 100, 0},
		{1, 3, 1},
		{1e-15, 10, 1e-14},
	} {
		if got := fanout.SlowRequests(c.slow, c.calls); math.Abs(got-c.want) > 1e-5*c.want {
			t.Errorf("%v of %d calls: %v, want %v", c.slow, c.calls, got, c.want)
		}
	}
}

// The two are one: beyond its decisive quantile are as many calls as make 1-q of requests slow.
func TestDecisive(t *testing.T) {
	for _, q := range []float64{0.5, 0.99} {
		for _, calls := range []int{1, 10, 100, 1000} {
			d := fanout.Decisive(q, calls)
			if got := fanout.SlowRequests(1-d, calls); math.Abs(got-(1-q)) > 1e-9 {
				t.Errorf("p%v of %d calls: %v of requests beyond the %v-quantile", 100*q, calls, got, d)
			}
		}
	}
}

// Requests that are drawn call by call have the quantiles that are predicted.
func TestDecisiveBySimulation(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const requests, calls = 20000, 30
	slowest := make([]float64, requests)
	for i := range slowest {
		for range calls {
			slowest[i] = max(slowest[i], rng.ExpFloat64())
		}
	}
	slices.Sort(slowest)
	for _, q := range []float64{0.5, 0.99} {
		want := -math.Log1p(-fanout.Decisive(q, calls)) // quantile of an exponential
		if got := slowest[int(q*requests)]; math.Abs(got/want-1) > 0.03 {
			t.Errorf("p%v: %v, predicted %v", 100*q, got, want)
		}
	}
}
