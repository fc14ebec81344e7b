package density

import (
	"strings"
	"testing"
	"time"

	"tare/lab"
)

// A service is loaded until two rounds come to the same, however it is ordered, before
// there is any neighbour.
func TestAServiceIsWarmedUntilItIsSteady(t *testing.T) {
	for _, c := range []struct {
		name   string
		closed []float64 // of the rounds
		rounds int
		steady float64
	}{
		{"at once", []float64{100, 104}, 2, 1},
		{"as it rises", []float64{20, 60, 90, 94}, 4, 1},
		{"after a fall", []float64{100, 94, 94}, 3, 1},
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

// The page tells how services were warmed, and how often something foreign had a step made
// again.
func TestThePageTellsOfTheWarmingAndOfRepeats(t *testing.T) {
	run := withOrder(Continuous, 3, file(s3)).run(t)
	if page := text(t, Sheet(run, attachmentsOf(run), nil)); strings.Contains(page, "in rounds") || strings.Contains(page, "made again") {
		t.Errorf("the page tells of what did not come to pass:\n%s", page)
	}
	for i := range run.Conditions {
		run.Conditions[i].Factors[factorWarm] = "6 of 3s"
	}
	for i := range run.Trials {
		run.Trials[i].Covariates[covariateRounds], run.Trials[i].Covariates[covariateSteady] = 2, 1
	}
	last := run.Trials[len(run.Trials)-1].Covariates
	last[covariateRounds], last[covariateSteady], last[lab.StepsRepeated] = 6, 0, 7
	page := text(t, Sheet(run, attachmentsOf(run), nil))
	for _, want := range []string{"(at most 6 of 3s) until two after one another had throughputs within 5 %: that took 2 to 6 rounds, and in 1 of", "in file the loads of a step were made again 7 times"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

// What is not warmed tells of no round, and what warming may take is in an estimate.
func TestWarmingIsCounted(t *testing.T) {
	f := newFixture(1)
	f.o.Warm = 0
	if err := f.run(t); err != nil {
		t.Fatal(err)
	}
	if _, told := f.bench.Covariates[covariateSteady]; told || f.bench.Covariates[covariateRounds] != 0 {
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
	if more := Pass(with) - Pass(without); more != 12*time.Second {
		t.Errorf("an estimate is longer by %v, want 12s", more)
	}
}
