package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/platform"
	"tare/record"
)

// executing is a bench for programs that run to their end. The platform "box" creates
// ahead of the start.
func executing(t *testing.T) (*bench, *stage, *executedFake, *creator) {
	b := newBench(t, "bare", "box")
	s := newStage(t, b)
	box := &creator{atRest: map[*created]bool{}}
	lookUp := b.Platforms
	b.Platforms = func(name string) (platform.Platform, error) {
		p, err := lookUp(name)
		if name == "box" && err == nil {
			box.freezer = p.(*freezer)
			return box, nil
		}
		return p, err
	}
	t.Cleanup(func() {
		if len(box.atRest) > 0 {
			t.Errorf("%d programs are left at rest", len(box.atRest))
		}
	})
	return b, s, &executedFake{fakeWorkload: &fakeWorkload{name: "w", value: constant(1)}, stage: s}, box
}

// A strip launches each condition once, one after the other, and is a round by itself. What its
// workload records are the strip's samples.
func TestExecutionsInRounds(t *testing.T) {
	b, s, w, _ := executing(t)
	b.platforms["box"].executes = true
	run, err := b.Run(t.Context(), inRounds(w, record.Plan{Blocks: 3}, "bare", "box"), newRun("r"))
	if err != nil || run.Status != record.Complete {
		t.Fatalf("status %s: %v", run.Status, err)
	}
	plan := run.Plan.Rounds["w"]
	if plan.Slice != 0 || plan.Strips != 1 || plan.CostOfStrip < 3*time.Second {
		t.Errorf("plan %+v", plan)
	}
	if s.count["create"] == 0 || s.count["create"] != s.count["start"] {
		t.Errorf("%d created, %d started", s.count["create"], s.count["start"])
	}
	at := places(run)
	if len(at) != 3 {
		t.Errorf("%d strips", len(at))
	}
	for strip, order := range at {
		if got := slices.Sorted(slices.Values(order)); !slices.Equal(got, []string{"w@bare/0", "w@bare/1", "w@box/0"}) {
			t.Errorf("strip %s: %v", strip, order)
		}
	}
	previous := 0
	for _, trial := range run.Trials {
		// The program takes a second, and the steps before it are not its own.
		if len(trial.Samples) != 1 || len(trial.Slices) != 1 || trial.Slices[0].Window != time.Second {
			t.Errorf("round %d, %s: %d samples, %d slices of %v in %v", trial.Block, trial.Condition, len(trial.Samples), len(trial.Slices), trial.Slices[0].Window, trial.Elapsed)
		}
		if trial.Slices[0].Previous != "" {
			previous++
		}
	}
	if want := len(run.Trials) - 4; previous != want { // all but the first of the pilot and of each round
		t.Errorf("%d slices tell what was before them, want %d", previous, want)
	}
}

// Where an engine starts the program, what that takes is a part of its time.
func TestAnEnginesStartCounts(t *testing.T) {
	b, _, w, _ := executing(t)
	run, err := b.Run(t.Context(), inRounds(w, record.Plan{Blocks: 3}, "bare", "box"), newRun("r"))
	if err != nil {
		t.Fatal(err)
	}
	for _, trial := range run.Trials {
		if window := trial.Slices[0].Window; trial.Condition == "w@box" && window <= time.Second {
			t.Errorf("round %d: %v of %v", trial.Block, window, trial.Elapsed)
		}
	}
}

// Whatever fails, nothing is left, and what failed is kept with its cause and without
// figures.
func TestExecutionsLeaveNothingWhereAStepFails(t *testing.T) {
	for _, step := range []string{"launch", "create", "start", "drive", "stop"} {
		for _, nth := range []int{1, 2, 7, 9} {
			b, s, w, _ := executing(t)
			s.fail = func(name string, n int, of *standIn) error {
				if name == step && n == nth {
					return errors.New("it broke")
				}
				if name == "drive" {
					for other := range s.alive {
						if other != of && other.loads == 0 {
							t.Error("two programs run side by side")
						}
					}
				}
				return nil
			}
			run, err := b.Run(t.Context(), inRounds(w, record.Plan{Blocks: 10}, "bare", "box"), newRun("r"))
			if err != nil && !strings.Contains(err.Error(), "it broke") {
				t.Errorf("%s %d: %v", step, nth, err)
			}
			failed := 0
			for _, trial := range run.Trials {
				if trial.Error != "" {
					failed++
					if len(trial.Samples)+len(trial.Slices) > 0 {
						t.Errorf("%s %d: what failed has figures", step, nth)
					}
				}
			}
			if err == nil && (run.Status != record.Complete || failed != 1) {
				t.Errorf("%s %d: status %s, %d failed", step, nth, run.Status, failed)
			}
		}
	}
}

// A program that fails, and may run on, is ended before the next one starts.
func TestAnExecutionThatFailsIsEndedAtOnce(t *testing.T) {
	b, s, w, _ := executing(t)
	var hung *standIn
	s.fail = func(step string, n int, of *standIn) error {
		if step != "drive" {
			return nil
		}
		if hung != nil && s.alive[hung] {
			t.Error("the next one starts beside what did not end")
		}
		if n == 8 {
			hung = of
			return errors.New("not finished after 10m0s")
		}
		return nil
	}
	if _, err := b.Run(t.Context(), inRounds(w, record.Plan{Blocks: 2}, "bare", "box"), newRun("r")); err != nil {
		t.Fatal(err)
	}
	if hung == nil {
		t.Error("nothing hung")
	}
}

func TestThreeFailedExecutionsEndARun(t *testing.T) {
	b, s, w, _ := executing(t)
	s.fail = func(step string, n int, of *standIn) error {
		if step == "drive" && n > 9 && of.platform == "box" {
			return errors.New("exit status 1")
		}
		return nil
	}
	run, err := b.Run(t.Context(), inRounds(w, record.Plan{Blocks: 4}, "bare", "box"), newRun("r"))
	if err == nil || !strings.Contains(err.Error(), "w@box failed 3 times in a row: exit status 1") {
		t.Errorf("status %s: %v", run.Status, err)
	}
}

// Executions that are stopped at any moment leave nothing, and go on when resumed.
func TestExecutionsAreStoppedAndResumed(t *testing.T) {
	for _, step := range []string{"launch", "create", "start", "drive"} {
		for _, moment := range []int{1, 3, 8, 14} {
			t.Run(fmt.Sprint(step, moment), func(t *testing.T) {
				b, s, w, _ := executing(t)
				ctx, cancel := context.WithCancelCause(t.Context())
				s.fail = func(name string, n int, _ *standIn) error {
					if name == step && n == moment {
						cancel(ErrStopped)
					}
					return nil
				}
				d := inRounds(w, record.Plan{Blocks: 15}, "bare", "box")
				run, err := b.Run(ctx, d, newRun("r"))
				if i := (*Interrupted)(nil); !errors.As(err, &i) {
					t.Fatalf("status %s: %v", run.Status, err)
				}
				kept := len(run.Trials)
				if kept%3 != 0 {
					t.Errorf("half of a strip was kept: %d trials", kept)
				}
				for _, p := range b.platforms {
					p.names = nil
				}
				s.fail = nil
				if run, err = b.Resume(t.Context(), inRounds(w, record.Plan{Blocks: 15}, "bare", "box"), run); err != nil || run.Status != record.Complete {
					t.Fatalf("resumed: status %s: %v", run.Status, err)
				}
			})
		}
	}
}

// A budget holds as many rounds as it has time for, and says where five do not fit.
func TestABudgetOfExecutions(t *testing.T) {
	for _, c := range []struct {
		budget time.Duration
		least  int
		short  bool
	}{{time.Minute, 15, false}, {5 * time.Minute, 80, false}, {8 * time.Second, 1, true}} {
		b, _, w, _ := executing(t)
		began := b.clock.now()
		run, err := b.Run(t.Context(), inRounds(w, record.Plan{Budget: c.budget}, "bare", "box"), newRun("r"))
		if err != nil {
			t.Fatal(err)
		}
		last := 0
		for _, trial := range run.Trials {
			last = max(last, trial.Block)
		}
		if got := run.Plan.Rounds["w"].Strips; got != 1 || last < c.least {
			t.Errorf("%v: %d rounds of %d strips, want %d of one", c.budget, last, got, c.least)
		}
		if took := b.clock.now().Sub(began); !c.short && took > c.budget+5*time.Second {
			t.Errorf("%v: it took %v", c.budget, took)
		}
		if warned := b.warned("fewer than 5 rounds"); c.short != (len(warned) == 1) {
			t.Errorf("%v: warned %q", c.budget, warned)
		}
	}
}
