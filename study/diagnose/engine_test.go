package diagnose

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"tare/container"
	"tare/kernel/accounting"
	"tare/kernel/procfs"
)

// runs has a program wait for the end of the test, with an argument, and under a command of its choice if
// that is not empty.
func runs(t *testing.T, program string, uid uint32, command, argument string) int {
	t.Helper()
	cmd := exec.Command(program, "-c", `[ -z "$0" ] || echo "$0" > /proc/$$/comm; echo ready; read end`, command, argument)
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

// TestEngineWorkIsTheEngines: a program that calls itself as the engine's do costs no container anything.
func TestEngineWorkIsTheEngines(t *testing.T) {
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
	const id, address, person = "0123456789abcdef", "172.17.0.9", 65534
	arguments := map[string]string{"dockerd": "", "containerd-shim": id, "docker-proxy": address}
	genuine, posing := map[string]int{}, []int{}
	for name, argument := range arguments {
		program := filepath.Join(dir, name)
		if err := os.WriteFile(program, shell, 0o755); err != nil {
			t.Fatal(err)
		}
		genuine[name] = runs(t, program, 0, "", argument)
		posing = append(posing, runs(t, program, person, "", argument), runs(t, "/bin/sh", 0, name, argument))
	}
	work := func(pids ...int) EngineWork {
		before, after := accounting.Snapshot{Processes: map[int]accounting.Process{}}, accounting.Snapshot{Processes: map[int]accounting.Process{}}
		for _, pid := range pids {
			stat, err := procfs.Host.Process(pid).Stat()
			if err != nil {
				t.Fatal(err)
			}
			p := accounting.Process{PID: pid, Start: stat.StartTicks, Command: stat.Comm}
			before.Processes[pid] = p
			p.Own = time.Second
			after.Processes[pid] = p
		}
		f := &Facts{Span: time.Second, Container: container.Container{ID: id, Kept: container.Kept{CheckEvery: time.Second, Addresses: []string{address}}}}
		engineWork([]*Facts{f}, nil, before, after)
		return f.Engine
	}
	if got := work(posing...); got != (EngineWork{}) {
		t.Errorf("programs that call themselves as the engine's do are counted: %+v", got)
	}
	got := work(genuine["dockerd"], genuine["containerd-shim"], genuine["docker-proxy"])
	if want := (EngineWork{Shim: time.Second, Daemon: time.Second, Proxy: time.Second}); got != want {
		t.Errorf("the engine's own: %+v, want %+v", got, want)
	}
}
