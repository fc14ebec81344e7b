package overhead_test

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"tare/overhead"
	"tare/record"
	"tare/record/recordtest"
	"tare/workload"
)

// planted is a run of two conditions: one costs 3 % of throughput, one 1 %.
func planted() recordtest.Rounds {
	return recordtest.Rounds{Seed: 7, Rounds: 10, Strips: 24, Noise: 0.01, Launch: 0.001, Conditions: []recordtest.Effect{
		{Platform: "docker", Rate: 0.97, CPU: 1.04}, {Platform: "oci:runc", Rate: 0.99, CPU: 1.001}}}
}

func TestPlantedEffectsAreFoundInRounds(t *testing.T) {
	rep := overhead.Analyse(planted().Run(), overhead.Options{})
	g := rep.Groups[0]
	if !g.Rounds || g.Blocks != 10 || g.Strips != 10*28 || g.StripsTainted != 0 {
		t.Errorf("%d rounds of %d strips, %d of them tainted", g.Blocks, g.Strips, g.StripsTainted)
	}
	docker, runc := row(t, rep, "get", "docker"), row(t, rep, "get", "oci:runc")
	if docker.Verdict != overhead.Worse || !docker.Differs || docker.PercentLow > 3 || docker.PercentHigh < 3 {
		t.Errorf("docker: %s, %.2f (%.2f to %.2f)", docker.Verdict, docker.Percent, docker.PercentLow, docker.PercentHigh)
	}
	if runc.Verdict != overhead.Equivalent || !runc.Differs {
		t.Errorf("runc: %s, differs %v", runc.Verdict, runc.Differs)
	}
	cpu := row(t, rep, "get-cpu", "docker")
	if m := metric(t, rep, "get-cpu"); !m.ByTotals() || m.Figure != workload.FigureCPU || m.Part != "get" || cpu.Ratio.Value != cpu.Total.Value {
		t.Errorf("CPU time is headlined by %v, of totals %v", cpu.Ratio.Value, cpu.Total.Value)
	}
	if cpu.LoadLevel.Value < 3 || cpu.LoadLevel.Value > 3.2 || cpu.Load.N != 10 {
		t.Errorf("the load generator takes %.2f µs, over %d rounds", cpu.LoadLevel.Value, cpu.Load.N)
	}
}

func TestRoundsAreCountedAsRounds(t *testing.T) {
	few := planted()
	few.Rounds = 3
	rep := overhead.Analyse(few.Run(), overhead.Options{})
	docker := row(t, rep, "get", "docker")
	if docker.Verdict != overhead.Inconclusive || docker.Differs || docker.Needs != "at least 5 rounds" || docker.NeedsBlocks != 5 {
		t.Errorf("three rounds: %s, needs %q", docker.Verdict, docker.Needs)
	}
}

func TestWhatMovesFiguresWithinRoundsIsWarnedOf(t *testing.T) {
	moved := planted()
	moved.Later = 1.02
	moved.Conditions[0].Load = 1.2
	g := overhead.Analyse(moved.Run(), overhead.Options{}).Groups[0]
	warnings := strings.Join(g.Warnings, "\n")
	for _, want := range []string{"position in the strip changes get by +", "docker, get-cpu: the load generator's own CPU time for an operation changes by +20 %"} {
		if !strings.Contains(warnings, want) {
			t.Errorf("no %q in\n%s", want, warnings)
		}
	}
	if strings.Contains(warnings, "oci:runc, get-cpu") {
		t.Errorf("a load that is the same is warned of:\n%s", warnings)
	}
}

func TestAVerdictThatTaintChangesIsKnown(t *testing.T) {
	run := planted().Run()
	for i := range run.Trials {
		trial := &run.Trials[i]
		for j := range trial.Slices {
			s := &trial.Slices[j]
			if s.Strip%3 != 0 {
				continue
			}
			s.Taint = []string{"steal"}
			if trial.Condition == "redis@oci:runc" {
				s.Amount *= 0.5
			}
		}
	}
	rep := overhead.Analyse(run, overhead.Options{})
	if r := row(t, rep, "get", "oci:runc"); r.Verdict != overhead.Equivalent || r.WithTainted == overhead.Equivalent || r.WithTainted == "" {
		t.Errorf("%s without, %s with the tainted strips", r.Verdict, r.WithTainted)
	}
}

func TestThePilotIsShownOnlyWhileThereIsNothingElse(t *testing.T) {
	one := planted()
	one.Rounds = 1
	run := one.Run()
	both := planted().Run()
	for i := range run.Trials {
		run.Trials[i].Block = 0
	}
	if g := overhead.Analyse(run, overhead.Options{}).Groups[0]; g.Blocks != 0 || g.Pilot {
		t.Errorf("%d rounds, pilot %v", g.Blocks, g.Pilot)
	}
	rep := overhead.Analyse(run, overhead.Options{Pilot: true})
	if r := row(t, rep, "get", "docker"); !rep.Groups[0].Pilot || r.Percent < 1 || r.Verdict != overhead.Inconclusive {
		t.Errorf("pilot %v: %.1f %%, %s", rep.Groups[0].Pilot, r.Percent, r.Verdict)
	}
	both.Trials = append(run.Trials, both.Trials...)
	if g := overhead.Analyse(both, overhead.Options{Pilot: true}).Groups[0]; g.Pilot || g.Blocks != 10 {
		t.Errorf("%d rounds, pilot %v", g.Blocks, g.Pilot)
	}
}

func TestDocumentsOfRounds(t *testing.T) {
	stalling := planted()
	stalling.Conditions[0].Stalls, stalling.Conditions[0].StallCost = 0.1, 2
	stalling.Tainted = func(_, strip int) bool { return strip == 3 }
	run := stalling.Run()
	run.Plan.Blocked = map[string]string{"stream": "no"}
	data := document(t, run)
	if err := validate(t, schema(t), data); err != nil {
		t.Fatal(err)
	}
	doc := gjson.ParseBytes(data)
	for path, want := range map[string]any{
		"workloads.0.design":                             "rounds",
		"workloads.0.strips":                             280.0,
		"workloads.0.strips_tainted":                     10.0,
		"workloads.0.effects.0.name":                     "position in the strip",
		"conditions.1.metrics.get-cpu.figure":            "cpu",
		"conditions.1.metrics.get-cpu.load.n":            10.0,
		"conditions.1.overhead.get.differs":              true,
		"conditions.1.overhead.get.typical.n":            10.0,
		"conditions.1.overhead.get.verdict_with_tainted": "worse",
		"conditions.0.overhead.get.differs":              false,
		"conditions.1.overhead.get-p99.typical":          nil,
		"conditions.1.overhead.get.stalls.warnings.#":    0.0,
		"run.plan.blocked.stream":                        "no",
	} {
		if got := doc.Get(path); got.Value() != want {
			t.Errorf("%s is %v, want %v", path, got.Value(), want)
		}
	}
	if stalls := doc.Get("conditions.1.overhead.get.stalls"); stalls.Get("high").Num >= 1 || stalls.Get("not_excluded").Num <= 0 {
		t.Errorf("stalls %s", stalls)
	}
}

func TestExportsOfRounds(t *testing.T) {
	run := planted().Run()
	var out bytes.Buffer
	if err := overhead.CSV(&out, run); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	// Of 10 rounds, 4 instances: 24 slices with two metrics, and 4 with one.
	if want := 1 + 10*4*(24*2+4); len(rows) != want {
		t.Errorf("%d rows, want %d", len(rows), want)
	}
	if last := rows[1][len(rows[1])-1]; last != "1" {
		t.Errorf("the first slice is of strip %s", last)
	}
	results := 0
	for _, line := range benchfmtLines(t, run) {
		if strings.HasPrefix(line, "Benchmark") {
			results++
		}
	}
	if want := 10 * 3 * 3; results != want { // rounds, conditions, metrics
		t.Errorf("%d lines, want %d", results, want)
	}
}

func TestRunsOfTwoDesignsBearNoVerdict(t *testing.T) {
	rounds := planted().Run()
	blocks := planted().Run()
	blocks.Plan.Design = record.DesignBlocks
	blocks.ID = "weigh-20260103"
	c, err := overhead.Compare(rounds, blocks, overhead.CompareOptions{})
	if err == nil && c.Unjudged == "" {
		t.Fatal("judged")
	}
	if want := "redis was measured in rounds in weigh-20260102-150405-7f3a, and in blocks in weigh-20260103: measure both by the same design (--design)"; c.Unjudged != want {
		t.Errorf("%q, want %q", c.Unjudged, want)
	}
	if c, err := overhead.Compare(rounds, planted().Run(), overhead.CompareOptions{}); err != nil || c.Unjudged != "" {
		t.Errorf("two of rounds: %q, %v", c.Unjudged, err)
	}
}

// Where only the strips of one part are disturbed, the reason is said of that part.
func TestAPartOfWhichEveryStripIsTaintedSaysSo(t *testing.T) {
	run := planted().Run()
	for i := range run.Trials {
		for j := range run.Trials[i].Slices {
			if s := &run.Trials[i].Slices[j]; s.Part == "get" {
				s.Taint = []string{"steal"}
			}
		}
	}
	r := row(t, overhead.Analyse(run, overhead.Options{}), "get", "docker")
	if len(r.Ratio.Warnings) != 1 || r.Ratio.Warnings[0] != "each of its strips is tainted" {
		t.Errorf("%q", r.Ratio.Warnings)
	}
}
