package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/advise"
	"tare/kernel/procfs"
	"tare/stats"
)

func TestAdviseWithoutRuns(t *testing.T) {
	home := t.TempDir()
	for _, c := range []struct {
		line string
		code int
		says string
	}{
		{"advise", exitFailure, "nothing has been measured yet"},
		{"advise --as nomad", exitUsage, "want one of compose, docker, kubernetes, systemd"},
		{"advise a b", exitUsage, "at most 1 argument"},
	} {
		code, _, stderr := tare(t, home, strings.Fields(c.line)...)
		if code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: code %d: %s; want %d, %q", c.line, code, stderr, c.code, c.says)
		}
	}
}

// A workload that was weighed alone was measured, and no setting follows from that.
func TestAdviseOfWhatWasWeighed(t *testing.T) {
	home := t.TempDir()
	storedRun(t, home, "weigh-app", map[string]float64{"bare": 1, "docker": 1}, nil)
	for _, line := range []string{"advise app", "advise app --as compose", "advise weigh-app"} {
		code, stdout, stderr := tare(t, home, strings.Fields(line)...)
		if code != exitSuccess || !strings.Contains(stdout, "app: what was measured on this host supports no recommendation.") {
			t.Errorf("%s: code %d: %s%s", line, code, stdout, stderr)
		}
		if strings.Contains(stdout, "tare advise --as") {
			t.Errorf("%s proposes a form of nothing:\n%s", line, stdout)
		}
	}
	code, _, stderr := tare(t, home, "advise", "no-such-app")
	if code != exitUsage || !strings.Contains(stderr, "no workload that was measured") {
		t.Errorf("code %d: %s", code, stderr)
	}
}

func TestTheFormThatIsProposedHasSettings(t *testing.T) {
	all := []advise.Advice{{Rule: "r", Setting: advise.HostNetwork, Evidence: []advise.Evidence{{
		Figure: stats.Estimate{Value: 2, Interval: stats.Interval{Low: 1.5, High: 2.5}},
	}}}}
	for about, want := range map[string]string{"": "tare advise --as docker", "redis": "tare advise redis --as docker"} {
		if got := applied(about, all); len(got) != 1 || got[0] != want {
			t.Errorf("%q: %q, want %q", about, got, want)
		}
	}
	all[0].Setting = advise.Setting{}
	if got := applied("", all); got != nil {
		t.Errorf("%q of no setting", got)
	}
}

// Where the links of the first process cannot be read, tare's own network is the host's.
func TestOwnNetwork(t *testing.T) {
	const name = "net:[1]"
	for _, c := range []struct {
		first, self, container string
		want                   bool
	}{
		{name, "net:[2]", name, false},
		{name, name, "net:[2]", true},
		{"", name, name, false},
		{"", name, "net:[2]", true},
		{name, name, "", true},
		{"", "", "", true},
	} {
		proc := procfs.FS(t.TempDir())
		for pid, link := range map[int]string{1: c.first, os.Getpid(): c.self, 7: c.container} {
			path := proc.Process(pid).Path("ns/net")
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if link != "" {
				if err := os.Symlink(link, path); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := ownNetwork(proc, 7); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
