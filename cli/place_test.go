package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tare/lab"
	"tare/platform"
)

// What does not go together is reported before anything is watched or changed.
func TestPlaceBadInput(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		says []string
	}{
		{"place", exitUsage, []string{"--all", "only those named"}},
		{"place --all web", exitUsage, []string{"--all", "name none"}},
		{"place --all --pid 1", exitUsage, []string{"--all", "name none"}},
		{"place --pid 0", exitUsage, []string{"--pid 0"}},
		{"place --undo web", exitUsage, []string{"no CONTAINER"}},
		{"place --undo --all", exitUsage, []string{"leave --all out"}},
		{"place --undo --json x", exitUsage, []string{"leave --json out"}},
		{"place web --dry-run", exitUsage, []string{"--dry-run", "--apply"}},
		{"place web --pairs 8", exitUsage, []string{"--pairs requires --apply"}},
		{"place web --wait 0s", exitUsage, []string{"--wait 0s"}},
		{"place web --for tomorrow", exitUsage, []string{"tomorrow"}},
	} {
		code, stdout, stderr := tare(t, t.TempDir(), strings.Fields(c.args)...)
		if code != c.code || stdout != "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("tare %s ends with %d, want %d, and says\n%s%s", c.args, code, c.code, stdout, stderr)
		}
		for _, word := range c.says {
			if !strings.Contains(stderr, word) {
				t.Errorf("tare %s does not mention %q: %s", c.args, word, stderr)
			}
		}
	}
}

func TestPlaceOfWhatDoesNotRun(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("watching needs root")
	}
	for args, words := range map[string][]string{
		"place tare-nothing-is-called-so":         {"tare-nothing-is-called-so"},
		"place --pid 1 --for 1ms":                 {"1ms", "100ms"},
		"place --pid 1 --apply --pairs 2":         {"2 pairs", "6"},
		"place --pid 1 --apply --window 1ms":      {"1ms", "100ms"},
		"place --pid 1 --json /nowhere/at/all":    {"/nowhere/at/all"},
		"place --pid 1 --for 200ms --out /proc/x": {"/proc/x"},
	} {
		code, _, stderr := tare(t, t.TempDir(), strings.Fields(args)...)
		if code == exitHost && strings.Contains(stderr, "another tare") {
			t.Skip(stderr)
		}
		if code != exitUsage {
			t.Errorf("tare %s ends with %d, want %d, and says %s", args, code, exitUsage, stderr)
		}
		for _, word := range words {
			if !strings.Contains(stderr, word) {
				t.Errorf("tare %s does not mention %q: %s", args, word, stderr)
			}
		}
	}
}

func TestPlaceUndoOfNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving back needs root")
	}
	code, stdout, stderr := tare(t, t.TempDir(), "place", "--undo", "--dry-run")
	if code != exitSuccess || !strings.Contains(stdout, "nothing to restore") {
		t.Errorf("ends with %d and says\n%s%s", code, stdout, stderr)
	}
}

// What is left on the host is reported beside what went wrong, and where nothing did.
func TestAloneShowsWhatIsLeft(t *testing.T) {
	for _, failed := range []error{nil, errors.New("it failed")} {
		dir := t.TempDir()
		err := alone(t.Context(), filepath.Join(dir, "lock"), dir, func(session *lab.Session) error {
			if _, err := session.Ledger.Add(platform.Entry{Platform: "bare", Kind: "process", ID: "made-by-a-test"}); err != nil {
				t.Fatal(err)
			}
			return failed
		})
		if err == nil || !strings.Contains(err.Error(), "made-by-a-test") || failed != nil && !errors.Is(err, failed) {
			t.Errorf("with %v and a thing left: %v", failed, err)
		}
	}
}

// A host without any control group has nothing set on one, which is no error.
func TestPlaceUndoWithoutControlGroups(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("unmounting needs root")
	}
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Skip(err)
	}
	const hide = "for m in $(awk '$3 ~ /^cgroup/ {print $2}' /proc/mounts); do umount -l $m; done; grep -q ' cgroup2\\? ' /proc/mounts && exit 77; exec \"$0\" \"$@\""
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", hide, os.Args[0], "-test.run=^TestPlaceUndoOfNothing$", "-test.v")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 77 {
		t.Skip("the control groups cannot be hidden here")
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: TestPlaceUndoOfNothing") {
		t.Errorf("without control groups (%v):\n%s", err, out)
	}
}
