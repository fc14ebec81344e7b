package overhead_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/overhead"
	"tare/record"
	"tare/stats"
	"tare/workload"
)

// elsewhere is a run of two conditions that was measured elsewhere.
func elsewhere(paired bool, base, treatment []float64) record.Run {
	metrics := []workload.Metric{{Name: "copy", Unit: "B/s", Better: workload.Higher, Primary: true}}
	run := record.Run{
		ID: "import-1", Study: "import", Status: record.Imported, Started: time.Unix(1e9, 0),
		Plan: record.Plan{SmallestEffect: 0.02, Level: 0.95, Imported: &record.Import{Format: "csv", Paired: paired}},
		Conditions: []record.Condition{
			{ID: "stream@bare", Label: "bare", Workload: "stream", Baseline: true, Metrics: metrics},
			{ID: "stream@bind", Label: "bind", Workload: "stream", Metrics: metrics},
		},
	}
	for i, values := range [][]float64{base, treatment} {
		for block, v := range values {
			run.Trials = append(run.Trials, record.Trial{
				Condition: run.Conditions[i].ID, Workload: "stream", Block: block + 1, Attempt: 1,
				Started: run.Started, Samples: []record.Sample{{Metric: "copy", Value: v}},
			})
		}
	}
	return run
}

// Numbers of repetitions pair nothing unless somebody says that they do: the same
// figures have another interval, and samples of different sizes are all used.
func TestImportedRepetitionsAreNoPairs(t *testing.T) {
	base, treatment := []float64{100, 110, 120, 130, 140}, []float64{95, 104, 114, 123, 134}
	paired := row(t, overhead.Analyse(elsewhere(true, base, treatment), overhead.Options{}), "copy", "bind")
	if paired.Ratio.Method != string(stats.MethodT) || paired.Verdict != overhead.Worse {
		t.Errorf("paired: %s by %s", paired.Verdict, paired.Ratio.Method)
	}
	run := elsewhere(false, base, append(treatment, 115))
	report := overhead.Analyse(run, overhead.Options{})
	unpaired := row(t, report, "copy", "bind")
	if unpaired.Ratio.Method != string(stats.MethodWelch) || unpaired.Verdict != overhead.Inconclusive || unpaired.Ratio.N != 5 {
		t.Errorf("unpaired: %s by %s, n %d", unpaired.Verdict, unpaired.Ratio.Method, unpaired.Ratio.N)
	}
	want := stats.UnpairedRatio(base, append(treatment, 115), 0.95)
	if unpaired.Ratio.Value != want.Value || unpaired.Ratio.Interval != want.Interval {
		t.Errorf("unpaired: %+v, want %+v", unpaired.Ratio, want)
	}
	if !strings.Contains(unpaired.Needs, "repetitions under each condition") {
		t.Errorf("needs %q", unpaired.Needs)
	}
	if unpaired.Difference.Method != string(stats.MethodWelch) {
		t.Errorf("difference by %s", unpaired.Difference.Method)
	}
	for _, p := range unpaired.Blocks {
		if !math.IsNaN(p.Ratio) {
			t.Errorf("block %d has a ratio, %v", p.Block, p.Ratio)
		}
	}
	r := overhead.Read(run)
	if e := r.Ratio(r.PerBlock(run.Conditions[0], "copy"), r.PerBlock(run.Conditions[1], "copy")); e.Value != want.Value || e.Interval != want.Interval {
		t.Errorf("a reading's ratio: %+v, want %+v", e, want)
	}
}

// One run a cell has a factor and no interval: nothing is decided, and it says what
// would.
func TestOneRunACellDecidesNothing(t *testing.T) {
	r := row(t, overhead.Analyse(elsewhere(false, []float64{100}, []float64{50}), overhead.Options{}), "copy", "bind")
	if r.Verdict != overhead.Inconclusive || math.Abs(r.Percent-50) > 1e-9 || r.Ratio.Known() || !strings.Contains(r.Needs, "at least 5") {
		t.Errorf("%s %v %% [%v, %v], needs %q", r.Verdict, r.Percent, r.PercentLow, r.PercentHigh, r.Needs)
	}
}

// Names that somebody gave elsewhere are no more for strangers than ours.
func TestRedactWhatWasImported(t *testing.T) {
	run := elsewhere(false, []float64{1, 2, 3}, []float64{1, 2, 3})
	run.Plan.Imported = &record.Import{Format: "csv", Sources: []record.Source{{Name: "/srv/acme9/a.csv", SHA256: "00"}}, Host: "the one at /srv/acme9", Unjudged: "not interleaved: a is in /srv/acme9/a.csv"}
	run.Conditions[1].Platform = "run /srv/acme9/x"
	run.Conditions[1].Factors = map[string]string{"command": "run /srv/acme9/x", "elements": "1000"}
	redacted := overhead.Redact(run)
	if text := fmt.Sprintf("%+v %+v", redacted.Conditions, *redacted.Plan.Imported); strings.Contains(text, "acme9") || !strings.Contains(text, "1000") {
		t.Errorf("redacted: %s", text)
	}
	if run.Plan.Imported.Sources[0].Name != "/srv/acme9/a.csv" {
		t.Error("the run itself was changed")
	}
}

func TestLacks(t *testing.T) {
	lacks := func(run record.Run) string { return fmt.Sprint(strings.Join(overhead.Lacks(run), "\n")) }
	run := elsewhere(false, []float64{1, 2, 3}, []float64{1, 2})
	for _, want := range []string{"imported: ", "not interleaved: ", "order: unknown", "no A/A: ", "repetitions: 2 to 3 runs a cell", "host: unknown"} {
		if !strings.Contains(lacks(run), want) {
			t.Errorf("no %q in\n%s", want, lacks(run))
		}
	}
	run.Plan.Imported = &record.Import{Format: "csv", Paired: true, Order: "one after the other", Host: "a laptop"}
	for _, want := range []string{"paired: by its importer's word", "order: one after the other", "a laptop"} {
		if !strings.Contains(lacks(run), want) {
			t.Errorf("no %q in\n%s", want, lacks(run))
		}
	}
	if one := lacks(elsewhere(false, []float64{1}, []float64{1})); !strings.Contains(one, "one run a cell") {
		t.Errorf("one run a cell: %s", one)
	}
	run.Plan.Imported = nil
	if lacks := overhead.Lacks(run); lacks != nil {
		t.Errorf("of our own: %v", lacks)
	}
	if report := overhead.Analyse(elsewhere(false, []float64{1, 2}, []float64{1, 2}), overhead.Options{}); len(report.Warnings) < 5 {
		t.Errorf("the analysis does not carry them: %v", report.Warnings)
	}
}

// Counts that are the same in each repetition are exact: what differs is decided, also of
// conditions that were not interleaved, and what does not is equivalent. Equal times are
// rounded ones.
func TestExactCounts(t *testing.T) {
	same := func(v float64, n int) []float64 { return slices.Repeat([]float64{v}, n) }
	for what, c := range map[string]struct {
		unit            string
		base, treatment []float64
		unjudged        string
		verdict         overhead.Verdict
		percent         float64
		needs           string
	}{
		"more":                 {"allocs/op", same(10, 5), same(11, 6), "", overhead.Worse, 10, ""},
		"fewer, in two files":  {"B/op", same(512, 5), same(480, 5), "not interleaved: so", overhead.Better, -6.25, ""},
		"as many":              {"instructions", same(1e9, 5), same(1e9, 5), "", overhead.Equivalent, 0, ""},
		"some after none":      {"allocs/op", same(0, 5), same(1, 5), "", overhead.Worse, math.NaN(), ""},
		"none after none":      {"allocs/op", same(0, 5), same(0, 5), "", overhead.Inconclusive, math.NaN(), ""},
		"of four repetitions":  {"allocs/op", same(10, 4), same(11, 4), "", overhead.Inconclusive, 10, "at least 5 repetitions"},
		"no whole number":      {"allocs/op", same(10.5, 5), same(11.5, 5), "", overhead.Inconclusive, 100 / 10.5, "more digits"},
		"of one process":       {"allocs/op", same(10, 5), same(11, 6), "", overhead.Inconclusive, 10, "five runs of the program"},
		"a time":               {"s", same(10, 5), same(11, 5), "", overhead.Inconclusive, 10, "more digits"},
		"a time for each":      {"sec/op", same(10, 5), same(11, 5), "", overhead.Inconclusive, 10, "more digits"},
		"megabytes":            {"MB", same(10, 5), same(11, 5), "", overhead.Inconclusive, 10, "more digits"},
		"a count that varies":  {"faults", []float64{10, 10, 10, 10, 11}, []float64{20, 20, 20, 20, 21}, "", overhead.Worse, 98.1, ""},
		"that, in two files":   {"faults", []float64{10, 10, 10, 10, 11}, []float64{20, 20, 20, 20, 21}, "not interleaved: so", overhead.Inconclusive, 98.1, "measured in turn"},
		"one side that varies": {"faults", same(10, 5), []float64{20, 20, 20, 20, 21}, "", overhead.Worse, 102, ""},
	} {
		run := elsewhere(false, c.base, c.treatment)
		run.Plan.Imported.Unjudged = c.unjudged
		if what == "of one process" {
			run.Plan.Imported.FewProcesses = []string{run.Conditions[1].ID}
		}
		for i := range run.Conditions {
			run.Conditions[i].Metrics = []workload.Metric{{Name: "copy", Unit: c.unit, Better: workload.Lower, Primary: true}}
		}
		report := overhead.Analyse(run, overhead.Options{})
		r := row(t, report, "copy", "bind")
		if r.Verdict != c.verdict || math.Abs(r.Percent-c.percent) > 0.1 || math.IsNaN(r.Percent) != math.IsNaN(c.percent) || !strings.Contains(r.Needs, c.needs) {
			t.Errorf("%s: %s, %v %%, needs %q; want %s, %v %%, %q", what, r.Verdict, r.Percent, r.Needs, c.verdict, c.percent, c.needs)
		}
		if first := report.Warnings[0]; (first == "no verdict: "+c.unjudged) != (c.unjudged != "") {
			t.Errorf("%s: the first warning is %q", what, first)
		}
		if exact := r.Ratio.Method == string(stats.MethodExact) || r.Difference.Method == string(stats.MethodExact); exact != (c.verdict != overhead.Inconclusive && !strings.Contains(what, "varies")) {
			t.Errorf("%s: by %s and %s", what, r.Ratio.Method, r.Difference.Method)
		}
	}
}
