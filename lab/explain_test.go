package lab

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"tare/record"
)

// explained is a design that asks for one more group, where cost tells that there is
// something to explain. Its group is of the conditions of another workload.
func explained(d, further Design, cost func(record.Run) bool) Design {
	d.Explain = func(run record.Run) ([]Group, record.Plan, error) {
		plan := run.Plan
		if len(plan.Layers) == 0 && !cost(run) {
			return nil, plan, nil
		}
		plan.Layers = map[string]record.LayerPlan{further.Groups[0].Workload: {Of: d.Groups[0].Workload}}
		return further.Groups, plan, nil
	}
	return d
}

// inLayers is a workload's design of rounds under another name.
func inLayers(s *stage) Design {
	w := sliced(s, getDrive)
	w.name = "w layers"
	return inRounds(w, record.Plan{}, "bare", "jar")
}

// Once three fifths of the budget are spent, the rest goes into what explains the cost.
func TestACostIsExplainedWithTheRestOfTheBudget(t *testing.T) {
	b := newBench(t, "bare", "box", "jar")
	s := newStage(t, b)
	asked := time.Duration(0)
	d := explained(inRounds(sliced(s, getDrive), record.Plan{Budget: 2 * time.Minute}, "bare", "box"), inLayers(s), func(record.Run) bool {
		asked = b.clock.at.Sub(time.Unix(1_700_000_000, 0))
		return true
	})
	run, err := b.Run(t.Context(), d, newRun("r"))
	if err != nil {
		t.Fatal(err)
	}
	if asked > 72*time.Second || asked < 50*time.Second {
		t.Errorf("asked after %v of 2 min", asked)
	}
	if took := b.clock.at.Sub(time.Unix(1_700_000_000, 0)); took > 2*time.Minute || took < 90*time.Second {
		t.Errorf("all of it took %v of 2 min", took)
	}
	rounds := map[string]map[int]bool{}
	for _, trial := range run.Trials {
		if rounds[trial.Workload] == nil {
			rounds[trial.Workload] = map[int]bool{}
		}
		rounds[trial.Workload][trial.Block] = true
	}
	for _, workload := range []string{"w", "w layers"} {
		if len(rounds[workload]) < leastRounds+1 || run.Plan.Rounds[workload].Strips == 0 {
			t.Errorf("%s has rounds %v and the plan %+v", workload, slices.Collect(maps.Keys(rounds[workload])), run.Plan.Rounds[workload])
		}
	}
	if len(run.Conditions) != 4 || run.Conditions[3].ID != "w layers@jar" || run.Plan.Layers["w layers"].Of != "w" {
		t.Errorf("conditions %v, layers %v", run.Conditions, run.Plan.Layers)
	}
}

// Where there is nothing to explain, all of the budget is the question's own.
func TestWithoutACostTheBudgetIsTheQuestionsOwn(t *testing.T) {
	b := newBench(t, "bare", "box", "jar")
	s := newStage(t, b)
	d := explained(inRounds(sliced(s, getDrive), record.Plan{Budget: 2 * time.Minute}, "bare", "box"), inLayers(s), func(record.Run) bool { return false })
	run, err := b.Run(t.Context(), d, newRun("r"))
	if err != nil {
		t.Fatal(err)
	}
	if took := b.clock.at.Sub(time.Unix(1_700_000_000, 0)); took < 100*time.Second || len(run.Conditions) != 2 || len(run.Plan.Layers) != 0 {
		t.Errorf("took %v of 2 min, with conditions %v", took, run.Conditions)
	}
}

// A run that is interrupted while it explains goes on with that, and to an end, with a
// budget or without.
func TestAnExplanationThatIsInterruptedGoesOn(t *testing.T) {
	for name, plan := range map[string]record.Plan{"budget": {Budget: 2 * time.Minute}, "precision": {Precision: 0.5}} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "bare", "box", "jar")
			s := newStage(t, b)
			design := func() Design {
				return explained(inRounds(sliced(s, getDrive), plan, "bare", "box"), inLayers(s), func(record.Run) bool { return true })
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			b.Watch = func(e Event) {
				if e.Group == "w layers" && e.Kind == Blocked && e.Block == 1 {
					cancel(ErrStopped)
				}
			}
			run, _ := b.Run(ctx, design(), newRun("r"))
			if run.Status != record.Interrupted {
				t.Fatalf("%s: %s", run.Status, run.Reason)
			}
			before := blocksOf(run)
			b.Watch = nil
			run, err := b.Resume(t.Context(), design(), run)
			if err != nil {
				t.Fatal(err)
			}
			after := blocksOf(run)
			if after["w"] != before["w"] || after["w layers"] < leastRounds {
				t.Errorf("rounds before %v, and after %v", before, after)
			}
		})
	}
}

// blocksOf is the last round of each workload.
func blocksOf(run record.Run) map[string]int {
	last := map[string]int{}
	for _, trial := range run.Trials {
		last[trial.Workload] = max(last[trial.Workload], trial.Block)
	}
	return last
}
