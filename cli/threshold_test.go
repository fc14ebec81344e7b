package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/overhead"
	"tare/record"
	"tare/workload"
)

// storedRun puts a run into the store of home: two conditions, slower than a second by
// the factors, in blocks with a noise of half a percent.
func storedRun(t *testing.T, home, id string, factors map[string]float64, edit func(*record.Run)) {
	t.Helper()
	storedTrials(t, home, id, factors, edit, nil)
}

// storedTrials is storedRun, with trials that are edited.
func storedTrials(t *testing.T, home, id string, factors map[string]float64, edit func(*record.Run), editTrial func(*record.Trial)) {
	t.Helper()
	store, err := record.Open(filepath.Join(home, storeFile))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	run := record.Run{ID: id, Study: "weigh", Command: []string{"tare", "weigh"}, Started: time.Now(), Status: record.Running,
		Plan: record.Plan{SmallestEffect: 0.02, Level: 0.95}, Host: record.Host{Hostname: "box", CPUs: 2}}
	for _, name := range []string{"bare", "docker"} {
		if _, ok := factors[name]; ok {
			run.Conditions = append(run.Conditions, record.Condition{ID: "app@" + name, Label: name, Workload: "app", Platform: name, Baseline: name == "bare",
				Metrics: []workload.Metric{{Name: "wall", Unit: "s", Better: workload.Lower, Primary: true}}})
		}
	}
	if edit != nil {
		edit(&run)
	}
	if err := store.Begin(run); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(uint64(len(id)), 3))
	for _, c := range run.Conditions {
		for block := range 10 {
			value := factors[c.Platform] * math.Exp(0.005*random.NormFloat64())
			trial := record.Trial{Condition: c.ID, Workload: "app", Block: block + 1, Attempt: 1, Started: time.Now(),
				Samples: []record.Sample{{Metric: "wall", Value: value}}}
			if editTrial != nil {
				editTrial(&trial)
			}
			if _, err := store.AddTrial(id, trial); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := store.Finish(id, record.Complete, ""); err != nil {
		t.Fatal(err)
	}
}

// The exit code of compare is a pipeline's gate, and its one line says why and what to do.
func TestExitCodesOfCompare(t *testing.T) {
	home := t.TempDir()
	everywhere := func(factor float64) map[string]float64 {
		return map[string]float64{"bare": factor, "docker": 1.03 * factor}
	}
	storedRun(t, home, "weigh-old", everywhere(1), nil)
	storedRun(t, home, "weigh-same", everywhere(1), nil)
	storedRun(t, home, "weigh-5-slower", everywhere(1.05), nil)
	storedRun(t, home, "weigh-20-slower", everywhere(1.20), nil)
	storedRun(t, home, "weigh-faster", everywhere(0.8), nil)
	storedRun(t, home, "weigh-one-side", map[string]float64{"bare": 1}, nil)
	storedRun(t, home, "weigh-elsewhere", everywhere(1), func(run *record.Run) { run.Host.Hostname = "other" })
	storedRun(t, home, "weigh-secondary", everywhere(1), func(run *record.Run) {
		for i := range run.Conditions {
			run.Conditions[i].Metrics[0].Name = "other"
		}
	})
	none := func(run *record.Run) {
		for i := range run.Conditions {
			run.Conditions[i].Metrics[0].Primary = false
		}
	}
	storedRun(t, home, "weigh-none", everywhere(1), none)
	storedRun(t, home, "weigh-none-either", everywhere(1), none)
	storedRun(t, home, "weigh-zero", map[string]float64{"bare": 1, "docker": 0}, nil)
	storedRun(t, home, "weigh-none-20-slower", everywhere(1.20), none)
	storedTrials(t, home, "weigh-fails", everywhere(1), nil, failsInDocker)
	storedTrials(t, home, "weigh-tainted", everywhere(1), nil, func(trial *record.Trial) {
		if trial.Condition == "app@docker" && trial.Block > 7 {
			trial.Taint, trial.Samples[0].Value = []string{"tasks waited for memory 30 % of the time"}, 4
		}
	})
	first, second := imports(t, home), imports(t, home)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"weigh-old weigh-20-slower", exitSuccess, ""},
		{"weigh-old weigh-20-slower --fail-above 2%", exitThreshold, "worse by more than 2%"},
		{"weigh-old weigh-20-slower --fail-above 5%", exitThreshold, "worse by more than 5%"},
		{"weigh-old weigh-5-slower --fail-above 2%", exitInconclusive, "inconclusive against 2%: weigh both versions in one run"},
		{"weigh-old weigh-5-slower --fail-above 2% --drift 1%", exitThreshold, "worse by more than 2%"},
		{"weigh-old weigh-same --fail-above 2%", exitInconclusive, "in one run"},
		{"weigh-old weigh-same --fail-above 20%", exitSuccess, ""},
		{"weigh-old weigh-faster --fail-above 2%", exitSuccess, ""},
		{"weigh-old weigh-one-side --fail-above 20%", exitInconclusive, "app@docker is not in weigh-one-side; measure both runs with the same conditions"},
		{"weigh-one-side weigh-old --fail-above 20%", exitInconclusive, "app@docker is not in weigh-one-side"},
		{"weigh-old weigh-secondary --fail-above 20%", exitUsage, "no condition with a metric in common"},
		{"weigh-none weigh-none-either --fail-above 20%", exitSuccess, ""},
		{"weigh-none weigh-none-20-slower --fail-above 5%", exitThreshold, "worse by more than 5%"},
		{"weigh-old weigh-fails --fail-above 20%", exitInconclusive, "wall of app@docker: 5 of its 10 trials yielded nothing, against 0 of 10 of the old run"},
		{"weigh-fails weigh-old --fail-above 20%", exitSuccess, ""},
		{"weigh-old weigh-tainted --fail-above 20%", exitInconclusive, "wall of app@docker: it passes only without the tainted blocks"},
		{"weigh-old weigh-zero --fail-above 20%", exitInconclusive, "wall of app@docker has no interval; measure it again"},
		{"weigh-old weigh-elsewhere", exitSuccess, ""},
		{"weigh-old weigh-elsewhere --fail-above 20%", exitUsage, "different hosts"},
		{first + " " + second + " --fail-above 20%", exitUsage, "measured elsewhere"},
		{first + " " + second, exitSuccess, ""},
		{"weigh-old weigh-same --raw", exitUsage, "--raw"},
		{"latest latest", exitUsage, "are one run, "},
		{"weigh-old weigh-old", exitUsage, "are one run, weigh-old: name two"},
	} {
		code, out, errOut := tare(t, home, append([]string{"compare"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(errOut, c.says) || strings.Count(errOut, "\n") > 1 || c.says == "" && errOut != "" {
			t.Errorf("%s: %d, %q; want %d, %q", c.args, code, errOut, c.code, c.says)
		}
		if strings.Contains(out, "NaN") || (code == exitUsage) != (out == "") {
			t.Errorf("%s prints\n%s", c.args, out)
		}
		for _, line := range strings.Split(out, "\n") {
			if len([]rune(line)) > 80 {
				t.Errorf("%s: longer than a screen is wide: %q", c.args, line)
			}
		}
	}
	_, out, _ := tare(t, home, "compare", "weigh-old", "weigh-elsewhere")
	hasAll(t, "compare", out, []string{"no verdict: the runs are of different hosts"})
	_, out, _ = tare(t, home, "compare", "weigh-old", "weigh-fails", "--fail-above", "20%")
	hasAll(t, "compare", out, []string{"is inconclusive: 5 of its 10 trials yielded nothing, against 0 of 10 of the old run.", "docker: 5 of its 10"})
	_, out, _ = tare(t, home, "compare", "weigh-old", "weigh-same", "--fail-above", "2%")
	hasAll(t, "compare", out, []string{"only a clear improvement can pass", "tare --home"})

	var d comparedRuns
	if code, out, _ := tare(t, home, "compare", "weigh-old", "weigh-20-slower", "--fail-above", "5%", "--json", "-"); code != exitThreshold {
		t.Errorf("--json: %d", code)
	} else if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	if d.Status != overhead.Exceeded || d.FailAbove != 0.05 || d.Drift != 0.1 || len(d.Rows) != 2 || d.Rows[0].Condition != "app@bare" || d.Rows[0].Status != overhead.Exceeded {
		t.Errorf("%+v", d)
	}
}

func failsInDocker(trial *record.Trial) {
	if trial.Condition == "app@docker" && trial.Block%2 == 0 {
		trial.Error, trial.Samples = "exit status 1", nil
	}
}

// A run whose new version fails in part of its trials does not pass, and says so.
func TestAVersionThatFailsInPart(t *testing.T) {
	home := t.TempDir()
	storedTrials(t, home, "weigh-fails", map[string]float64{"bare": 1, "docker": 1}, func(run *record.Run) { run.Plan.FailAbove = 0.05 }, failsInDocker)
	_, out, _ := tare(t, home, "show", "weigh-fails")
	hasAll(t, "show", out, []string{
		"whether docker on app's time from launch to end is worse by more than the 5 % allowed is inconclusive: 5 of its 10 trials yielded nothing, against 0 of 10 of the baseline."})
	store, err := record.Open(filepath.Join(home, storeFile))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	run, err := store.Run("weigh-fails")
	if err != nil {
		t.Fatal(err)
	}
	m := &measuring{app: &app{out: io.Discard, err: io.Discard, home: home}, out: t.TempDir(), store: store, progress: newProgress(io.Discard)}
	err = m.finish(run, nil)
	if code, ok := errors.AsType[*codedError](err); !ok || code.Code != exitInconclusive || !strings.Contains(err.Error(), "5 of its 10 trials yielded nothing") {
		t.Errorf("got %v, want the exit code %d and why", err, exitInconclusive)
	}
}

// version lays out a root file system whose program counts to n.
func version(t *testing.T, dir string, n int) string {
	t.Helper()
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Skip("needs a static busybox: apt-get install busybox-static")
	}
	for _, d := range []string{"bin", "dev", "proc", "sys", "tmp", "etc"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"bin/sh":    string(busybox),
		"bin/count": fmt.Sprintf("#!/bin/sh\ni=0\nwhile [ $i -lt %d ]; do i=$((i+1)); done\n", n),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Two versions in one run: the slower one exceeds, with root file systems of one
// name, and a version against its own copy does not. What was found stays with the run.
func TestTwoVersionsInOneRun(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("measuring needs root")
	}
	home, dir := t.TempDir(), t.TempDir()
	before := version(t, filepath.Join(dir, "v1", "root"), 60_000)
	again := version(t, filepath.Join(dir, "copy", "root"), 60_000)
	after := version(t, filepath.Join(dir, "v2", "root"), 180_000)
	weigh := func(first, second string) (int, string, overhead.Document) {
		t.Helper()
		result := filepath.Join(home, "result.json")
		code, out, errOut := tare(t, home, "weigh", "--rootfs", first, "--rootfs", second, "--platform", "bare", "--design", "blocks", "--blocks", "6", "--fail-above", "5%", "--json", result, "--", "/bin/count")
		text, err := os.ReadFile(result)
		if err != nil {
			t.Fatalf("%d, %v: %s", code, err, errOut)
		}
		var d overhead.Document
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		if d.Workloads[0].Tainted > 0 || d.Workloads[0].StripsTainted > 0 {
			t.Skip("the host was disturbed from outside: nothing can be judged")
		}
		return code, out, d
	}
	// One interval in twenty excludes what is true. Two in a row hardly ever do.
	code, out, d := weigh(before, again)
	if code == exitThreshold {
		code, out, d = weigh(before, again)
	}
	if code == exitThreshold || code != exitSuccess && code != exitInconclusive || d.Analysis.Threshold == nil || d.Analysis.Threshold.Status == overhead.Exceeded {
		t.Errorf("a version against its copy: %d\n%s", code, out)
	}
	code, out, d = weigh(before, after)
	if code != exitThreshold || d.Analysis.Threshold == nil || d.Analysis.Threshold.Status != overhead.Exceeded {
		t.Errorf("a slower version: %d, %+v\n%s", code, d.Analysis, out)
	}
	// Its time and its CPU time are both worse. The worst of them is named.
	hasAll(t, "the screen", out, []string{"image=v2/root on count's ", "is worse by more than the 5 % allowed"})
	shown, out, _ := tare(t, home, "show", d.Run.ID)
	if shown != exitSuccess {
		t.Errorf("show: %d", shown)
	}
	hasAll(t, "show", out, []string{"worse by more than the 5 % allowed"})
	store, err := record.Open(filepath.Join(home, storeFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Finish(d.Run.ID, record.Interrupted, "by this test"); err != nil {
		t.Fatal(err)
	}
	store.Close()
	if code, out, errOut := tare(t, home, "resume", d.Run.ID); code != exitThreshold || !strings.Contains(errOut, "worse by more than 5%") {
		t.Errorf("resume: %d, %s\n%s", code, errOut, out)
	}
	if code, out, _ := weigh(after, before); code != exitSuccess {
		t.Errorf("a faster version: %d\n%s", code, out)
	}
}
