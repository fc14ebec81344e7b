package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Of a hundred small containers diagnose takes less than a tenth of a core, and 100 MB. What the
// kernel says of its memory includes this program's own, which began it: it is an upper bound.
func TestDiagnoseWeight(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("starts a hundred containers: set TARE_TEST_ALL=1")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const containers, span = 100, 10 * time.Second
	startSmall(t, containers)
	once, out := start(t, t.TempDir(), "diagnose", "--all", "--for", span.String())
	if err := once.Wait(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.Contains(out.String(), "containers: 10") {
		t.Errorf("want a hundred containers to be found: %s", out)
	}
	weighs(t, "once", once.ProcessState, span)

	// Again and again, six times and a bit.
	const rounds = 6*span + span/2
	watch, out := start(t, t.TempDir(), "diagnose", "--all", "--watch", "--for", span.String())
	time.Sleep(rounds)
	if err := watch.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := watch.Wait(); err != nil {
		t.Logf("%v: %s", err, out)
	}
	weighs(t, "watch", watch.ProcessState, rounds)
}

// weighs compares what a program took with what diagnose may take.
func weighs(t *testing.T, name string, of *os.ProcessState, span time.Duration) {
	t.Helper()
	cpu, memory := of.UserTime()+of.SystemTime(), of.SysUsage().(*syscall.Rusage).Maxrss
	t.Logf("%s: CPU time %v in %v, %.2f %%; memory at most %d KiB", name, cpu, span, 100*cpu.Seconds()/span.Seconds(), memory)
	if cpu > span/10 {
		t.Errorf("%s: it used %v of CPU time within %v, want at most a tenth", name, cpu, span)
	}
	if memory > 100<<10 {
		t.Errorf("%s: it took up to %d KiB of memory, want at most 100 MiB", name, memory)
	}
}

// startSmall starts containers of a runtime, each a shell that wakes five times a second.
func startSmall(t *testing.T, count int) {
	t.Helper()
	shell, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("needs a static busybox: apt-get install busybox-static")
	}
	runtime, err := exec.LookPath("runc") // crun refuses hosts with both versions of control groups
	if err != nil {
		t.Skip("needs an OCI runtime: apt-get install runc")
	}
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	for _, name := range []string{"bin", "proc", "dev", "sys"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.ReadFile(shell)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "bin/busybox"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(in string, args ...string) error {
		cmd := exec.Command(runtime, append([]string{"--root", filepath.Join(dir, "state")}, args...)...)
		cmd.Dir = in
		// A container keeps what its runtime writes to, so no pipe may be waited for.
		said, err := os.CreateTemp(dir, "said")
		if err != nil {
			return err
		}
		defer said.Close()
		cmd.Stderr = said
		if err := cmd.Run(); err != nil {
			text, _ := os.ReadFile(said.Name())
			return fmt.Errorf("%s %s: %w: %s", runtime, strings.Join(args, " "), err, text)
		}
		return nil
	}
	if err := run(dir, "spec"); err != nil {
		t.Skip(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var spec map[string]any
	if err := json.Unmarshal(text, &spec); err != nil {
		t.Fatal(err)
	}
	process, linux := spec["process"].(map[string]any), spec["linux"].(map[string]any)
	process["terminal"] = false
	process["args"] = []string{"/bin/busybox", "sh", "-c", "while :; do /bin/busybox sleep 0.2; done"}
	spec["root"] = map[string]any{"path": root, "readonly": true}
	top := fmt.Sprintf("/tare-weight-%d", os.Getpid())
	t.Cleanup(func() { removeGroups(t, top) })
	for i := range count {
		id := fmt.Sprintf("tare-weight-%d-%d", os.Getpid(), i)
		linux["cgroupsPath"] = fmt.Sprintf("%s/libpod-%064x", top, 0xfeed0000+i) // as podman's without a daemon
		bundle := filepath.Join(dir, id)
		text, err := json.Marshal(spec)
		if err := errors.Join(err, os.Mkdir(bundle, 0o755), os.WriteFile(filepath.Join(bundle, "config.json"), text, 0o600)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := run(bundle, "delete", "--force", id); err != nil {
				t.Error(err)
			}
		})
		if err := run(bundle, "run", "--detach", "--bundle", bundle, id); err != nil {
			t.Fatal(err)
		}
	}
}

// removeGroups removes empty control groups of a name in all hierarchies.
func removeGroups(t *testing.T, name string) {
	t.Helper()
	dirs, err := filepath.Glob("/sys/fs/cgroup/*" + name)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range append(dirs, "/sys/fs/cgroup"+name) {
		if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Log(err)
		}
	}
}
