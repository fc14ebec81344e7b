package annexd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"tare/cli/command"
	"tare/kernel/cgroup"
)

// limited runs annexd behind a command of a shell that sets a limit for it.
func limited(t *testing.T, sets string, args ...string) (code int, output string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", append([]string{"-c", sets + ` && exec "$0" "$@"`, self}, args...)...)
	cmd.Env = append(os.Environ(), annexdVariable+"=1")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// Too few open files, or room for too few threads, are one line before anything is begun.
func TestFewFilesAndThreads(t *testing.T) {
	path := write(t, "mode = \"observe\"\n")
	all := [][]string{{"--check", "--config", path}, {"--once", "--config", path}, {"--recover", "--config", path}, {"--config", path}}
	refused := func(sets string, args []string, says ...string) {
		t.Helper()
		code, out := limited(t, sets, args...)
		if code != command.Host || strings.Count(out, "\n") != 1 {
			t.Errorf("%s; annexd %q: code %d: %s", sets, args, code, out)
		}
		for _, word := range says {
			if !strings.Contains(out, word) {
				t.Errorf("%s; annexd %q: want %q in %s", sets, args, word, out)
			}
		}
	}
	for _, args := range all {
		for _, files := range []int{16, 32, 255} {
			refused(fmt.Sprintf("ulimit -n %d", files), args, "RLIMIT_NOFILE", "LimitNOFILE=")
		}
	}
	if code, out := limited(t, "ulimit -n 256", all[0]...); code != command.Success {
		t.Errorf("with 256 open files: code %d: %s", code, out)
	}

	layout, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	h, has := layout.For("pids")
	if !has || os.Geteuid() != 0 {
		t.Skip("needs root and the pids controller")
	}
	g := cgroup.Group{Places: []cgroup.Place{{Hierarchy: h, Path: fmt.Sprintf("/tare-annexd-threads-%d", os.Getpid())}}}
	if err := g.Create("pids"); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	limit, joins := g.Places[0].File("pids.max"), "echo $$ > "+g.Places[0].File("cgroup.procs")
	if err := os.WriteFile(limit, []byte("30"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range all {
		refused(joins, args, g.Places[0].Dir()+" has room for ", "pids.max of 30", "TasksMax=")
	}
}
