package size

import (
	"math"
	"testing"
	"time"
)

var known = Costs{Migration: 50 * time.Microsecond, Interrupt: 50 * time.Microsecond, Switch: 2 * time.Microsecond, Share: time.Microsecond / 2, Release: time.Millisecond}

var (
	computes = Program{Tasks: 112}
	waits    = Program{Tasks: 300, Burst: 500 * time.Microsecond, Wait: 500 * time.Microsecond}
)

func overhead(t *testing.T, c Costs, p Program, mode Mode, cpus, factor float64) float64 {
	t.Helper()
	y, _, err := Machine{CPUs: 112, Restless: 0.5, Costs: c}.Overhead(p, Grant{Mode: mode, CPUs: cpus, Factor: factor}, time.Second, 1)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// A cost of size is there where a cost causes it, and nowhere else.
func TestCostsCauseTheOverhead(t *testing.T) {
	for _, p := range []Program{computes, waits} {
		for _, n := range []float64{0.5, 2, 16, 112} {
			if y := overhead(t, Costs{}, p, Vanilla, n, 1.3); math.Abs(y-math.Log(1.3)) > 0.01 {
				t.Errorf("%+v on %g CPUs, without costs: %v, want the factor's %v", p, n, y, math.Log(1.3))
			}
			// On the whole machine bare metal has costs of its own, which no factor touches.
			if n == math.Trunc(n) && n < 112 {
				if y := overhead(t, known, p, Pinned, n, 1.3); math.Abs(y-math.Log(1.3)) > 0.01 {
					t.Errorf("%+v pinned to %g CPUs: %v, want the factor's %v", p, n, y, math.Log(1.3))
				}
			}
		}
		if small, large := overhead(t, known, p, Vanilla, 2, 1), overhead(t, known, p, Vanilla, 64, 1); small < large+0.1 {
			t.Errorf("%+v: %v on 2 CPUs and %v on 64", p, small, large)
		}
	}
}

// The fit finds what the simulator was given: the type's factor, a cost of size only
// where one is caused, and a larger least share for input and output (S2.7's order).
func TestValidation(t *testing.T) {
	fit := func(c Costs, p Program, mode Mode) Fitted {
		var all []Point
		for _, n := range []float64{2, 4, 8, 16, 32, 64, 112} {
			all = append(all, Point{CPUs: n, HostCPUs: 112, Tasks: float64(p.Tasks), Log: overhead(t, c, p, mode, n, 1.3), SE: 0.01, N: 20})
		}
		f, err := Fit(all, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	least := func(f Fitted) float64 {
		e, err := LeastShare(f, 0.1)
		if err != nil {
			t.Fatal(err)
		}
		return e.Value
	}
	for name, f := range map[string]Fitted{"no costs": fit(Costs{}, waits, Vanilla), "pinned": fit(known, waits, Pinned)} {
		if !holds(f.Size, 0) || !holds(f.Platform, math.Log(1.3)) {
			t.Errorf("%s: size %+v, platform %+v", name, f.Size.Interval, f.Platform.Interval)
		}
	}
	computing, io := fit(known, computes, Vanilla), fit(known, waits, Vanilla)
	for name, f := range map[string]Fitted{"computing": computing, "input and output": io} {
		if !(f.Size.Interval.Low > 0) || !holds(f.Platform, math.Log(1.3)+0.015) {
			t.Errorf("%s: size %+v, platform %+v", name, f.Size.Interval, f.Platform.Interval)
		}
	}
	if a, b := least(computing), least(io); !(a < b) {
		t.Errorf("the least share is %v for computing and %v for input and output", a, b)
	}
}
