package overhead_test

import (
	"strings"
	"testing"
	"time"

	"tare/overhead"
	"tare/platform"
	"tare/record"
	"tare/workload"
)

// ours is a run of tare's own over storage and network, in its own names.
func ours() record.Run {
	metrics := []workload.Metric{{Name: "copy", Unit: "B/s", Better: workload.Higher, Primary: true}}
	at := func(id, storage, network string, set platform.Setting, floor string) record.Condition {
		f := map[string]string{"io": "stream", "elements": "1000000", "storage": storage, "network": network, "engine": "docker"}
		if floor != "" {
			f["floor"] = floor
		}
		return record.Condition{ID: id, Workload: "stream[elements=1000000]", Platform: "docker", Setting: set, Factors: f, Metrics: metrics, Baseline: id == "o@bare"}
	}
	run := record.Run{ID: "io-1", Study: "io", Status: record.Complete, Started: time.Unix(1e9, 0), Plan: record.Plan{SmallestEffect: 0.02, Level: 0.95},
		Conditions: []record.Condition{
			at("o@bare", "bare", "host", platform.Setting{}, ""), at("o@fio", "bare", "host", platform.Setting{}, "fio"),
			at("o@bind", "bind", "host", platform.Setting{Storage: platform.StorageBind}, ""),
			at("o@bind,bridge", "bind", "bridge", platform.Setting{Storage: platform.StorageBind, Network: platform.NetworkBridge}, ""),
		}}
	for i, c := range run.Conditions {
		for block := range 5 {
			run.Trials = append(run.Trials, record.Trial{Condition: c.ID, Workload: c.Workload, Block: block + 1, Attempt: 1,
				Samples: []record.Sample{{Metric: "copy", Value: 100 + float64(block) - float64(i) - 0.1*float64(block*i)}}})
		}
	}
	return run
}

// What was measured elsewhere has other names, and is compared with what has the same
// levels of the same factors: not with the floor, and not with the bridge that nobody
// told of.
func TestCompareFindsCounterpartsByFactors(t *testing.T) {
	theirs := elsewhere(false, []float64{100, 101, 102, 103, 104}, []float64{90, 91, 92, 93, 94.5})
	for i, storage := range []string{"bare", "bind"} {
		theirs.Conditions[i].Factors = map[string]string{"io": "stream", "elements": "1000000", "storage": storage, "laptop": "yes"}
	}
	for name, runs := range map[string][2]record.Run{"theirs before": {theirs, ours()}, "theirs after": {ours(), theirs}} {
		c, err := overhead.Compare(runs[0], runs[1], overhead.CompareOptions{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var ids []string
		for _, row := range c.Rows {
			ids = append(ids, row.Condition)
		}
		if got := strings.Join(ids, ", "); got != "o@bare, o@bind" {
			t.Errorf("%s: compared %s", name, got)
		}
		warnings := strings.Join(c.Warnings, "\n")
		for _, want := range []string{"import-1, not interleaved", "import-1, no A/A"} {
			if !strings.Contains(warnings, want) {
				t.Errorf("%s: no %q in\n%s", name, want, warnings)
			}
		}
		if strings.Contains(warnings, "host: ") && strings.Contains(warnings, "before,") {
			t.Errorf("%s: differences from a host of which nothing is known:\n%s", name, warnings)
		}
	}
	// Two that tell the same of themselves cannot both be the counterpart.
	theirs.Conditions[0].Factors["storage"] = "bind"
	c, err := overhead.Compare(theirs, ours(), overhead.CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(c.Warnings, "\n"), "--factor") {
		t.Errorf("nothing says that one was ambiguous: %v", c.Warnings)
	}
}
