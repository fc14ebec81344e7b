package overhead_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
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
		"all tainted": func(run *record.Run) { each(run, func(trial *record.Trial) { trial.Taint = []string{"steal 9 %"} }) },
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

// A version that fails or that disturbs itself does not pass by the trials that are
// left of it, beside its baseline or against an old run; what strikes both alike is no
// fault of the version, and what is surely worse exceeds as ever.
func TestTrialsThatAreLeftDoNotPass(t *testing.T) {
	const blocks = 12
	disturbed := []string{"tasks waited for memory 30 % of the time"}
	fails := func(trial *record.Trial) {
		if trial.Block%2 == 0 {
			trial.Error, trial.Samples = "exit status 1", nil
		}
	}
	taints := func(slower float64) func(*record.Trial) {
		return func(trial *record.Trial) {
			if trial.Block%4 == 0 {
				trial.Taint, trial.Samples = disturbed, []record.Sample{{Metric: "wall", Value: slower * trial.Samples[0].Value}}
			}
		}
	}
	slowly := func(edit func(*record.Trial)) func(*record.Trial) {
		return func(trial *record.Trial) {
			trial.Samples[0].Value *= 1.6
			edit(trial)
		}
	}
	for _, c := range []struct {
		name     string
		fresh    func(*record.Trial) // edits each trial of the new version
		old      func(*record.Trial) // and of the old
		again    int                 // trials of the new version that were made again for taint
		want     overhead.Status
		withheld string // with the reference left open
	}{
		{name: "fails in every second trial", fresh: fails, want: overhead.Undecided, withheld: "6 of its 12 trials yielded nothing, against 0 of 12 of %s"},
		{name: "has no value in every second trial", fresh: func(trial *record.Trial) {
			if trial.Block%2 == 0 {
				trial.Samples = nil
			}
		}, want: overhead.Undecided, withheld: "6 of its 12 trials yielded nothing, against 0 of 12 of %s"},
		{name: "fails as often as the old", fresh: fails, old: fails, want: overhead.Passed},
		{name: "fails less often than the old", old: fails, want: overhead.Passed},
		{name: "was cut short by an interruption", fresh: func(trial *record.Trial) {
			if trial.Block == blocks {
				trial.Error, trial.Samples = record.NotEnded, nil
			}
		}, want: overhead.Passed},
		{name: "fails and is slower", fresh: slowly(fails), want: overhead.Exceeded},
		{name: "is slow where it is tainted", fresh: taints(3), want: overhead.Undecided, withheld: "it passes only without the tainted blocks"},
		{name: "is tainted and as fast", fresh: taints(1), want: overhead.Passed},
		{name: "is tainted and slower", fresh: slowly(taints(1)), want: overhead.Exceeded},
		{name: "was made again once", again: 1, want: overhead.Passed},
		{name: "was made again in every second block", again: 6, want: overhead.Undecided,
			withheld: "6 of its 12 trials were disturbed, against 0 of 12 of %s, which may be its own effect"},
	} {
		edited := func(seed uint64, condition string, edit func(*record.Trial), again int) record.Run {
			run := versions(seed, blocks, 0.01, 1, 1)
			run.Plan.FailAbove = 0.20
			each(&run, func(trial *record.Trial) {
				if edit != nil && trial.Condition == condition {
					edit(trial)
				}
			})
			for block := range again {
				run.Trials = append(run.Trials, record.Trial{Condition: condition, Workload: "app", Block: block + 1, Attempt: record.MadeAgain, Taint: disturbed,
					Samples: []record.Sample{{Metric: "wall", Value: 3}}})
			}
			return run
		}
		check := func(how, reference string, whole overhead.Threshold, status overhead.Status, withheld string) {
			t.Helper()
			want := strings.Replace(c.withheld, "%s", reference, 1)
			if whole.Status != c.want || status != c.want || withheld != want {
				t.Errorf("%s, %s: the whole is %s, the row %s, withheld %q; want %s, %q", c.name, how, whole.Status, status, withheld, c.want, want)
			}
		}
		const first, second = "app@oci,image=v0", "app@oci,image=v1"
		one := edited(1, second, c.fresh, c.again)
		if c.old != nil {
			each(&one, func(trial *record.Trial) {
				if trial.Condition == first {
					c.old(trial)
				}
			})
		}
		rep := overhead.Analyse(one, overhead.Options{})
		row := rep.Groups[0].Metrics[0].Rows[1]
		check("in one run", "the baseline", rep.Threshold, row.Status, row.Withheld)

		compared, err := overhead.Compare(edited(2, second, c.old, 0), edited(1, second, c.fresh, c.again), overhead.CompareOptions{FailAbove: 0.20})
		if err != nil {
			t.Fatal(err)
		}
		check("of two runs", "the old run", compared.Threshold, compared.Rows[1].Status, compared.Rows[1].Withheld)
	}
}

// Where no metric is primary the first carries the verdict, and it is what a threshold
// judges, what it misses, and what a run stops by.
func TestAThresholdJudgesWhatCarriesTheVerdict(t *testing.T) {
	unmarked := func(seed uint64, slower float64) record.Run {
		run := versions(seed, 12, 0.01, slower, 1)
		metrics := []workload.Metric{{Name: "wall", Unit: "s", Better: workload.Lower}, {Name: "size", Unit: "B", Better: workload.Lower}}
		for i := range run.Conditions {
			run.Conditions[i].Metrics = metrics
		}
		each(&run, func(trial *record.Trial) {
			trial.Samples = append(trial.Samples, record.Sample{Metric: "size", Value: 1})
		})
		return run
	}
	for slower, want := range map[float64]overhead.Status{1: overhead.Passed, 1.6: overhead.Exceeded} {
		run := unmarked(1, slower)
		rep := overhead.Analyse(run, overhead.Options{})
		if of := rep.Groups[0].Metrics; rep.Threshold.Status != want || of[0].Rows[1].Status != want || of[1].Rows[1].Status != "" {
			t.Errorf("%v times in one run: %+v", slower, rep.Threshold)
		}
		if d := overhead.NewDocument(run, rep); math.IsNaN(float64(d.NoiseFloor)) {
			t.Error("the document has no noise floor of what carries the verdict")
		}
		if width := overhead.HalfWidth(run, overhead.Options{}); !(width > 0 && width < 0.1) {
			t.Errorf("half-width %v", width)
		}
		c, err := overhead.Compare(unmarked(2, 1), run, overhead.CompareOptions{FailAbove: 0.20})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range c.Rows {
			if r.Judged != (r.Metric == "wall") {
				t.Errorf("%s of %s is judged: %v", r.Metric, r.Condition, r.Judged)
			}
		}
		if c.Threshold.Status != want {
			t.Errorf("%v times in two runs: %+v", slower, c.Threshold)
		}
	}
	without := unmarked(2, 1)
	for i := range without.Conditions {
		without.Conditions[i].Metrics = without.Conditions[i].Metrics[1:]
	}
	c, err := overhead.Compare(unmarked(1, 1), without, overhead.CompareOptions{FailAbove: 0.20})
	if err != nil || c.Threshold.Status != overhead.Undecided || len(c.Missing) != 2 {
		t.Errorf("without what carries the verdict: %+v, missing %q, %v", c.Threshold, c.Missing, err)
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
