package report

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"tare/overhead"
	"tare/record"
	"tare/stats"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); go test ./report -update writes it anew:\n%s", path, diff)
	}
}

func screenOf(t *testing.T, b *bench, opt TerminalOptions) string {
	t.Helper()
	s := b.sheet()
	if opt.Interim {
		s = InterimSheet(b.run, b.rep)
	}
	return sheetScreen(t, s, opt)
}

// sheet is what the run came to, with what measuring cost.
func (b *bench) sheet() Sheet {
	s := WeighSheet(b.run, b.rep)
	s.Weight = weighed()
	return s
}

var ordinary = TerminalOptions{
	Next:   []string{"tare weigh redis --precision 1% --seed 7 --platform bare,docker --vary network=host,bridge,none"},
	Report: "tare-out/weigh-20260102-150405-7f3a/report.html",
}

func TestTerminalGolden(t *testing.T) {
	for _, c := range []struct {
		name    string
		bench   *bench
		options TerminalOptions
	}{
		{"redis-80.txt", redis(), ordinary},
		{"redis-60.txt", redis(), withWidth(ordinary, 60)},
		{"redis-120.txt", redis(), withWidth(ordinary, 120)},
		{"suite-80.txt", suite(), ordinary},
		{"interim-80.txt", suite(), TerminalOptions{Interim: true}},
		{"ladder-80.txt", ladder(), ordinary},
	} {
		t.Run(c.name, func(t *testing.T) { golden(t, c.name, screenOf(t, c.bench, c.options)) })
	}
}

func withWidth(o TerminalOptions, width int) TerminalOptions {
	o.Width = width
	return o
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

// hostile is a run whose every text tries to leave its place.
func hostile() *bench {
	b := redis()
	evil := "\x1b[2J\x1b]0;owned\x07</script><img src=x onerror=alert(1)>\"'`\u202e\r\n" + strings.Repeat("長", 90)
	b.run.ID, b.run.Reason, b.run.Status = evil, evil, record.Interrupted
	b.run.Host.Hostname, b.run.Host.CPUModel, b.run.Host.Kernel = evil, evil, evil
	b.run.Command = []string{"tare", "weigh", evil}
	b.run.Plan.Notes = []string{evil}
	b.rep.Warnings = []string{evil}
	g := &b.rep.Groups[0]
	g.Workload, g.Warnings = evil, []string{evil}
	for i := range b.run.Conditions {
		c := &b.run.Conditions[i]
		c.Workload, c.Version, c.ImageRef, c.NotRepresentative = evil, evil, evil, evil
		c.InForce.LSM = evil
		c.Params[evil] = evil
	}
	for i := range g.Metrics {
		m := &g.Metrics[i]
		m.Name, m.Unit = evil, evil
		for j := range m.Rows {
			m.Rows[j].Label, m.Rows[j].Needs, m.Rows[j].NotRepresentative = evil, evil, evil
			m.Rows[j].Verdict = overhead.Verdict(evil)
		}
	}
	return b
}

func TestTerminalHoldsNoForeignControl(t *testing.T) {
	b := hostile()
	sheet := WeighSheet(b.run, b.rep)
	sheet.Weight = Weight{{What: "\x1b[31m", Reason: "\u202e"}}
	out := sheetScreen(t, sheet, TerminalOptions{Next: []string{"tare \x1b"}, Report: "\a", All: true})
	for _, r := range out {
		if r != '\n' && !unicode.IsGraphic(r) {
			t.Fatalf("the screen holds %U", r)
		}
	}
}

// Where there is no figure or no interval, the reason stands in its place.
func TestAbsenceHasItsReason(t *testing.T) {
	b := redis()
	rows := b.rep.Groups[0].Metrics[0].Rows
	nan := stats.Estimate{Value: math.NaN(), Interval: stats.Interval{Low: math.NaN(), High: math.NaN()}}
	rows[1].Percent, rows[1].Ratio, rows[1].Difference, rows[1].Value, rows[1].Blocks = math.NaN(), nan, nan, nan, nil
	b.run.Trials = append(b.run.Trials,
		record.Trial{Condition: rows[1].Condition, Error: "crun refuses the host's hybrid cgroups"},
		record.Trial{Condition: rows[1].Condition, Error: "crun refuses the host's hybrid cgroups"},
		record.Trial{Condition: rows[1].Condition, Error: "timeout"})
	rows[2].PercentLow, rows[2].PercentHigh = math.NaN(), math.NaN()
	rows[2].Ratio.Warnings = []string{"need at least 2 blocks"}
	rows[3].Percent, rows[3].Ratio = math.NaN(), nan
	out := screenOf(t, b, ordinary)
	for _, want := range []string{
		"oci:crun: no figure: crun refuses the host's hybrid cgroups.",
		"oci:runc: no interval: need at least 2 blocks.",
		"docker: the difference in k requests/s, for no ratio can be formed.",
		"yielded no figure",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("screen lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "NaN") || strings.Contains(out, "Inf") {
		t.Errorf("screen shows what is not a number:\n%s", out)
	}
}

func TestCautionsStandAboveTheFigures(t *testing.T) {
	b := suite()
	b.run.Status, b.run.Reason = record.Interrupted, "stopped by the user"
	out := screenOf(t, b, ordinary)
	table := strings.Index(out, "change, %")
	for _, want := range []string{"INTERRUPTED:", "stopped by the user", "TAINTED:", "by steal", "NOT REPRESENTATIVE: vm/bare"} {
		if at := strings.Index(out, want); at < 0 || at > table {
			t.Errorf("%q is not above the figures:\n%s", want, out)
		}
	}
}

func TestEmptyRunIsAnAnswer(t *testing.T) {
	out := screenOf(t, &bench{run: record.Run{Status: record.Failed, Reason: "no trial ended"}}, TerminalOptions{})
	if !strings.HasPrefix(out, "tare weigh\nNothing was measured that could be compared: no trial ended.") {
		t.Errorf("got:\n%s", out)
	}
}

func TestSecondaryMetricsOnRequest(t *testing.T) {
	short, whole := ordinary, ordinary
	whole.All = true
	if out := screenOf(t, redis(), short); strings.Contains(out, "get-p99") {
		t.Errorf("the first screen holds a secondary metric:\n%s", out)
	}
	if out := screenOf(t, redis(), whole); !strings.Contains(out, "get-p99, less is better") {
		t.Errorf("a secondary metric is missing though all were asked for:\n%s", out)
	}
}

// ladder is a run whose conditions add one layer each.
func ladder() *bench {
	b := newBench(16)
	b.run.Plan.Ladder = true
	b.weigh("redis", []gauge{{name: "get", unit: "requests/s", higher: true, primary: true, level: 69300}}, []shape{
		{platform: "bare", noise: 0.006},
		{platform: "cgroup", cost: 0.004, noise: 0.006},
		{platform: "oci:runc", setting: "seccomp=unconfined", cost: 0.006, noise: 0.006},
		{platform: "oci:runc", setting: "seccomp=default", cost: 0.031, noise: 0.006},
		{platform: "docker", cost: 0.033, noise: 0.006},
	})
	return b
}

func TestLadderPairsNeighbours(t *testing.T) {
	b := ladder()
	g := b.rep.Groups[0]
	rungs := Ladder(b.run, g.Metrics[:1], 0.95)[0]
	if len(rungs) != 4 {
		t.Fatalf("%d rungs, want 4", len(rungs))
	}
	seccomp := rungs[2]
	if seccomp.Before.Label != "oci:runc seccomp=unconfined" || seccomp.Row.Label != "oci:runc seccomp=default" {
		t.Errorf("rung 3 compares %q with %q", seccomp.Row.Label, seccomp.Before.Label)
	}
	if !(seccomp.PercentLow > 0 && seccomp.PercentLow < 2.5 && seccomp.PercentHigh > 2.5) {
		t.Errorf("the layer that costs 2.5 %% is found at %.2f (%.2f to %.2f)", seccomp.Percent, seccomp.PercentLow, seccomp.PercentHigh)
	}

	// A tainted block is left out of a pair, whichever side it taints.
	for i := range g.Metrics[0].Rows[2].Blocks {
		g.Metrics[0].Rows[2].Blocks[i].Tainted = true
	}
	if r := Ladder(b.run, g.Metrics[:1], 0.95)[0][2]; !math.IsNaN(r.Percent) || r.Reason == "" {
		t.Errorf("with every block tainted there is still a figure: %+v", r)
	}
}
