package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/overhead"
	"tare/record"
)

// A history's exit code is a pipeline's gate, as that of two runs is.
func TestCompareOfManyRuns(t *testing.T) {
	home := t.TempDir()
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	var ids []string
	for i := range 14 {
		factors := map[string]float64{"bare": 1, "docker": 1.03 + 0.001*float64(i%4)} // noise of runs: that of blocks has one seed
		if i >= 9 {
			factors["docker"] *= 1.08
		}
		ids = append(ids, fmt.Sprintf("weigh-%02d", i+1))
		storedRun(t, home, ids[i], factors, func(run *record.Run) {
			run.Started = start.Add(time.Duration(i) * 24 * time.Hour)
			run.Host.Kernel = map[bool]string{false: "6.12.1", true: "6.12.2"}[i >= 9]
		})
	}
	storedRun(t, home, "weigh-elsewhere", map[string]float64{"bare": 1, "docker": 1}, func(run *record.Run) { run.Host.Hostname = "other" })
	storedRun(t, home, "weigh-bare", map[string]float64{"bare": 1}, nil)
	storedRun(t, home, "weigh-unrelated", map[string]float64{"bare": 1}, func(run *record.Run) { run.Study = "platforms" })
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"--history weigh-14", exitSuccess, ""},
		{"--history weigh-14 --fail-above 5%", exitThreshold, "worse by more than 5%"},
		{"--history weigh-14 --fail-above 20%", exitSuccess, ""},
		{strings.Join(ids[:9], " ") + " --fail-above 5%", exitSuccess, ""},
		{"weigh-01 weigh-02 weigh-03 --fail-above 5%", exitInconclusive, "measure more runs"},
		{"weigh-01 weigh-02 weigh-elsewhere", exitUsage, "weigh-01 is not comparable with weigh-elsewhere: the runs are of different hosts"},
		{"weigh-01 weigh-02 weigh-01", exitUsage, "named twice"},
		{"--history weigh-bare --fail-above 5%", exitUsage, "no verdict: nothing is compared within a run"},
		{"--history weigh-14 weigh-13", exitUsage, "takes one run"},
		{"--history", exitUsage, "takes one run"},
		{"--history weigh-14 --drift 5%", exitUsage, "--drift is of two runs"},
		{"weigh-01", exitUsage, "takes two runs"},
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
	_, out, _ := tare(t, home, "compare", "--history", "weigh-14")
	hasAll(t, "compare --history", out, []string{"docker got", "% worse on app wall", "with weigh-10.", "between weigh-09 and weigh-10",
		"differs: host: kernel 6.12.1 before, 6.12.2 now", "left out: weigh-elsewhere: the runs are of different hosts", "left out: weigh-bare: it has not wall of app@docker"})
	if strings.Contains(out, "weigh-unrelated") {
		t.Errorf("a run of another study is named:\n%s", out)
	}

	var d historyJSON
	if code, out, _ := tare(t, home, "compare", "--history", "weigh-14", "--fail-above", "5%", "--json", "-"); code != exitThreshold {
		t.Errorf("--json: %d", code)
	} else if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	if d.Status != overhead.Exceeded || len(d.Runs) != 14 || len(d.Series) != 1 || len(d.Series[0].Points) != 14 || len(d.Series[0].Segments) != 2 ||
		len(d.Changes) != 1 || d.Runs[d.Changes[0].After].Run != "weigh-10" || len(d.LeftOut) != 2 || d.Series[0].Segments[0].P != nil {
		t.Errorf("%+v", d)
	}
}

// The series of a public report: flat and one spike have no change point, the step has one.
func TestHistoryOfImportedSeries(t *testing.T) {
	cases := filepath.Join("..", "..", "shared", "cases", "05-series-for-history")
	if _, err := os.Stat(cases); err != nil {
		t.Skip(err)
	}
	home := t.TempDir()
	for name, at := range map[string]int{"flat": 0, "one-spike": 0, "step": 26} {
		code, out, errOut := tare(t, home, "import", filepath.Join(cases, name+".csv"), "--format", "csv", "--value", "seconds", "--unit", "s",
			"--block", "run", "--factor", "host=one", "--condition", "host", "--baseline", "one", "--json", "-")
		if code != exitSuccess {
			t.Fatalf("import: %d, %s", code, errOut)
		}
		var run overhead.Document
		if err := json.Unmarshal([]byte(out), &run); err != nil {
			t.Fatal(err)
		}
		var h historyJSON
		if code, out, errOut := tare(t, home, "compare", "--history", run.Run.ID, "--json", "-"); code != exitSuccess {
			t.Fatalf("%s: %d, %s", name, code, errOut)
		} else if err := json.Unmarshal([]byte(out), &h); err != nil {
			t.Fatal(err)
		}
		switch {
		case at == 0 && len(h.Changes) != 0, at > 0 && len(h.Changes) != 1:
			t.Errorf("%s: changes %+v", name, h.Changes)
		case at > 0 && h.Runs[h.Changes[0].After].Run != fmt.Sprint(at):
			t.Errorf("%s: at %s, want %d", name, h.Runs[h.Changes[0].After].Run, at)
		}
		if code, _, errOut := tare(t, home, "compare", "--history", run.Run.ID, "--fail-above", "5%"); code != exitUsage || !strings.Contains(errOut, "measured elsewhere") {
			t.Errorf("%s: --fail-above: %d, %s", name, code, errOut)
		}
	}
}
