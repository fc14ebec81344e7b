package overhead_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"tare/overhead"
	"tare/platform"
	"tare/record"
)

// pair gives an old and a new run; host is the factor by which everything in
// the new one is faster, and change that of docker's overhead alone.
func pair(t testing.TB, noise, host, change float64) (was, is record.Run) {
	t.Helper()
	was = synthetic{seed: 31, blocks: 12, noise: noise, shared: 0.02, effects: map[string]float64{"docker": 0.95, "oci:runc": 1}}.run(t)
	is = synthetic{seed: 32, blocks: 15, noise: noise, shared: 0.02, effects: map[string]float64{"docker": 0.95 * change, "oci:runc": 1},
		edit: func(trial *record.Trial) { trial.Samples[0].Value *= host }}.run(t)
	is.ID = "weigh-20260103-150405-1111"
	return was, is
}

func comparisonRow(t testing.TB, c overhead.Comparison, metric, label string) overhead.ComparisonRow {
	t.Helper()
	for _, r := range c.Rows {
		if r.Metric == metric && r.Label == label {
			return r
		}
	}
	t.Fatalf("no row for %s of %s", metric, label)
	return overhead.ComparisonRow{}
}

func TestAnotherSpeedOfTheHostCancels(t *testing.T) {
	was, is := pair(t, 0.003, 1.3, 1)
	c, err := overhead.Compare(was, is, overhead.CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := comparisonRow(t, c, "get", "docker")
	if r.Basis != overhead.ByOverhead || r.Verdict != overhead.Equivalent || !r.Judged {
		t.Errorf("docker: %s %s, %+v", r.Basis, r.Verdict, r.Overhead)
	}
	if r.Value.Interval.Low > 1.3 || r.Value.Interval.High < 1.3 {
		t.Errorf("value: %+v, want 1.3 in it", r.Value)
	}
	base := comparisonRow(t, c, "get", "bare")
	if base.Basis != overhead.ByValue || base.Judged || base.Verdict != overhead.Better {
		t.Errorf("baseline: %+v", base)
	}
	c, err = overhead.Compare(was, is, overhead.CompareOptions{Raw: true})
	if err != nil {
		t.Fatal(err)
	}
	if r := comparisonRow(t, c, "get", "docker"); r.Basis != overhead.ByValue || r.Verdict != overhead.Better || !r.Judged {
		t.Errorf("raw: %s %s", r.Basis, r.Verdict)
	}
}

func TestThresholdOfAPipeline(t *testing.T) {
	above := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		name   string
		noise  float64
		change float64
		above  *float64
		want   overhead.Status
	}{
		{"no threshold", 0.003, 0.8, nil, overhead.Passed},
		{"much worse", 0.003, 0.85, above(0.05), overhead.Exceeded},
		{"a little worse", 0.003, 0.98, above(0.05), overhead.Passed},
		{"better", 0.003, 1.2, above(0.05), overhead.Passed},
		{"any worsening", 0.003, 0.98, above(0), overhead.Exceeded},
		{"noise hides it", 0.2, 0.95, above(0.05), overhead.Undecided},
	} {
		t.Run(c.name, func(t *testing.T) {
			was, is := pair(t, c.noise, 1, c.change)
			got, err := overhead.Compare(was, is, overhead.CompareOptions{FailAbove: c.above})
			if err != nil {
				t.Fatal(err)
			}
			if got.Status != c.want {
				t.Errorf("status %d, want %d: %+v", got.Status, c.want, comparisonRow(t, got, "get", "docker"))
			}
		})
	}
}

func TestAConditionThatNoLongerWorksIsUndecided(t *testing.T) {
	was, is := pair(t, 0.003, 1, 1)
	each(&is, func(trial *record.Trial) {
		if trial.Condition == "redis@docker" {
			trial.Error = "refused"
		}
	})
	limit := 0.05
	c, err := overhead.Compare(was, is, overhead.CompareOptions{FailAbove: &limit})
	if err != nil || c.Status != overhead.Undecided {
		t.Errorf("status %d, %v", c.Status, err)
	}
}

func TestARunAgainstItself(t *testing.T) {
	run := synthetic{seed: 33, blocks: 10, noise: 0.003, effects: map[string]float64{"docker": 0.95}}.run(t)
	limit := 0.05
	c, err := overhead.Compare(run, run, overhead.CompareOptions{FailAbove: &limit})
	if err != nil {
		t.Fatal(err)
	}
	if c.Status != overhead.Passed || len(c.Warnings) != 0 {
		t.Errorf("status %d, warnings %q", c.Status, c.Warnings)
	}
	for _, r := range c.Rows {
		if r.Metric != "throttled" && math.Abs(r.Percent) > 1e-9 {
			t.Errorf("%s of %s changed by %v %%", r.Metric, r.Label, r.Percent)
		}
	}
	quantile := comparisonRow(t, c, "get-p99", "docker")
	if quantile.Overhead.Method != "MOVER" || !(quantile.PercentLow < 0 && quantile.PercentHigh > 0) {
		t.Errorf("p99: %+v", quantile.Overhead)
	}
}

func TestTheOtherWayRoundIsTheInverse(t *testing.T) {
	was, is := pair(t, 0.01, 1.1, 0.9)
	there, err := overhead.Compare(was, is, overhead.CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	back, err := overhead.Compare(is, was, overhead.CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"get", "get-p99"} {
		a, b := comparisonRow(t, there, name, "docker").Overhead, comparisonRow(t, back, name, "docker").Overhead
		for _, product := range []float64{a.Value * b.Value, a.Interval.Low * b.Interval.High, a.Interval.High * b.Interval.Low} {
			if math.Abs(product-1) > 1e-9 {
				t.Errorf("%s: %+v there, %+v back", name, a, b)
			}
		}
	}
}

func TestWhatElseDiffersIsNamed(t *testing.T) {
	was, is := pair(t, 0.003, 1, 1)
	is.Host.Kernel = "6.8.0"
	is.Host.Mitigated = map[string]string{"meltdown": "PTI"}
	is.Version = "0.2"
	is.Conditions[1].Image = "sha256:01"
	is.Conditions[1].Version = "Docker 28"
	is.Conditions[2].ID = "redis@oci:runc,cpus=1"
	was.Conditions[0].InForce = &platform.InForce{CPUSet: "0-1", Cgroups: []string{"/a"}}
	is.Conditions[0].InForce = &platform.InForce{CPUSet: "0", Cgroups: []string{"/b"}}
	c, err := overhead.Compare(was, is, overhead.CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"host: kernel 6.1.0 before, 6.8.0 now",
		"host: mitigations.meltdown none before, PTI now",
		"tare 0.1 before, 0.2 now",
		"redis@docker: image sha256:00 before, sha256:01 now",
		"redis@docker: platform none before, Docker 28 now",
		"redis@bare: in force cpuset_cpus 0-1 before, 0 now",
		"redis@oci:runc,cpus=1 is not in weigh-20260102-150405-7f3a",
		"redis@oci:runc is not in weigh-20260103-150405-1111",
	} {
		wantWarning(t, c.Warnings, want)
	}
	for _, w := range c.Warnings {
		if strings.Contains(w, "cgroup") {
			t.Errorf("a cgroup's name is no difference: %s", w)
		}
	}
}

func TestDifferentBaselinesAreNotMixed(t *testing.T) {
	was, is := pair(t, 0.003, 1, 1)
	is.Conditions[0].Baseline, is.Conditions[2].Baseline = false, true
	c, err := overhead.Compare(was, is, overhead.CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantWarning(t, c.Warnings, "different baselines (redis@bare, redis@oci:runc)")
	for _, r := range c.Rows {
		if r.Basis != overhead.ByValue {
			t.Errorf("%s of %s by %s", r.Metric, r.Label, r.Basis)
		}
	}
}

func TestOnlyTheBaselineInBoth(t *testing.T) {
	was, is := pair(t, 0.003, 0.8, 1)
	is.Conditions = is.Conditions[:1]
	limit := 0.05
	c, err := overhead.Compare(was, is, overhead.CompareOptions{FailAbove: &limit})
	if err != nil {
		t.Fatal(err)
	}
	wantWarning(t, c.Warnings, "only the baseline is in both runs")
	if c.Status != overhead.Exceeded {
		t.Errorf("status %d with values 20 %% lower", c.Status)
	}
}

func TestNothingInCommon(t *testing.T) {
	was, is := pair(t, 0.003, 1, 1)
	for i := range is.Conditions {
		is.Conditions[i].Workload = "ffmpeg"
	}
	_, err := overhead.Compare(was, is, overhead.CompareOptions{})
	if _, ok := errors.AsType[*overhead.NothingInCommon](err); !ok || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}

func TestComparingWithARunThatWasDisturbedThroughoutSaysSo(t *testing.T) {
	calm := synthetic{seed: 1, blocks: 8, effects: map[string]float64{"docker": 1}}.run(t)
	disturbed := synthetic{seed: 2, blocks: 8, effects: map[string]float64{"docker": 1}, edit: func(trial *record.Trial) {
		trial.Taint = []string{"steal 9 %"}
	}}.run(t)
	c, err := overhead.Compare(calm, disturbed, overhead.CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(c.Warnings, "\n"); !strings.Contains(text, "every block of "+disturbed.ID+" was disturbed") {
		t.Errorf("warnings %q", text)
	}
}
