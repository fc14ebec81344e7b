package docker

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"tare/kernel/accounting"
	"tare/kernel/procfs"
)

// posing has a program wait for the end of the test, with arguments, and under a command of its choice if that is
// not empty.
func posing(t *testing.T, program string, uid uint32, command string, arguments ...string) int {
	t.Helper()
	script := `[ -z "$0" ] || echo "$0" > /proc/$$/comm; echo ready; read end`
	cmd := exec.Command(program, append([]string{"-c", script, command}, arguments...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	stdin, _ := cmd.StdinPipe()
	stdout, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Wait()
	})
	if _, err := io.ReadFull(stdout, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// TestServantsAreTheEngines: what only calls itself as an engine's programs do is a stranger's load.
func TestServantsAreTheEngines(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an engine's programs are root's")
	}
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	const id, port, person = "0123456789abcdef", "64999", 65534
	all := accounting.Snapshot{Processes: map[int]accounting.Process{}}
	add := func(pid int) int {
		stat, err := procfs.Host.Process(pid).Stat()
		if err != nil {
			t.Fatal(err)
		}
		all.Processes[pid] = accounting.Process{PID: pid, Command: stat.Comm}
		return pid
	}
	var genuine []int
	proxy := 0
	for name, arguments := range map[string][]string{"dockerd": nil, "containerd-shim": {id}, "docker-proxy": {"-host-port", port, id}} {
		program := filepath.Join(dir, name)
		if err := os.WriteFile(program, shell, 0o755); err != nil {
			t.Fatal(err)
		}
		genuine = append(genuine, add(posing(t, program, 0, "", arguments...)))
		if name == "docker-proxy" {
			proxy = genuine[len(genuine)-1]
		}
		add(posing(t, program, person, "", arguments...))
		add(posing(t, "/bin/sh", 0, name, arguments...))
	}
	slices.Sort(genuine)
	_, p, _ := newFakeEngine(t, nil)
	if got := p.servants(all, []string{id}); !slices.Equal(got, genuine) {
		t.Errorf("the engine's are %v, want %v", got, genuine)
	}
	if got := proxies(p.user(), port); !slices.Equal(got, []int{proxy}) {
		t.Errorf("the proxies are %v, want %d", got, proxy)
	}
	// A rootless engine's are those of its socket's owner.
	p.name = NameRootless
	if got := p.servants(all, []string{id}); len(got) > 0 {
		t.Errorf("a rootless engine at root's socket has %v", got)
	}
	if err := os.Chown(p.client.DaemonHost()[len("unix://"):], person, person); err != nil {
		t.Fatal(err)
	}
	if got := p.servants(all, []string{id}); len(got) != 3 || slices.ContainsFunc(got, func(pid int) bool { return slices.Contains(genuine, pid) }) {
		t.Errorf("a rootless engine has %v, want three of its user's", got)
	}
}
