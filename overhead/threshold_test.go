package overhead_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"tare/overhead"
	"tare/record"
	"tare/workload"
)

// versions is a run of conditions beside a baseline, each by a factor slower than that.
func versions(seed uint64, blocks int, noise, slower float64, conditions int) record.Run {
	random := rand.New(rand.NewPCG(seed, 2))
	wall := []workload.Metric{{Name: "wall", Unit: "s", Better: workload.Lower, Primary: true}}
	run := record.Run{ID: fmt.Sprintf("weigh-%d", seed), Status: record.Complete, Plan: record.Plan{SmallestEffect: 0.02, Level: 0.95, FailAbove: 0.05}}
	for i := range conditions + 1 {
		id := fmt.Sprintf("app@oci,image=v%d", i)
		run.Conditions = append(run.Conditions, record.Condition{ID: id, Workload: "app", Platform: "oci:runc", Baseline: i == 0, Metrics: wall})
		for block := range blocks {
			value := math.Exp(noise * random.NormFloat64())
			if i > 0 {
				value *= slower
			}
			run.Trials = append(run.Trials, record.Trial{Condition: id, Workload: "app", Block: block + 1, Attempt: 1, Samples: []record.Sample{{Metric: "wall", Value: value}}})
		}
	}
	return run
}

func TestThresholdOfOneRun(t *testing.T) {
	for _, c := range []struct {
		name          string
		noise, slower float64
		want          overhead.Status
	}{
		{"20 % slower", 0.01, 1.20, overhead.Exceeded},
		{"7 % slower", 0.01, 1.07, overhead.Exceeded},
		{"3 % slower", 0.01, 1.03, overhead.Passed},
		{"the same", 0.01, 1, overhead.Passed},
		{"faster", 0.01, 0.8, overhead.Passed},
		{"noise hides it", 0.2, 1.05, overhead.Undecided},
	} {
		rep := overhead.Analyse(versions(1, 12, c.noise, c.slower, 1), overhead.Options{})
		if rep.Threshold.Status != c.want {
			t.Errorf("%s: %s, want %s", c.name, rep.Threshold.Status, c.want)
		}
		if rows := rep.Groups[0].Metrics[0].Rows; rows[0].Status != "" || rows[1].Status != c.want {
			t.Errorf("%s: the baseline is %q, the other %q", c.name, rows[0].Status, rows[1].Status)
		}
	}
	for name, edit := range map[string]func(*record.Run){
		"a condition that fails": func(run *record.Run) {
			each(run, func(trial *record.Trial) {
				if trial.Condition != run.Conditions[0].ID {
					trial.Error = "no"
				}
			})
		},
		"all tainted":       func(run *record.Run) { each(run, func(trial *record.Trial) { trial.Taint = []string{"steal 9 %"} }) },
		"no primary metric": func(run *record.Run) { run.Conditions[0].Metrics[0].Primary = false },
	} {
		run := versions(1, 12, 0.01, 0.5, 2)
		edit(&run)
		if rep := overhead.Analyse(run, overhead.Options{}); rep.Threshold.Status != overhead.Undecided {
			t.Errorf("%s: %+v", name, rep.Threshold)
		}
	}
	run := versions(1, 12, 0.01, 2, 1)
	run.Plan.FailAbove = 0
	if rep := overhead.Analyse(run, overhead.Options{}); rep.Threshold != (overhead.Threshold{}) {
		t.Errorf("without a threshold: %+v", rep.Threshold)
	}
}

// Twenty conditions that all lie on the threshold exceed it, any of them, in no more
// runs than the level allows; without Holm's steps it would be several times as many.
// Both ways to judge are held to that.
func TestManyRowsDoNotExceedByChance(t *testing.T) {
	const runs, rows = 150, 20
	one, two, unadjusted := 0, 0, 0
	for seed := range uint64(runs) {
		run := versions(seed, 8, 0.02, 1.05, rows)
		rep := overhead.Analyse(run, overhead.Options{})
		if rep.Threshold.Status == overhead.Exceeded {
			one++
		}
		for _, r := range rep.Groups[0].Metrics[0].Rows {
			if r.PercentLow > 5 {
				unadjusted++
				break
			}
		}
		// Of two runs: the second is slower by the threshold and by all of the drift.
		slower := versions(seed+runs, 8, 0.02, 1.05, rows)
		each(&slower, func(trial *record.Trial) { trial.Samples[0].Value *= 1.05 * 1.10 })
		c, err := overhead.Compare(run, slower, overhead.CompareOptions{FailAbove: 0.05, Drift: 0.10})
		if err != nil {
			t.Fatal(err)
		}
		if c.Threshold.Status == overhead.Exceeded {
			two++
		}
	}
	t.Logf("of %d runs %d exceed in one run, %d in two, %d without Holm", runs, one, two, unadjusted)
	// 5 % and three standard errors.
	if most := runs * 10 / 100; one > most || two > most || unadjusted <= most {
		t.Errorf("of %d runs %d exceed in one run, %d in two (want at most %d), %d without Holm (want more)", runs, one, two, most, unadjusted)
	}
}
