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
)

// nightly gives runs of one study, a day apart. docker is the factor of its effect in each; the
// host makes everything faster by host.
func nightly(t testing.TB, docker, host []float64) (runs []record.Run) {
	t.Helper()
	for i := range docker {
		run := synthetic{seed: uint64(100 + i), blocks: 6, noise: 0.005, shared: 0.01, effects: map[string]float64{"docker": 0.95 * docker[i], "oci:runc": 1},
			edit: func(trial *record.Trial) { trial.Samples[0].Value *= host[i] }}.run(t)
		run.ID, run.Started = fmt.Sprintf("weigh-202601%02d-150405-7f3a", i+1), run.Started.Add(time.Duration(i)*24*time.Hour)
		runs = append(runs, run)
	}
	return runs
}

// since gives n factors of 1, and by from one on.
func since(n, from int, by float64) []float64 {
	all := slices.Repeat([]float64{1}, n)
	for i := from; i < n; i++ {
		all[i] = by
	}
	return all
}

func historyOf(t testing.TB, failAbove float64, runs ...record.Run) overhead.History {
	t.Helper()
	var pasts []overhead.Past
	for _, r := range runs {
		pasts = append(pasts, overhead.NewPast(r))
	}
	h, err := overhead.NewHistory(pasts, failAbove)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A step of one condition is found at the run, with what changed there; a step of the host that
// strikes all alike is none.
func TestHistoryFindsWhereAnEffectChanged(t *testing.T) {
	runs := nightly(t, since(16, 11, 0.90), since(16, 6, 1.3))
	for i := 11; i < len(runs); i++ {
		runs[i].Host.Kernel, runs[i].Version = "6.1.9", "0.2"
		for j := range runs[i].Conditions {
			runs[i].Conditions[j].Version = runs[i].Conditions[j].Platform + " 2.0"
		}
	}
	h := historyOf(t, 0.05, runs...)
	if len(h.Series) != 2 || len(h.Changes) != 1 {
		t.Fatalf("%d series, changes %+v", len(h.Series), h.Changes)
	}
	c := h.Changes[0]
	if c.Before != 10 || c.After != 11 || len(c.Series) != 1 || h.Series[c.Series[0]].Label != "docker" {
		t.Errorf("%+v", c)
	}
	for _, want := range []string{"host: kernel 6.1.0 before, 6.1.9 now", "tare 0.1 before, 0.2 now", "redis@docker: platform none before, docker 2.0 now"} {
		if !slices.Contains(c.Differences, want) {
			t.Errorf("%q are no differences with %q", c.Differences, want)
		}
	}
	s := h.Series[c.Series[0]]
	if len(s.Segments) != 2 || math.Abs(s.Segments[1].Percent-10) > 1 || s.Segments[1].PercentLow > 10 || s.Segments[1].PercentHigh < 10 ||
		math.Abs(s.Segments[0].Effect.Value-0.95) > 0.01 || s.Status != overhead.Exceeded || h.Threshold.Status != overhead.Exceeded {
		t.Errorf("%+v", s)
	}
	// The order of the arguments is of no account.
	slices.Reverse(runs)
	if again := historyOf(t, 0.05, runs...); fmt.Sprint(again.Changes) != fmt.Sprint(h.Changes) {
		t.Errorf("%+v, then %+v", h.Changes, again.Changes)
	}
}

func TestStatusOfAHistory(t *testing.T) {
	one := slices.Repeat([]float64{1}, 14)
	for _, c := range []struct {
		name   string
		docker []float64
		above  float64
		edit   func([]record.Run)
		want   overhead.Status
	}{
		{"flat", one, 0.05, nil, overhead.Passed},
		{"worse by 10 %, at 5 %", since(14, 10, 0.9), 0.05, nil, overhead.Exceeded},
		{"worse by 10 %, at 20 %", since(14, 10, 0.9), 0.20, nil, overhead.Passed},
		{"better by 10 %", since(14, 10, 1.1), 0.05, nil, overhead.Passed},
		{"worse in the newest two", since(14, 12, 0.9), 0.05, nil, overhead.Undecided},
		{"too few runs", since(4, 2, 1), 0.05, nil, overhead.Undecided},
		{"the newest has no figure", one, 0.05, func(runs []record.Run) {
			each(&runs[len(runs)-1], func(trial *record.Trial) {
				if trial.Condition == "redis@docker" {
					trial.Error = "refused"
				}
			})
		}, overhead.Undecided},
		{"no threshold", since(14, 10, 0.9), 0, nil, ""},
	} {
		runs := nightly(t, c.docker, one)
		if c.edit != nil {
			c.edit(runs)
		}
		if h := historyOf(t, c.above, runs...); h.Threshold.Status != c.want {
			t.Errorf("%s: %q, want %q: %+v", c.name, h.Threshold.Status, c.want, h.Series)
		}
	}
}

func TestIncomparableRuns(t *testing.T) {
	runs := nightly(t, []float64{1, 1}, []float64{1, 1})
	for want, edit := range map[string]func(*record.Run){
		"":                     func(r *record.Run) { r.Host.Kernel, r.Version = "7", "9" },
		"it is interrupted":    func(r *record.Run) { r.Status = record.Interrupted },
		"different hosts":      func(r *record.Run) { r.Host.CPUModel = "Slow CPU" },
		"different work":       func(r *record.Run) { r.Command = append(r.Command, "--", "/bin/other") },
		"it is a run of io":    func(r *record.Run) { r.Study = "io" },
		"it has not get of":    func(r *record.Run) { r.Conditions = r.Conditions[:2] },
		"docker against bare":  func(r *record.Run) { r.Conditions[0].Baseline, r.Conditions[2].Baseline = false, true },
		"measured elsewhere":   func(r *record.Run) { r.Status = record.Imported },
		"parameter clients 60": func(r *record.Run) { r.Conditions[1].Params = map[string]string{"clients": "60"} },
	} {
		other := runs[0]
		other.Conditions = slices.Clone(other.Conditions)
		edit(&other)
		why := overhead.Incomparable(other, runs[1])
		if why == "" != (want == "") || !strings.Contains(why, want) {
			t.Errorf("%q, want %q", why, want)
		}
		if _, err := overhead.NewHistory([]overhead.Past{overhead.NewPast(other), overhead.NewPast(runs[1])}, 0); (err != nil) != (want != "") {
			t.Errorf("%s: %v", want, err)
		}
	}
	if !overhead.Related(runs[0], runs[1]) {
		t.Error("runs of the same conditions are not related")
	}
}

// The repetitions of an imported run are its history, by their levels or, paired, their ratios.
func TestHistoryOfRepetitions(t *testing.T) {
	run := synthetic{seed: 5, blocks: 24, noise: 0.005, effects: map[string]float64{"docker": 0.95}, edit: func(trial *record.Trial) {
		if trial.Block > 15 && trial.Condition == "redis@docker" {
			trial.Samples[0].Value *= 0.9
		}
	}}.run(t)
	run.Status, run.Plan.Imported = record.Imported, &record.Import{Format: "csv"}
	for i := range run.Conditions {
		run.Conditions[i].Metrics = run.Conditions[i].Metrics[:1]
	}
	for _, paired := range []bool{false, true} {
		run.Plan.Imported.Paired = paired
		h, err := overhead.NewHistory(overhead.Repetitions(run), 0.05)
		if err != nil || !h.Imported || h.Unjudged == "" || h.Threshold.Status != "" {
			t.Fatalf("%v, %+v", err, h)
		}
		if len(h.Changes) != 1 || h.Runs[h.Changes[0].After].ID != "16" || len(h.Changes[0].Differences) != 0 {
			t.Errorf("paired %v: %+v", paired, h.Changes)
		}
		if want := map[bool]int{false: 2, true: 1}[paired]; len(h.Series) != want || (h.Series[0].Against != "") != paired {
			t.Errorf("paired %v: %d series, want %d", paired, len(h.Series), want)
		}
	}
}
