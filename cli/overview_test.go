package cli

import (
	"strings"
	"testing"

	"tare/kernel/host"
)

func TestNextSteps(t *testing.T) {
	all := []string{"bare", "oci:runc", "docker"}
	for _, c := range []struct {
		name string
		s    situation
		want []string // the beginnings of the commands
	}{
		{"a new host", situation{root: true, platforms: all}, []string{"tare doctor", "tare weigh redis --quick", "tare weigh --image IMAGE --platform bare,docker"}},
		{"no engine", situation{root: true, platforms: all[:2], runs: true}, []string{"tare show", "tare weigh --image IMAGE --platform bare,oci:runc", "tare claims"}},
		{"a run that was stopped", situation{root: true, platforms: all, runs: true, stopped: "weigh-1"}, []string{"tare resume weigh-1", "tare weigh --image", "tare claims"}},
		{"a container with a hostile name runs", situation{root: true, platforms: all, runs: true, running: "x;id"}, []string{"tare show", "tare weigh --image", "tare causes 'x;id'"}},
		{"a container runs", situation{root: true, platforms: all, runs: true, running: "web-1"}, []string{"tare show", "tare weigh --image", "tare causes web-1"}},
	} {
		steps := c.s.next()
		if len(steps) != len(c.want) {
			t.Errorf("%s: %v, want %q", c.name, steps, c.want)
			continue
		}
		for i, want := range c.want {
			if !strings.HasPrefix(steps[i].command, want) || steps[i].answers == "" || steps[i].root == (want == "tare show" || want == "tare claims") {
				t.Errorf("%s: step %d is %v, want %q", c.name, i+1, steps[i], want)
			}
		}
	}
}

// Without a command nothing is measured, changed or written: an empty state directory stays empty.
func TestOverview(t *testing.T) {
	home := t.TempDir()
	code, out, errOut := tare(t, home)
	if code != exitSuccess || !strings.Contains(out, "\nNext:\n") || !strings.Contains(out, " doctor\n") || errOut != "" {
		t.Errorf("code %d, %q, %q", code, out, errOut)
	}
	if !strings.Contains(out, "tare --home "+home+" weigh redis --quick") {
		t.Errorf("what is proposed reads another state directory:\n%s", out)
	}
	for _, line := range strings.Split(strings.ReplaceAll(out, " --home "+home, ""), "\n") {
		if len(line) > 80 {
			t.Errorf("longer than a terminal: %q", line)
		}
	}
}

func TestRequirements(t *testing.T) {
	old := host.Facts{Kernel: "5.10.0-28-amd64", Cgroup: "v2"}
	for _, c := range []struct {
		r         requirement
		h         host.Facts
		root, btf bool
		want      string
	}{
		{requirement{}, host.Facts{Cgroup: "none"}, false, false, ""},
		{requirement{linux: "5.8", groups: true, root: true}, old, true, false, ""},
		{requirement{linux: "5.11", btf: true, root: true}, old, false, false, "root, Linux 5.11, kernel types (BTF)"},
		{requirement{linux: "6.2"}, host.Facts{Kernel: "6.18.44"}, true, true, ""},
		{requirement{linux: "6.2"}, host.Facts{Kernel: "unknown"}, true, true, ""},
		{requirement{groups: true}, host.Facts{Cgroup: "none"}, true, true, "control groups"},
	} {
		if got := strings.Join(c.r.lacks(c.h, c.root, c.btf), ", "); got != c.want {
			t.Errorf("%+v on %s lacks %q, want %q", c.r, c.h.Kernel, got, c.want)
		}
	}
}

// Each command stands in a group of help, and has its requirements said.
func TestCommandsAreGroupedAndRequireWhatIsSaid(t *testing.T) {
	said := ""
	for _, r := range requirements {
		said += ", " + r.commands
	}
	for _, c := range Command().Commands() {
		if c.GroupID == "" {
			t.Errorf("%s is in no group of help", c.Name())
		}
		switch c.Name() {
		case "help", "completion", "clean", "resume": // these ask for what the run that they serve did
		default:
			if !strings.Contains(said, c.Name()) {
				t.Errorf("%s: nothing says what it requires", c.Name())
			}
		}
	}
}
