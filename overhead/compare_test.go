package overhead_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"tare/overhead"
	"tare/platform"
	"tare/record"
	"tare/workload"
)

// pair gives an old and a new run; host is the factor by which everything in
// the new one is faster, the baseline included, and change that of docker alone.
func pair(t testing.TB, noise, host, change float64) (was, is record.Run) {
	t.Helper()
	was = synthetic{seed: 31, blocks: 12, noise: noise, shared: noise, effects: map[string]float64{"docker": 0.95, "oci:runc": 1}}.run(t)
	is = synthetic{seed: 32, blocks: 15, noise: noise, shared: noise, effects: map[string]float64{"docker": 0.95 * change, "oci:runc": 1},
		edit: func(trial *record.Trial) { trial.Samples[0].Value *= host }}.run(t)
	is.ID, is.Started = "weigh-20260103-150405-1111", is.Started.Add(24*time.Hour)
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

// A program that got slower everywhere did so under the baseline too: every row is
// judged in its own value, and none against another.
func TestWhatGotSlowerEverywhereNeverPasses(t *testing.T) {
	for _, c := range []struct {
		name         string
		host, change float64
		above, drift float64
		want         overhead.Status
	}{
		{"5 % slower everywhere, at 2 %", 0.95, 1, 0.02, 0, overhead.Undecided},
		{"20 % slower everywhere, at 2 %", 0.80, 1, 0.02, 0, overhead.Exceeded},
		{"20 % slower everywhere, at 5 %", 0.80, 1, 0.05, 0, overhead.Exceeded},
		{"5 % slower everywhere, at 2 %, on a steadier host", 0.95, 1, 0.02, 0.01, overhead.Exceeded},
		{"20 % slower in docker alone, at 5 %", 1, 0.80, 0.05, 0, overhead.Exceeded},
		{"the same version, at 20 %", 1, 1, 0.20, 0, overhead.Passed},
		{"the same version, at 5 %: drift is not excluded", 1, 1, 0.05, 0, overhead.Undecided},
		{"the same version, at 5 %, on a steadier host", 1, 1, 0.05, 0.01, overhead.Passed},
		{"30 % faster everywhere, at 2 %", 1.30, 1, 0.02, 0, overhead.Passed},
		{"30 % faster, but for docker", 1.30, 1 / 1.30, 0.02, 0, overhead.Undecided},
		{"no threshold", 0.80, 1, 0, 0, ""},
	} {
		was, is := pair(t, 0.003, c.host, c.change)
		got, err := overhead.Compare(was, is, overhead.CompareOptions{FailAbove: c.above, Drift: c.drift})
		if err != nil {
			t.Fatal(err)
		}
		if got.Threshold.Status != c.want {
			t.Errorf("%s: %s, want %s: %+v", c.name, got.Threshold.Status, c.want, got.Rows)
		}
		judged := 0
		for _, r := range got.Rows {
			if r.Judged {
				judged++
			}
		}
		if judged != 3 {
			t.Errorf("%s: %d rows are judged, want those of all 3 conditions", c.name, judged)
		}
	}
}

// The interval is widened on the scale of factors, and the threshold is one of the metric itself.
func TestDriftWidensTheInterval(t *testing.T) {
	was, is := pair(t, 0.003, 0.8, 1)
	c, err := overhead.Compare(was, is, overhead.CompareOptions{Drift: 0.10})
	if err != nil {
		t.Fatal(err)
	}
	r := comparisonRow(t, c, "get", "bare")
	low, high := 100*(1-r.Change.Interval.High*1.1), 100*(1-r.Change.Interval.Low/1.1)
	if math.Abs(r.DriftLow-low) > 1e-9 || math.Abs(r.DriftHigh-high) > 1e-9 || r.Verdict != overhead.Worse {
		t.Errorf("%+v, want %v to %v", r, low, high)
	}
	// The overhead is what it was, and decides nothing.
	if r := comparisonRow(t, c, "get", "docker"); r.Verdict != overhead.Worse || math.Abs(r.OverheadPercent) > 1 {
		t.Errorf("docker: %+v", r)
	}
}

func TestAConditionThatNoLongerWorksIsUndecided(t *testing.T) {
	was, is := pair(t, 0.003, 1, 1)
	each(&is, func(trial *record.Trial) {
		if trial.Condition == "redis@docker" {
			trial.Error = "refused"
		}
	})
	c, err := overhead.Compare(was, is, overhead.CompareOptions{FailAbove: 0.20})
	if err != nil || c.Threshold.Status != overhead.Undecided {
		t.Errorf("%+v, %v", c.Threshold, err)
	}
	wantWarning(t, c.Warnings, is.ID+": docker: 15 of 15 trials yielded nothing: refused")
}

func TestNoiseIsUndecided(t *testing.T) {
	was, is := pair(t, 0.4, 1, 1)
	c, err := overhead.Compare(was, is, overhead.CompareOptions{FailAbove: 0.20})
	if err != nil || c.Threshold.Status != overhead.Undecided {
		t.Errorf("%+v, %v", c.Threshold, err)
	}
}

// What one run has alone keeps a threshold from being passed, and is named.
func TestWhatIsInOneRunAloneDoesNotPass(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(was, is *record.Run)
		want string
	}{
		"a condition of the old": {func(was, is *record.Run) { is.Conditions = is.Conditions[:2] }, "redis@oci:runc is not in weigh-20260103-150405-1111"},
		"a condition of the new": {func(was, is *record.Run) { was.Conditions = was.Conditions[:2] }, "redis@oci:runc is not in weigh-20260102-150405-7f3a"},
		"a metric": {func(was, is *record.Run) {
			is.Conditions[1].Metrics = is.Conditions[1].Metrics[1:]
		}, "get of redis@docker is not in weigh-20260103-150405-1111"},
		"a workload": {func(was, is *record.Run) {
			other := was.Conditions[0]
			other.ID, other.Workload = "ffmpeg@bare", "ffmpeg"
			was.Conditions = append(was.Conditions, other)
		}, "ffmpeg was not weighed in weigh-20260103-150405-1111"},
	} {
		was, is := pair(t, 0.003, 1, 1)
		c.edit(&was, &is)
		got, err := overhead.Compare(was, is, overhead.CompareOptions{FailAbove: 0.20})
		if err != nil {
			t.Fatal(err)
		}
		if got.Threshold.Status != overhead.Undecided || len(got.Missing) != 1 || got.Missing[0] != c.want {
			t.Errorf("%s: %s, missing %q, want %q", name, got.Threshold.Status, got.Missing, c.want)
		}
	}
	// A metric that judges nothing is only listed.
	was, is := pair(t, 0.003, 1, 1)
	is.Conditions[1].Metrics = is.Conditions[1].Metrics[:1]
	c, err := overhead.Compare(was, is, overhead.CompareOptions{FailAbove: 0.20})
	if err != nil || c.Threshold.Status != overhead.Passed {
		t.Errorf("a secondary metric: %+v, %v", c.Threshold, err)
	}
	wantWarning(t, c.Warnings, "get-p99 of redis@docker is not in weigh-20260103-150405-1111")
}

// What bears no verdict has none, and says what to do.
func TestRunsThatBearNoVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(was, is *record.Run)
		want string
	}{
		"imported":         {func(was, is *record.Run) { was.Status = record.Imported }, "was measured elsewhere"},
		"another host":     {func(was, is *record.Run) { is.Host.Hostname = "other" }, "different hosts (host name box before, other now)"},
		"another CPU":      {func(was, is *record.Run) { is.Host.CPUModel = "Slow CPU" }, "different hosts"},
		"more CPUs":        {func(was, is *record.Run) { is.Host.CPUs = 4 }, "different hosts"},
		"other parameters": {func(was, is *record.Run) { is.Conditions[0].Params = workload.Params{"clients": "1"} }, "redis@bare: parameter clients 50 before, 1 now"},
		"another command": {func(was, is *record.Run) {
			was.Command, is.Command = []string{"tare", "--", "a", "1"}, []string{"tare", "--", "a", "2"}
		}, "command a 1 before, a 2 now"},
	} {
		was, is := pair(t, 0.003, 0.5, 1)
		c.edit(&was, &is)
		got, err := overhead.Compare(was, is, overhead.CompareOptions{FailAbove: 0.05})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(got.Unjudged, c.want) || !strings.Contains(got.Unjudged, ": measure both ") || got.Threshold.Status != "" {
			t.Errorf("%s: %q, %s", name, got.Unjudged, got.Threshold.Status)
		}
		for _, r := range got.Rows {
			if r.Verdict != "" || r.Status != "" {
				t.Errorf("%s: %s of %s has a verdict", name, r.Metric, r.Label)
			}
		}
	}
}

func TestARunAgainstItself(t *testing.T) {
	run := synthetic{seed: 33, blocks: 10, noise: 0.003, effects: map[string]float64{"docker": 0.95}}.run(t)
	c, err := overhead.Compare(run, run, overhead.CompareOptions{FailAbove: 0.2})
	if err != nil {
		t.Fatal(err)
	}
	if c.Threshold.Status != overhead.Passed || len(c.Warnings) != 0 {
		t.Errorf("%+v, warnings %q", c.Threshold, c.Warnings)
	}
	for _, r := range c.Rows {
		if r.Metric != "throttled" && math.Abs(r.Percent) > 1e-9 {
			t.Errorf("%s of %s changed by %v %%", r.Metric, r.Label, r.Percent)
		}
	}
	quantile := comparisonRow(t, c, "get-p99", "docker")
	if quantile.Change.Method != "MOVER" || !(quantile.PercentLow < 0 && quantile.PercentHigh > 0) {
		t.Errorf("p99: %+v", quantile.Change)
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
		a, b := comparisonRow(t, there, name, "docker").Change, comparisonRow(t, back, name, "docker").Change
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
	} {
		wantWarning(t, c.Warnings, want)
	}
	was.Started = is.Started.Add(time.Hour)
	if c, err = overhead.Compare(was, is, overhead.CompareOptions{}); err != nil {
		t.Fatal(err)
	}
	wantWarning(t, c.Warnings, "the old run, was measured after")
	for _, w := range c.Warnings {
		if strings.Contains(w, "cgroup") {
			t.Errorf("a cgroup's name is no difference: %s", w)
		}
	}
}

// Overheads against different baselines are not compared.
func TestDifferentBaselinesAreNotMixed(t *testing.T) {
	was, is := pair(t, 0.003, 1, 1)
	is.Conditions[0].Baseline, is.Conditions[2].Baseline = false, true
	c, err := overhead.Compare(was, is, overhead.CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range c.Rows {
		if r.Overhead.N != 0 {
			t.Errorf("%s of %s: %+v", r.Metric, r.Label, r.Overhead)
		}
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
	c, err := overhead.Compare(calm, disturbed, overhead.CompareOptions{FailAbove: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(c.Warnings, "\n"); !strings.Contains(text, "every block of "+disturbed.ID+" was disturbed") {
		t.Errorf("warnings %q", text)
	}
	if c.Threshold.Status != overhead.Undecided {
		t.Errorf("%+v", c.Threshold)
	}
}
