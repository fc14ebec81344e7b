package density

import (
	"math"
	"strings"
	"testing"
	"time"

	"tare/lab"
	"tare/stats"
)

// A service is loaded until three rounds come to the same, however it is ordered, before
// there is any neighbour.
func TestAServiceIsWarmedUntilItIsSteady(t *testing.T) {
	for _, c := range []struct {
		name   string
		closed []float64 // of the rounds
		rounds int
		steady float64
	}{
		{"at once", []float64{100, 104, 101}, 3, 1},
		{"as it rises", []float64{60, 90, 94, 93}, 4, 1},
		{"two by chance", []float64{60, 61, 94, 94, 94}, 5, 1},
		{"after a fall", []float64{100, 94, 94, 94}, 4, 1},
		{"slowly", []float64{90, 92, 94, 95, 95}, 4, 1},
		{"gaining to the end", []float64{90, 92, 94, 96.5, 99}, 5, 0},
		{"never", []float64{20, 40, 60, 80, 100, 120}, 5, 0},
	} {
		for _, order := range []string{Continuous, Interleaved} {
			f := newFixture(1, 3)
			f.o.Order, f.o.WarmRounds, f.shop.closed = order, 5, c.closed
			if err := f.run(t); err != nil {
				t.Fatal(err)
			}
			kept := f.bench.Covariates
			if kept[covariateRounds] != float64(c.rounds) || kept[covariateSteady] != c.steady {
				t.Errorf("%s, %s: %v rounds, steady %v, want %d, %v", c.name, order, kept[covariateRounds], kept[covariateSteady], c.rounds, c.steady)
			}
			before := strings.Join(f.lines[:f.at("launch napper-20001")], "\n")
			for _, load := range []string{"load 50", "load closed"} {
				if got := strings.Count(before, load); got != c.rounds {
					t.Errorf("%s, %s: %q %d times before there is a neighbour, want %d:\n%s", c.name, order, load, got, c.rounds, before)
				}
			}
		}
	}
}

// Rounds whose requests scatter are the same within their intervals, but no gain is.
func TestRoundsThatScatterAreSteadyWithinTheirIntervals(t *testing.T) {
	round := func(value, half float64) stats.Estimate {
		return stats.Estimate{Value: value, Interval: stats.Interval{Low: value - half, High: value + half, Level: steadyLevel}}
	}
	for _, c := range []struct {
		name   string
		rounds []stats.Estimate
		want   bool
	}{
		{"too few", []stats.Estimate{round(100, 1), round(100, 1)}, false},
		{"scattered, and known to be", []stats.Estimate{round(100, 8), round(88, 8), round(95, 8)}, true},
		{"scattered, and known not to be", []stats.Estimate{round(100, 1), round(88, 1), round(95, 1)}, false},
		{"scattered, and not known", []stats.Estimate{round(100, math.NaN()), round(88, 8), round(95, 8)}, false},
		{"a gain within intervals", []stats.Estimate{round(88, 20), round(90, 20), round(95, 20)}, false},
		{"close, and significantly different", []stats.Estimate{round(100, 0.1), round(99, 0.1), round(98, 0.1)}, true},
	} {
		if got := steady(c.rounds); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The page says how services were warmed, and how often disturbances had a step repeated.
func TestPageHasTheWarmingAndRepeats(t *testing.T) {
	run := withOrder(Continuous, 3, file(s3)).run(t)
	if page := text(t, Study.Sheet(run, attachmentsOf(run), nil)); strings.Contains(page, "in rounds") || strings.Contains(page, "were repeated") {
		t.Errorf("the page has what did not happen:\n%s", page)
	}
	for i := range run.Conditions {
		run.Conditions[i].Factors[factorWarm] = "6 of 3s"
	}
	for i := range run.Trials {
		run.Trials[i].Covariates[covariateRounds], run.Trials[i].Covariates[covariateSteady] = 2, 1
	}
	last := run.Trials[len(run.Trials)-1].Covariates
	last[covariateRounds], last[covariateSteady], last[lab.StepsRepeated] = 6, 0, 7
	page := text(t, Study.Sheet(run, attachmentsOf(run), nil))
	for _, want := range []string{"(at most 6 of 3s), until 3 successive rounds had the same throughput, within their intervals or 5 %, and the last was at most 2 % above the others. That took 2 to 6 rounds.", "In 1 of 6 trials throughput was not steady after the warm-up", "file: the loads of a step were repeated 7 times"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

// A service that is not warmed has no rounds, and the time of warming is in an estimate.
func TestWarmingIsCounted(t *testing.T) {
	f := newFixture(1)
	f.o.Warm = 0
	if err := f.run(t); err != nil {
		t.Fatal(err)
	}
	if _, kept := f.bench.Covariates[covariateSteady]; kept || f.bench.Covariates[covariateRounds] != 0 {
		t.Errorf("kept %v", f.bench.Covariates)
	}
	without, err := Design(f.o)
	if err != nil {
		t.Fatal(err)
	}
	f.o.Warm, f.o.WarmRounds = 3*time.Second, 4
	with, err := Design(f.o)
	if err != nil {
		t.Fatal(err)
	}
	if more := with.Pass() - without.Pass(); more != 12*time.Second {
		t.Errorf("an estimate is longer by %v, want 12s", more)
	}
}
