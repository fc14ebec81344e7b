package annexd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"tare/annex"
	"tare/annex/bound"
	"tare/annex/config"
	"tare/annex/control"
	"tare/cli/command"
	"tare/container"
)

func annexd(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = run(t.Context(), append([]string{"annexd"}, args...), &out, &errOut)
	return code, out.String(), errOut.String()
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "annex.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every bad input gets one line that says what, where and what to do, and the right code.
func TestBadInput(t *testing.T) {
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"run"}, []string{"takes no arguments", "run"}},
		{[]string{"--nosuch"}, []string{"--nosuch"}},
		{[]string{"--check", "--once"}, []string{"want one of them"}},
		{[]string{"--check", "--config", "/nonexistent/annex.toml"}, []string{"/nonexistent/annex.toml", "--example"}},
		{[]string{"--check", "--config", t.TempDir()}, []string{"is a directory"}},
		{[]string{"--check", "--config", write(t, "[control]\nsocket = \"/"+strings.Repeat("s", 107)+"\"\n")}, []string{"annex.toml:2: control.socket", "107"}},
		{[]string{"--check", "--config", write(t, "version = 1\nmode = \"mange\"\n")}, []string{"annex.toml:2", "manage"}},
		{[]string{"--check", "--config", write(t, "[[rule]]\nclass = \"elastic\"\ncgroup = '/batch/[a-'\n")}, []string{"annex.toml:3: rule[0].cgroup: is \"/batch/[a-\"", `want a set such as [a-z], or \[`}},
	} {
		code, stdout, stderr := annexd(t, c.args...)
		if code != command.Usage || stdout != "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: code %d, %q, %q", c.args, code, stdout, stderr)
		}
		for _, word := range c.says {
			if !strings.Contains(stderr, word) {
				t.Errorf("%q does not say %q: %s", c.args, word, stderr)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	if code, stdout, stderr := annexd(t, "--version"); code != command.Success || stdout != "annexd "+command.Version()+"\n" || stderr != "" {
		t.Errorf("code %d, %q, %q", code, stdout, stderr)
	}
}

// A group that is not there to be defended is the host's lack.
func TestNoGroup(t *testing.T) {
	code, _, stderr := annexd(t, "--check", "--config", write(t, "version = 1\n[memory]\ndefend = \"/there-is-no-such-group\"\n"))
	if code != command.Host || !strings.Contains(stderr, "/there-is-no-such-group") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("code %d, %q", code, stderr)
	}
}

// What is to be defended is waited for as long as it is not there; any other error ends the wait.
func TestWaitEndsWithAnotherError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errOut strings.Builder
		f := &flags{err: &errOut, systemd: notifier{}}
		var absent error = &bound.NoGroup{Group: "/box"}
		errs := []error{absent, &bound.Unbounded{Group: "/box", Mend: "make one"}, errors.New("out of files"), nil}
		looks := 0
		look := func(config.Config) error { looks++; return errs[looks-1] }
		f.await(t.Context(), config.Default(), absent, nil, look)
		if looks != 3 || strings.Count(errOut.String(), "waiting for") != 2 || strings.Contains(errOut.String(), "files") {
			t.Errorf("%d looks, says %s", looks, errOut.String())
		}
	})
}

// Several errors are several lines.
func TestSeveralErrors(t *testing.T) {
	path := write(t, "mode = 1\nmdoe = 2\n")
	code, _, stderr := annexd(t, "--check", "--config", path)
	want := "annexd: " + path + ":1: mode: is the number 1: want a text in quotes, as \"observe\"\nannexd: " + path + ":2: mdoe: is no key: did you mean mode?\n"
	if code != command.Usage || stderr != want {
		t.Errorf("code %d, says\n%swant\n%s", code, stderr, want)
	}
}

type decided map[string][]control.Decision

func (d decided) Explain(name string) (control.Explanation, error) {
	if all, ok := d[name]; ok {
		return control.Explanation{Decisions: all}, nil
	}
	return control.Explanation{}, &control.Unknown{Container: name}
}

// What would be done is told, and that nothing would be.
func TestDecisionsArePrinted(t *testing.T) {
	s := control.Status{
		Memory:   control.Memory{FreeBytes: 10 << 20, LimitBytes: 96 << 20, HeadroomBytes: 32 << 20},
		Contexts: []control.Context{{ID: "cgroup:a", Name: "a"}, {ID: "cgroup:gone", Name: "gone"}},
	}
	const head = "10 MiB are free of 96 MiB, headroom 32 MiB; 2 containers are managed or protected\n"
	for want, d := range map[string]decided{
		head + "nothing would be moved\n": {},
		head + "WOULD  CONTAINER  PAGES  WHY\nevict  a          512    headroom: idle for 40s\n": {
			"cgroup:a": {{Op: "evict", Why: annex.Headroom, Asked: 512, Detail: "idle for 40s"}},
		},
	} {
		var out strings.Builder
		if err := printDecisions(&out, s, decisions(d, s)); err != nil || out.String() != want {
			t.Errorf("%v, prints\n%swant\n%s", err, out.String(), want)
		}
	}
}

// Names are others' choice, and are not to steer root's terminal; what lies outside of what is
// defended is told, and so is a critical container that nothing stops eviction for.
func TestClassesArePrinted(t *testing.T) {
	c := config.Default()
	c.Memory.Defend = "/box"
	c.Rules = []config.Rule{{Class: annex.Critical, Name: "db*"}, {Class: annex.Elastic, Name: "web*", Image: "*"}}
	all := []container.Container{
		{Engine: container.Docker, Name: "db\x1b[2J", Cgroup: "/box/db"}, {Engine: container.Docker, Name: "db-out", Cgroup: "/db"},
		{Engine: container.Docker, Name: "web\x1b]0;\x07", Cgroup: "/box/web"}, {Engine: container.Docker, Name: "web-out", Image: "i", Cgroup: "/web"},
		{Engine: container.Docker, Name: "web-gone"}, {Engine: container.Docker, Name: "other"},
	}
	within := func(one container.Container) (bool, error) {
		if one.Cgroup == "" {
			return false, &bound.Unplaced{Name: one.Name}
		}
		return strings.HasPrefix(one.Cgroup, "/box/"), nil
	}
	var out strings.Builder
	want := `CLASS     RULE  ENGINE  CONTAINER
critical  1     docker  db\u001b[2J
critical  1     docker  db-out
elastic   2     docker  web\u001b]0;\u0007
elastic   2     docker  web-out (outside of /box: not managed)
elastic   2     docker  web-gone

RULE  CONTAINERS  CLASS     PATTERNS
1     2           critical  name = "db*"
2     3           elastic   name = "web*", image = "*"

2 critical, 3 elastic (1 of them not managed), 1 ignored
`
	for line := range strings.Lines(want) {
		if len(line) > 80 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	if err := printClasses(&out, c, all, within); err != nil || out.String() != want {
		t.Errorf("%v, prints\n%swant\n%s", err, out.String(), want)
	}
	notes := unbraked(c, all, func(one container.Container) (annex.Pressure, error) {
		if one.Cgroup == "/box/db" {
			return annex.Pressure{}, nil
		}
		return annex.Pressure{}, &bound.NoPressure{Name: one.Name, Why: "there is none", Mend: "make one"}
	})
	if len(notes) != 1 || !strings.Contains(notes[0], "critical container db-out is not known") || !strings.Contains(notes[0], "make one") {
		t.Errorf("says %q", notes)
	}
}

// A rule that would fit by a name of a user's choice does not, which whoever wrote it is told.
func TestUnprovedNamesAreTold(t *testing.T) {
	c := config.Default()
	c.Rules = []config.Rule{{Class: annex.Critical, Name: "db*"}, {Class: annex.Elastic, Cgroup: "/user.slice/*"}}
	users := container.Container{Name: "db", Cgroup: "/sys/fs/cgroup/user.slice/lxc.payload.db", Unprivileged: true}
	others := container.Container{Name: "web", Cgroup: "/sys/fs/cgroup/user.slice/lxc.payload.web", Unprivileged: true}
	roots := container.Container{Name: "db", Cgroup: "/sys/fs/cgroup/lxc.payload.db"}
	notes := unproved(c, []container.Container{users, others, roots})
	if len(notes) != 1 || !strings.Contains(notes[0], "container db is elastic and not critical") || !strings.Contains(notes[0], users.Cgroup) {
		t.Errorf("says %q", notes)
	}
}

// What would be managed is told to anyone.
func TestCheck(t *testing.T) {
	path := write(t, config.Example())
	code, stdout, stderr := annexd(t, "--check", "--config", path)
	if code != command.Success || !strings.Contains(stdout, path+" is valid: mode observe") || !strings.Contains(stdout, "0 critical, 0 elastic") {
		t.Errorf("code %d:\n%s%s", code, stdout, stderr)
	}
}

// Warnings are said to be no failure, but for --strict.
func TestWarningsOfACheck(t *testing.T) {
	path := write(t, "[[rule]]\nclass = \"elastic\"\nname = \"there-is-none-of-that-name\"\n")
	for _, c := range []struct {
		args []string
		code int
		last string
	}{
		{nil, command.Success, "are no failure (exit code 0): with --strict they are"},
		{[]string{"--strict"}, command.Failure, "which fail by --strict"},
	} {
		code, _, stderr := annexd(t, append([]string{"--check", "--config", path}, c.args...)...)
		lines := strings.Split(strings.TrimSpace(stderr), "\n")
		if code != c.code || len(lines) < 2 || !strings.HasSuffix(lines[len(lines)-1], c.last) || !strings.HasPrefix(lines[0], "annexd: warning: ") {
			t.Errorf("%v: code %d, %s", c.args, code, stderr)
		}
	}
	if code, _, stderr := annexd(t, "--strict", "--config", path); code != command.Usage || strings.Count(stderr, "\n") != 1 {
		t.Errorf("without --check: code %d, %s", code, stderr)
	}
}

// standing is a daemon that begins after some looks.
type standing struct {
	looks int
	then  control.Status
}

func (s *standing) Status() control.Status {
	if s.looks--; s.looks >= 0 {
		return control.Status{State: control.Starting}
	}
	return s.then
}

// What a daemon does is told once it has begun; of one that has ended by then, nothing.
func TestBeginIsTold(t *testing.T) {
	contexts := []control.Context{{Class: annex.Critical}, {Class: annex.Elastic}, {Class: annex.Elastic}}
	for want, s := range map[string]control.Status{
		"annexd: manages the host (mode manage): 1 critical, 2 elastic; annex status tells more\n":   {State: control.Managing, Mode: "manage", Memory: control.Memory{Defended: config.Host}, Contexts: contexts},
		"annexd: manages /box (mode manage): 0 critical, 0 elastic; annex status tells more\n":       {State: control.Draining, Mode: "manage", Memory: control.Memory{Defended: "/box"}},
		"annexd: observes the host (mode observe): 1 critical, 2 elastic; annex status tells more\n": {State: control.Observing, Mode: "observe", Memory: control.Memory{Defended: config.Host}, Contexts: contexts},
		"": {State: control.Ending},
	} {
		synctest.Test(t, func(t *testing.T) {
			var errOut strings.Builder
			f := &flags{err: &errOut}
			f.begun(t.Context(), &standing{looks: 3, then: s})
			if errOut.String() != want {
				t.Errorf("%s: %q, want %q", s.State, errOut.String(), want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	(&flags{}).begun(ctx, &standing{looks: 1 << 30})
}

// Who is not root is told that first: the configuration may be root's alone.
func TestStartTakesRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("becoming another user takes root")
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "--config", write(t, "mode = 1\n"))
	cmd.Env = append(os.Environ(), annexdVariable+"=1")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	var errOut strings.Builder
	cmd.Stderr = &errOut
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != command.Host || !strings.Contains(errOut.String(), "run it as root") || strings.Count(errOut.String(), "\n") != 1 {
		t.Errorf("%v: %q", err, errOut.String())
	}
}

// What refuses a start is told alone, and not before it what annexd would lack if it ran. What
// of the host's is in the way of a start is a failure, whichever file it is of.
func TestFailingStartSaysWhyAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("annexd starts as root alone")
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("needs setpriv: apt-get install util-linux")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "annexd")
	binary, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(program, binary, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"state.directory", "state.journal", "log.file", "control.socket"} {
		text := fmt.Sprintf("state.directory = %q\nstate.journal = %q\nlog.file = \"\"\ncontrol.socket = %q\n", dir+"/lib", dir+"/journal", dir+"/socket")
		text = regexp.MustCompile(regexp.QuoteMeta(key)+" = .*").ReplaceAllString(text, key+` = "/proc/none/file"`)
		cmd := exec.CommandContext(t.Context(), setpriv, "--bounding-set=-sys_resource", "--inh-caps=-sys_resource", program, "--config", write(t, text))
		cmd.Env = append(os.Environ(), annexdVariable+"=1")
		var errOut strings.Builder
		cmd.Stderr = &errOut
		var exit *exec.ExitError
		if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != command.Usage || strings.Count(errOut.String(), "\n") != 1 || !strings.Contains(errOut.String(), key+": ") || !strings.Contains(errOut.String(), "/proc/none") {
			t.Errorf("%s: %v, says\n%s", key, err, errOut.String())
		}
	}
}
