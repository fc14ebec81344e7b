package lab

import (
	"context"
	"errors"
	"slices"
	"testing"

	"tare/record"
)

// steps is a design whose one condition has each trial of so many steps, each
// undisturbed. done is called with each step that is done, in the trials that count.
func steps(n int, done func(step int) error) Design {
	w := &fakeWorkload{name: "w"}
	d := twoPlatforms(w, record.Plan{Blocks: 1})
	g := &d.Groups[0]
	g.Once, g.Conditions = true, g.Conditions[:1]
	g.Conditions[0].Procedure = func(_ context.Context, b Bench) error {
		for i := range n {
			found := 0.
			if err := b.Undisturbed(func() error {
				found++
				if b.WarmUp() {
					return nil
				}
				return done(i)
			}); err != nil {
				return err
			}
			b.Record("elapsed", found)
		}
		return nil
	}
	return d
}

// What is disturbed is done again, and neither what came before it nor the trial.
func TestADisturbedStepIsDoneAgain(t *testing.T) {
	b := newBench(t, "bare")
	// The warm-up's three steps, of which one is disturbed and none done again; then a
	// first step, a second one thrice, and a third one twice.
	b.taints = []string{"", "steal 9 %", "", "", "steal 8 %", "steal 7 %", "", "foreign", ""}
	var all []int
	run, err := b.Run(t.Context(), steps(3, func(step int) error { all = append(all, step); return nil }), newRun("r"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(all, []int{0, 1, 1, 1, 2, 2}) || b.judged != len(b.taints) {
		t.Errorf("the steps done were %v, judged %d times", all, b.judged)
	}
	if len(run.Trials) != 2 {
		t.Fatalf("%d trials, want the warm-up and one", len(run.Trials))
	}
	if warm := run.Trials[0]; !slices.Equal(warm.Taint, []string{"steal 9 %"}) || warm.Covariates[StepsRepeated] != 0 {
		t.Errorf("the warm-up: taint %q, %v", warm.Taint, warm.Covariates)
	}
	trial := run.Trials[1]
	if len(trial.Taint) != 0 || trial.Covariates[StepsRepeated] != 3 || len(trial.Samples) != 3 {
		t.Errorf("taint %q, covariates %v, samples %v", trial.Taint, trial.Covariates, trial.Samples)
	}
	var reported []string
	for _, e := range b.events {
		if e.Kind == Reported {
			reported = append(reported, e.Text)
		}
	}
	if len(reported) != 3 || reported[2] != "disturbed, done again: foreign" {
		t.Errorf("reported of %q", reported)
	}
}

// A step that stays disturbed taints the trial, and so has it made again.
func TestAStepThatStaysDisturbedTaints(t *testing.T) {
	b := newBench(t, "bare")
	b.taints = []string{"", "steal 9 %", "steal 8 %", "steal 7 %", ""}
	done := 0
	run, err := b.Run(t.Context(), steps(1, func(int) error { done++; return nil }), newRun("r"))
	if err != nil {
		t.Fatal(err)
	}
	if done != maxTries+1 || len(run.Trials) != 3 {
		t.Fatalf("%d steps in %d trials, want %d in the first and one in the second", done, len(run.Trials), maxTries)
	}
	// The last attempt's cause alone: nothing is kept of the others.
	if first := run.Trials[1]; !slices.Equal(first.Taint, []string{"steal 7 %"}) || first.Covariates[StepsRepeated] != maxTries-1 {
		t.Errorf("taint %q, covariates %v", first.Taint, first.Covariates)
	}
	if again := run.Trials[2]; len(again.Taint) != 0 || again.Attempt != 1 || again.Block != 1 {
		t.Errorf("block %d, attempt %d, taint %q", again.Block, again.Attempt, again.Taint)
	}
}

// A step that fails is no matter of disturbance.
func TestAStepThatFailsIsNotDoneAgain(t *testing.T) {
	b := newBench(t, "bare")
	b.taints = []string{"", "steal 9 %", "steal 9 %", "steal 9 %"}
	done := 0
	run, err := b.Run(t.Context(), steps(2, func(int) error { done++; return errors.New("nobody answers") }), newRun("r"))
	if err == nil && len(run.Trials) == 0 {
		t.Fatal("nothing was run")
	}
	if done == 0 || run.Trials[len(run.Trials)-1].Error != "nobody answers" || run.Trials[len(run.Trials)-1].Covariates[StepsRepeated] != 0 {
		t.Errorf("%d steps, trials %+v", done, run.Trials)
	}
}
