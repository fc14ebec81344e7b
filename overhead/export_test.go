package overhead_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tare/overhead"
	"tare/platform"
	"tare/record"
	"tare/workload"
)

func TestCSVHasARowASample(t *testing.T) {
	run := synthetic{seed: 61, blocks: 2, cold: 0.9, effects: map[string]float64{"docker": 0.95}, edit: func(trial *record.Trial) {
		switch {
		case trial.Block == 1 && trial.Condition == "redis@docker":
			trial.Taint = []string{"steal 7.1 %", "load, 3.2"}
		case trial.Block == 2 && trial.Condition == "redis@docker":
			trial.Error = "no"
		}
	}}.run(t)
	var out bytes.Buffer
	if err := overhead.CSV(&out, run); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"run", "block", "attempt", "position", "condition", "metric", "unit", "value", "taint", "strip"}, rows[0]); diff != "" {
		t.Error(diff)
	}
	// 3 blocks of 3 trials, one of which failed; get, throttled and get-p99 of each.
	if want := 1 + (3*3-1)*3; len(rows) != want {
		t.Errorf("%d rows, want %d", len(rows), want)
	}
	first := run.Trials[0]
	want := []string{run.ID, "0", "1", "0", "redis@bare", "get", "requests/s", fmt.Sprint(first.Samples[0].Value), "", "0"}
	if diff := cmp.Diff(want, rows[1]); diff != "" {
		t.Error(diff)
	}
	tainted := 0
	for _, row := range rows[1:] {
		if row[8] != "" {
			tainted++
			if row[8] != "steal 7.1 %; load, 3.2" {
				t.Errorf("taint %q", row[8])
			}
		}
	}
	if tainted != 3 {
		t.Errorf("%d tainted rows, want 3", tainted)
	}
}

// The lines of golang.org/x/perf's benchmark format, as its specification
// (golang.org/design/14313-benchmark-format) writes them.
var (
	configLine = regexp.MustCompile(`^[a-z][^A-Z \t]*: \S.*$`)
	unitLine   = regexp.MustCompile(`^Unit \S+ better=(higher|lower)$`)
	resultLine = regexp.MustCompile(`^Benchmark[^a-z\s]\S* 1 \S+ \S+$`)
)

func benchfmtLines(t *testing.T, run record.Run) []string {
	t.Helper()
	var out bytes.Buffer
	if err := overhead.Benchfmt(&out, run); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	for _, line := range lines {
		if !configLine.MatchString(line) && !unitLine.MatchString(line) && !resultLine.MatchString(line) {
			t.Errorf("not in the format: %q", line)
		}
	}
	return lines
}

func count(lines []string, prefix string) int {
	n := 0
	for _, line := range lines {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

func TestBenchfmt(t *testing.T) {
	run := synthetic{seed: 62, blocks: 4, cold: 0.9, effects: map[string]float64{"docker": 0.95}, edit: func(trial *record.Trial) {
		if trial.Block == 3 {
			trial.Taint = []string{"steal"}
		}
	}}.run(t)
	lines := benchfmtLines(t, run)
	for _, want := range []string{"run: " + run.ID, "kernel: 6.1.0", "Unit requests/s better=higher", "Unit us better=lower"} {
		if count(lines, want) != 1 {
			t.Errorf("%q stands %d times", want, count(lines, want))
		}
	}
	// Three blocks count, with the baseline twice in each.
	if n := count(lines, "BenchmarkRedis/platform=bare/memory=512m/metric=get 1 "); n != 6 {
		t.Errorf("%d lines of the baseline, want 6", n)
	}
	if n := count(lines, "BenchmarkRedis/platform=docker/memory=512m/metric=get 1 "); n != 3 {
		t.Errorf("%d lines of docker, want 3", n)
	}
}

func TestBenchfmtOfAwkwardNames(t *testing.T) {
	run := synthetic{seed: 63, blocks: 1, effects: map[string]float64{"docker": 1, "oci:runc": 1}}.run(t)
	for i := range run.Conditions {
		c := &run.Conditions[i]
		c.Workload = "éclair-8 top"
		c.Platform = "vm/oci"
		c.Metrics = []workload.Metric{
			{Name: "get", Unit: "requests per s", Better: workload.Higher, Primary: true},
			{Name: "throttled", Unit: "us", Better: workload.Lower},
			{Name: "latency-99", Unit: "us", Better: workload.Higher, Quantile: 0.99, Histogram: "get"},
		}
	}
	run.Conditions[2].Params = workload.Params{"clients": "5 0"}
	lines := benchfmtLines(t, run)
	if count(lines, "Unit us") != 0 {
		t.Error("a unit that is better in both directions has one")
	}
	names := map[string]int{}
	for _, line := range lines {
		if strings.HasPrefix(line, "Benchmark") {
			name, _, _ := strings.Cut(line, " ")
			names[name]++
			if regexp.MustCompile(`-\d+$`).MatchString(name) {
				t.Errorf("%s ends like a number of threads", name)
			}
		}
	}
	// Two conditions say the same of themselves, and must not run together.
	if len(names) != 3*3 {
		t.Errorf("%d names, want 9: %v", len(names), names)
	}
}

func TestRedactedRunsTellNoTales(t *testing.T) {
	run := synthetic{seed: 64, blocks: 3, effects: map[string]float64{"docker": 0.95}}.run(t)
	run.Command = []string{"/home/alice/bin/tare", "weigh", "--image-archive=/srv/acme/app.tar", "--out", "out/acme", "--workload", "rocket.yaml",
		"--platform", "vm/bare,docker", "--", "./server", "--token=s3cr3t"}
	run.Host.Hostname, run.Host.CmdLine = "falcon.acme.example", "root=UUID=1234-beef"
	run.Reason = "alice stopped it on falcon"
	run.Plan.Notes = []string{"crun left out: /usr/local/acme/crun: not executable"}
	run.Conditions[0].InForce = &platform.InForce{Env: []string{"TOKEN=s3cr3t"}, Cgroups: []string{"/user.slice/alice"}, RootFS: "ext4", Stdout: "/srv/acme/log"}
	run.Conditions[0].Platform = "vm/bare"
	run.Conditions[0].Params = workload.Params{"data": "/srv/acme/data", "clients": "50"}
	for i := range run.Conditions {
		run.Conditions[i].ID += ",image=/srv/acme/app.tar"
		run.Conditions[i].Label += " image=acme/app.tar"
		run.Conditions[i].ImageRef = "/srv/acme/app.tar"
	}
	for i := range run.Trials {
		run.Trials[i].Condition += ",image=/srv/acme/app.tar"
	}
	run.Trials[3].Error = `open "/srv/acme/key": permission denied for alice`
	run.Trials[4].Taint = []string{"CPU of /opt/acme/agent 12 %"}
	run.Trials[5].Slices = []record.Slice{{Previous: run.Conditions[0].ID, Taint: []string{"foreign CPU 12 % (rocket most)", "CPU of /opt/acme/agent 12 %"}}}
	run.Plan.Rounds = map[string]record.RoundPlan{"/srv/acme/app.yaml": {Strips: 20}}
	run.Plan.Blocked = map[string]string{"/srv/acme/other.yaml": "/srv/acme/other: no freezer"}
	before, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}

	redacted := overhead.Redact(run)
	after, err := json.Marshal(redacted)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"alice", "acme", "s3cr3t", "falcon", "beef", "/srv", "rocket", "/home", "/usr"} {
		if bytes.Contains(after, []byte(secret)) {
			at := bytes.Index(after, []byte(secret))
			t.Errorf("%q is still there: ...%s...", secret, after[max(0, at-40):min(len(after), at+40)])
		}
	}
	if again, _ := json.Marshal(run); !bytes.Equal(before, again) {
		t.Error("the run itself was changed")
	}

	// Conditions stay apart and trials theirs, and the figures are the same.
	if redacted.Conditions[0].ID == redacted.Conditions[1].ID || redacted.Conditions[0].Platform != "vm/bare" {
		t.Errorf("conditions %q and %q", redacted.Conditions[0].ID, redacted.Conditions[1].ID)
	}
	if redacted.Conditions[0].InForce.RootFS != "ext4" || redacted.Host.Kernel != "6.1.0" {
		t.Error("more is gone than need be")
	}
	was, is := overhead.Analyse(run, overhead.Options{}), overhead.Analyse(redacted, overhead.Options{})
	if a, b := row(t, was, "get", "docker image=acme/app.tar"), row(t, is, "get", redacted.Conditions[1].Label); a.Ratio.Value != b.Ratio.Value || a.Ratio.N != b.Ratio.N || a.Ratio.N == 0 {
		t.Errorf("ratio %+v, redacted %+v", a.Ratio, b.Ratio)
	}
	if diff := cmp.Diff([]string{"tare", "weigh"}, redacted.Command[:2]); diff != "" {
		t.Error(diff)
	}
}
