package overhead_test

import (
	"testing"

	"tare/overhead"
	"tare/record"
	"tare/record/recordtest"
)

// layered is a run whose docker costs something, and whose other conditions divide that:
// without its filter it costs rest.
func layered(rounds int, cost, rest float64) record.Run {
	run := recordtest.Rounds{Seed: 5, Rounds: rounds, Strips: 24, Noise: 0.004, Launch: 0.001, Conditions: []recordtest.Effect{
		{Platform: "docker", CPU: cost}, {Platform: "docker-open", CPU: rest}, {Platform: "cgroup"},
	}}.Run()
	run.Plan.Layers = map[string]record.LayerPlan{"redis": {
		Of: "redis before", Condition: "redis@docker", Metric: "get-cpu", Whole: "redis@docker", Bare: "redis@bare", Margin: 0.005,
		Steps: []record.LayerStep{
			{Layer: "the filter", Without: "redis@docker-open", With: "redis@docker", Removed: true},
			{Layer: "the control group", Without: "redis@bare", With: "redis@cgroup"},
		},
	}}
	return run
}

func TestALayerThatIsAllOfACost(t *testing.T) {
	rep := overhead.Analyse(layered(12, 1.03, 1), overhead.Options{})
	if len(rep.Groups) != 0 || len(rep.Layers) != 1 {
		t.Fatalf("%d groups and %d divided costs, want the rounds to be of the explanation alone", len(rep.Groups), len(rep.Layers))
	}
	f := rep.Layers[0]
	if f.Cause == nil || f.Cause.Layer != "the filter" || !f.All || !near(f.Cause.Percent, 3, 0.4) || !near(f.Whole.Percent, 3, 0.4) || f.Rounds != 12 {
		t.Fatalf("cause %+v, all of it %v, whole %+v", f.Cause, f.All, f.Whole)
	}
	if added := f.Steps[1]; added.Decided || added.Removed || added.Without != "bare" || added.With != "cgroup" {
		t.Errorf("%+v", added)
	}
}

func TestALayerThatIsPartOfACost(t *testing.T) {
	f := overhead.Analyse(layered(12, 1.03, 1.015), overhead.Options{}).Layers[0]
	if f.Cause == nil || f.All || f.Rest == nil || !near(f.Rest.Percent, 1.5, 0.4) {
		t.Errorf("cause %+v, rest %+v, all of it %v", f.Cause, f.Rest, f.All)
	}
}

// What is not the cause is not named, nor is anything of too few rounds.
func TestACostWithoutACause(t *testing.T) {
	for name, run := range map[string]record.Run{"the filter costs nothing": layered(12, 1.03, 1.03), "four rounds": layered(4, 1.03, 1)} {
		if f := overhead.Analyse(run, overhead.Options{}).Layers[0]; f.Cause != nil || f.All {
			t.Errorf("%s: %+v", name, f.Cause)
		}
	}
}
