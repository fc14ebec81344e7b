package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tare/kernel/cgroup"
)

// limited runs tare behind a command of a shell that sets a limit for it.
func limited(t *testing.T, sets string, args ...string) (code int, output string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", append([]string{"-c", sets + ` && exec "$0" "$@"`, self}, args...)...)
	cmd.Env = append(os.Environ(), actAsTare+"=1")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// Too few open files are one line, which names the limit; and all work with as many as are asked for.
func TestFewOpenFiles(t *testing.T) {
	for _, args := range []string{"doctor", "runs", "pages --pid 1", "weigh redis --dry-run"} {
		for _, files := range []int{16, 32, 128, 255} {
			code, out := limited(t, fmt.Sprintf("ulimit -n %d", files), strings.Fields(args)...)
			if code != exitHost || strings.Count(out, "\n") != 1 || !strings.Contains(out, "RLIMIT_NOFILE") || !strings.Contains(out, "ulimit -Hn") {
				t.Errorf("%s with %d: code %d: %s", args, files, code, out)
			}
		}
	}
	// A soft limit is raised to the hard one.
	for _, sets := range []string{"ulimit -n 256", "ulimit -Sn 20"} {
		if code, out := limited(t, sets, "doctor"); code != exitSuccess || strings.Contains(out, "too many open files") {
			t.Errorf("%s: code %d: %s", sets, code, out)
		}
	}
}

// In a control group with room for too few threads, tare says so. It is a group of the test's own.
func TestFewThreads(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("control groups need root")
	}
	host, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	own, _, err := host.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	place, has := own.For("pids")
	if !has {
		t.Skip("no hierarchy carries pids")
	}
	// Below the root, as version 2 lets no group with processes hand controllers down.
	place.Path = fmt.Sprintf("/tare-test-threads-%d", os.Getpid())
	dir := place.Dir()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	limit := filepath.Join(dir, "pids.max")
	joins := "echo $$ > " + filepath.Join(dir, "cgroup.procs")
	if err := os.WriteFile(limit, []byte("30"), 0o644); err != nil {
		t.Skip(err)
	}
	for _, args := range []string{"doctor", "runs", "weigh redis --dry-run"} {
		code, out := limited(t, joins, strings.Fields(args)...)
		if code != exitHost || strings.Count(out, "\n") != 1 || !strings.Contains(out, dir+" has room for ") || !strings.Contains(out, "pids.max of 30") {
			t.Errorf("%s: code %d: %s", args, code, out)
		}
	}
	if err := os.WriteFile(limit, []byte("200"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, out := limited(t, joins, "doctor"); code != exitSuccess {
		t.Errorf("code %d: %s", code, out)
	}
}
