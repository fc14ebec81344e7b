package density

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"tare/claim"
	"tare/record"
	"tare/study/kit"
)

// remade makes a run of the same steps, edited.
func remade(t *testing.T, m made, edit func(block int, steps []Step) []Step) record.Run {
	t.Helper()
	run := m.run(t)
	for i, trial := range run.Trials {
		steps, err := stepsOf(trial)
		if err != nil {
			t.Fatal(err)
		}
		for name := range trial.Covariates {
			if name[0] >= '0' && name[0] <= '9' {
				delete(trial.Covariates, name)
			}
		}
		clear(trial.Histograms)
		run.Trials[i].Attachments = nil
		if err := keep(kept{&run.Trials[i]}, edit(trial.Block, steps)); err != nil {
			t.Fatal(err)
		}
	}
	return run
}

// interrupted is what a step has that was stopped in its load by a schedule.
func interrupted(s Step, why string) Step {
	s.Stop, s.Closed, s.Elapsed = why, Served{}, time.Second
	s.Open = Served{Rate: 3, Requests: 1, Elapsed: time.Second, Latency: latencies(900_000)}
	return s
}

// What is stopped before clients that wait were answered has no figure of throughput:
// nothing falls, and nothing is decided, however many sweeps end so.
func TestStoppedBeforeClosedIsNoFall(t *testing.T) {
	for _, order := range []string{Continuous, Interleaved} {
		run := remade(t, withOrder(order, 5, file(truth{noise: 0.004})), func(_ int, steps []Step) []Step {
			for i, s := range steps {
				if s.Neighbours >= 25 {
					steps[i] = interrupted(s, "stopped for the host's sake: the swap area is full")
					return steps[:i+1]
				}
			}
			return steps
		})
		for _, attachments := range []kit.Attachments{nil, attachmentsOf(run)} {
			r := read(run, attachments)
			a := r.arms[0]
			if n, ok := r.falls(a, 0.25); ok || r.throughputCliff(a).found() || a.greatest() != 21 || a.settled() != 21 {
				t.Errorf("%s: falls at %d (%v), a cliff %v, to %d", order, n, ok, r.throughputCliff(a).found(), a.greatest())
			}
			if all := a.halts(); len(all) != len(a.sweeps) || all[0].neighbours != 25 {
				t.Errorf("%s: halts %+v", order, all)
			}
		}
		if j := Judge(run); len(j) != 1 || j[0].Verdict != claim.Inconclusive {
			t.Errorf("%s: %+v", order, j)
		}
	}
}

// Of a block of single steps several may be stopped; those beyond may not, and keep
// their figures. Where one of two executions was stopped, the other's stand.
func TestSeveralStepsOfABlockEnd(t *testing.T) {
	second := map[int]bool{}
	run := remade(t, withOrder(Interleaved, 3, file(truth{noise: 0.004})), func(block int, steps []Step) []Step {
		switch n := steps[0].Neighbours; {
		case n == 29 || n == 37:
			steps[0] = interrupted(steps[0], "the step took longer than 1m0s (--step-limit)")
		case n == 33:
			steps[0] = Step{Neighbours: n, Stop: "stopped for the host's sake: 1 MiB left"}
		case n == 1 && !second[block]: // the base runs it twice
			second[block] = true
			steps[0] = interrupted(steps[0], "stopped for the host's sake")
		}
		return steps
	})
	r := read(run, nil)
	a := r.arms[0]
	for _, s := range a.sweeps {
		var numbers []int
		for _, step := range s.steps {
			numbers = append(numbers, step.Neighbours)
		}
		if want := []int{1, 5, 9, 13, 17, 21, 25, 41, 45, 49}; !slices.Equal(numbers, want) {
			t.Fatalf("steps %v, want %v", numbers, want)
		}
		if s.steps[0].Stop != "" || s.steps[0].Open.Latency.TotalCount() != 800 {
			t.Errorf("a stopped execution is in the first step: %q, %d requests", s.steps[0].Stop, s.steps[0].Open.Latency.TotalCount())
		}
	}
	if e := r.throughputRatio(a, 49); !e.Known() || math.Abs(e.Value-1) > 0.1 {
		t.Errorf("throughput at 49 is %+v times", e)
	}
}

// A whole load of which nothing was answered is a figure, with the attachment and without.
func TestUnansweredIsAFigure(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	why := stopped(ctx, errUnanswered, 0)
	run := remade(t, withOrder(Continuous, 3, file(truth{noise: 0.004})), func(_ int, steps []Step) []Step {
		for i, s := range steps {
			if s.Neighbours == 25 {
				steps[i] = interrupted(s, why)
				steps[i].Open = Served{Failed: 900, Elapsed: 4 * time.Second, Latency: latencies()}
				return steps[:i+1]
			}
		}
		return steps
	})
	for _, attachments := range []kit.Attachments{nil, attachmentsOf(run)} {
		r := read(run, attachments)
		if n, ok := r.falls(r.arms[0], 0.25); !ok || n != 25 {
			t.Errorf("throughput falls at %d, %v", n, ok)
		}
	}
}

// A fall that sweeps which went on do not have any more is none, although not all went on.
func TestFallIsSeenAtTheNextNumber(t *testing.T) {
	run := remade(t, withOrder(Continuous, 5, file(s3)), func(block int, steps []Step) []Step {
		for i := range steps {
			steps[i].Closed.Rate = 1000
			if steps[i].Neighbours == 25 || steps[i].Neighbours >= 41 {
				steps[i].Closed.Rate = 500 + float64(block)
			}
			if steps[i].Neighbours == 25 && block == 1 {
				return steps[:i+1]
			}
		}
		return steps
	})
	r := read(run, nil)
	if n, ok := r.falls(r.arms[0], 0.25); !ok || n != 41 {
		t.Errorf("throughput falls at %d (%v): sweeps that went beyond 25 have it back until 41", n, ok)
	}
}

// Requests that fail are the slowest: a percentile does not fall because more give up.
func TestFailedRequestsAreTheSlowest(t *testing.T) {
	run := remade(t, withOrder(Continuous, 3, file(truth{noise: 0.004})), func(_ int, steps []Step) []Step {
		for i := range steps {
			switch s := &steps[i]; {
			case s.Neighbours >= 25:
				s.Open.Failed = 40 // of 840: a twentieth
			case s.Neighbours == 5:
				s.Open.Failed = 1
			}
		}
		return steps
	})
	r := read(run, nil)
	a := r.arms[0]
	if e := r.quantileRatio(a, 49, open, 0.99); !math.IsNaN(e.Value) {
		t.Errorf("the p99 among failed requests is %+v times", e)
	}
	if e := r.quantile(a, 49, open, 0.99); !math.IsNaN(e.Value) {
		t.Errorf("the p99 among failed requests is %+v", e)
	}
	if all, less := r.quantile(a, 49, open, 0.95).Value, r.quantile(a, 1, open, 0.95).Value; !(all > 1.2*less) {
		t.Errorf("the p95 is %v, where a twentieth failed; %v where none did", all, less)
	}
	if e := r.quantile(a, 5, open, 0.99); math.IsNaN(e.Value) {
		t.Error("no p99 where one request of 800 failed")
	}
	if c := r.tailCliff(a); !c.found() || c.After != 25 {
		t.Errorf("the p99: %s, between %v and %v", c.Shape, c.Before, c.After)
	}
	if got := r.extreme(a, 49); got < 9.99e6 {
		t.Errorf("the greatest is %v µs", got)
	}
	s := a.sweeps[0]
	if got := s.unharmed(harm{1e6, []float64{1e6, 1e6, 1e6, 1e6}}); s.steps[got].Neighbours >= 25 {
		t.Errorf("unharmed with %d, where requests fail", s.steps[got].Neighbours)
	}
}

// A density ends somewhere before the step that ended its sweep, with figures or without; where
// nobody knows how much that asked for, or a step was stopped that showed no harm, it has
// no upper end, and refutes nothing.
func TestDensityOfAStoppedSweep(t *testing.T) {
	quiet := truth{noise: 0.004, slows: 1}
	harmed := truth{cliff: 1, keeps: 0.5, stalls: 0.05, stall: 200, slows: 1, noise: 0.004}
	for _, c := range []struct {
		name    string
		end     func(steps []Step) []Step // of an arm's, from the one at 1.9 times on
		high    float64
		reached int
		verdict claim.Verdict
	}{
		{"the end is known", func(steps []Step) []Step {
			steps[1] = interrupted(steps[1], "stopped for the host's sake: the swap area is full")
			return steps[:2]
		}, 0.3 + 17*neighbour, 0, claim.Inconclusive},
		{"the end was not read", func(steps []Step) []Step {
			steps[1] = Step{Neighbours: steps[1].Neighbours, Stop: "stopped for the host's sake: 1 MiB left"}
			return steps[:2]
		}, 0.3 + 17*neighbour, 0, claim.Inconclusive}, // as steadily as before
		{"stopped without harm", func(steps []Step) []Step {
			steps[0].Stop = "the step took longer than 1m0s (--step-limit)"
			return steps[:1]
		}, 0.3 + 9*neighbour, 5, claim.Inconclusive},
	} {
		m := withOrder(Continuous, 5, file(harmed), annexed(quiet))
		m.numbers, m.requests = []int{1, 5, 9, 17, 49}, 4000
		trials := 0
		run := remade(t, m, func(_ int, steps []Step) []Step {
			if trials++; trials <= 10 { // the base's, which has each twice
				return steps
			}
			return append(slices.Clone(steps[:2]), c.end(slices.Clone(steps[2:]))...)
		})
		all := Unharmed(run)
		if len(all) != 2 {
			t.Fatalf("%s: %+v", c.name, all)
		}
		if d := all[1]; math.Abs(d.Overcommit.Interval.High-c.high*1024/(1024+30)) > 1e-9 || d.Reached != c.reached {
			t.Errorf("%s: unharmed to %+v, %d sweeps to their end, want at most %.3f and %d", c.name, d.Overcommit, d.Reached, c.high, c.reached)
		}
		judged := Judge(run)
		i := slices.IndexFunc(judged, func(j claim.Judgement) bool { return j.Claim == judgedExtended })
		if i < 0 || judged[i].Verdict != c.verdict {
			t.Errorf("%s: %+v, want %s", c.name, judged, c.verdict)
		}
	}
}

// Requests of clients that wait, which fail, are harm as those of a schedule are.
func TestFailedRequestsOfWaitingClientsAreHarm(t *testing.T) {
	quiet := truth{cliff: 1.5, keeps: 0.5, stalls: 0.02, stall: 200, slows: 1, noise: 0.01}
	m := withOrder(Interleaved, 5, file(quiet), annexed(truth{slows: 1, noise: 0.01}))
	m.requests = 4000
	for _, fails := range []bool{false, true} {
		run := remade(t, m, func(_ int, steps []Step) []Step {
			if steps[0].Extension != nil && steps[0].Neighbours >= 13 && fails {
				steps[0].Closed.Failed = 3
			}
			return steps
		})
		judged := Judge(run)
		i := slices.IndexFunc(judged, func(j claim.Judgement) bool { return j.Claim == judgedExtended })
		if want := map[bool]claim.Verdict{false: claim.Confirmed, true: claim.Refuted}[fails]; i < 0 || judged[i].Verdict != want {
			t.Errorf("requests fail %v: %+v, want %s", fails, judged, want)
		}
	}
}
