package diagnose

import (
	"fmt"
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

// runningProgram is a program of the test's, with a child.
type runningProgram struct{ pid, child int }

// runs has a program wait for the end of the test, with an argument, and under a command of its choice if
// that is not empty.
func runs(t *testing.T, program string, uid uint32, command, argument string) (p runningProgram) {
	t.Helper()
	const script = `[ -z "$0" ] || echo "$0" > /proc/$$/comm; sleep 1h > /dev/null & echo $!; read end; kill $!`
	cmd := exec.Command(program, "-c", script, command, argument)
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
	if _, err := fmt.Fscan(stdout, &p.child); err != nil {
		t.Fatal(err)
	}
	p.pid = cmd.Process.Pid
	return p
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
	const address, person = "172.17.0.9", 65534
	arguments := map[string]string{"dockerd": "", "containerd-shim": "", "docker-proxy": address}
	genuine, posing := map[string]runningProgram{}, []runningProgram{}
	for name, argument := range arguments {
		program := filepath.Join(dir, name)
		if err := os.WriteFile(program, shell, 0o755); err != nil {
			t.Fatal(err)
		}
		genuine[name] = runs(t, program, 0, "", argument)
		posing = append(posing, runs(t, program, person, "", argument), runs(t, "/bin/sh", 0, name, argument))
	}
	work := func(programs ...runningProgram) (all EngineWork) {
		before, after := accounting.Snapshot{Processes: map[int]accounting.Process{}}, accounting.Snapshot{Processes: map[int]accounting.Process{}}
		var facts []*Facts
		for _, program := range programs {
			stat, err := procfs.Host.Process(program.pid).Stat()
			if err != nil {
				t.Fatal(err)
			}
			p := accounting.Process{PID: program.pid, Start: stat.StartTicks, Command: stat.Comm}
			before.Processes[p.PID] = p
			p.Own = time.Second
			after.Processes[p.PID] = p
			facts = append(facts, &Facts{Span: time.Second, Container: container.Container{
				PID: program.child, Kept: container.Kept{CheckEvery: time.Second, Addresses: []string{address}},
			}})
		}
		engineWork(facts, nil, before, after)
		for _, f := range facts {
			all.Shim += f.Engine.Shim
			all.Daemon += f.Engine.Daemon
			all.Proxy += f.Engine.Proxy
		}
		all.Daemon = all.Daemon.Round(ms)
		return all
	}
	if got := work(posing...); got != (EngineWork{}) {
		t.Errorf("programs that call themselves as the engine's do are counted: %+v", got)
	}
	got := work(genuine["dockerd"], genuine["containerd-shim"], genuine["docker-proxy"])
	if want := (EngineWork{Shim: time.Second, Daemon: time.Second, Proxy: time.Second}); got != want {
		t.Errorf("the engine's own: %+v, want %+v", got, want)
	}
}

// The containers of a pod have one shim. Its work stands beside the one of the least name. What a container that has
// ended used before is none of it.
func TestAPodHasOneShim(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an engine's programs are root's")
	}
	program := filepath.Join(t.TempDir(), "containerd-shim")
	shell, err := os.ReadFile("/bin/sh")
	if err == nil {
		err = os.WriteFile(program, shell, 0o755)
	}
	if err != nil {
		t.Skip(err)
	}
	shim := runs(t, program, 0, "", "")
	stat, err := procfs.Host.Process(shim.pid).Stat()
	if err != nil {
		t.Fatal(err)
	}
	const ended = 1 << 30 // an id that no process has
	was := accounting.Process{PID: shim.pid, Start: stat.StartTicks, Command: stat.Comm}
	now := was
	now.Reaped = time.Hour + time.Second
	before := accounting.Snapshot{Processes: map[int]accounting.Process{
		shim.pid: was, ended: {PID: ended, Parent: shim.pid, Own: time.Hour},
	}}
	var pod []*Facts
	for _, name := range []string{"b", "a", "c"} {
		pod = append(pod, &Facts{Container: container.Container{Name: name, PID: shim.child, Engine: container.Kubernetes}})
	}
	engineWork(pod, nil, before, accounting.Snapshot{Processes: map[int]accounting.Process{shim.pid: now}})
	if want := (EngineWork{Shim: time.Second, Started: time.Second}); pod[1].Engine != want {
		t.Errorf("a: %+v, want %+v", pod[1].Engine, want)
	}
	if pod[0].Engine != (EngineWork{}) || pod[2].Engine != (EngineWork{}) {
		t.Errorf("the others: %+v, %+v", pod[0].Engine, pod[2].Engine)
	}
}
