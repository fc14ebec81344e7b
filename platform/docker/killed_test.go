package docker

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"tare/kernel/process"
	"tare/platform"
)

// ownEngine is an engine of the test's own, which it may kill. It lives in
// mount and network namespaces of its own, so that nothing of it can meet the
// host's engine: one started without a bridge takes even the host's away.
type ownEngine struct {
	dir string
	cmd *exec.Cmd
	log *bytes.Buffer
}

func (e *ownEngine) host() string { return "unix://" + filepath.Join(e.dir, "s") }

func newOwnEngine(t *testing.T) *ownEngine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to start an engine of its own")
	}
	for _, program := range []string{"dockerd", "containerd"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s on PATH, to start an engine of its own", program)
		}
	}
	dir, err := os.MkdirTemp("", "tare") // short: a socket's path has 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	e := &ownEngine{dir: dir, log: new(bytes.Buffer)}
	t.Cleanup(func() {
		if e.cmd != nil {
			e.cmd.Process.Signal(syscall.SIGTERM)
			e.cmd.Wait()
		}
		e.end(t, "containerd", "containerd-shim-runc-v2")
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the engine's directory: %v", err)
		}
	})
	e.start(t)
	return e
}

// start starts the engine and waits until it answers.
func (e *ownEngine) start(t *testing.T) {
	t.Helper()
	e.log.Reset()
	e.cmd = exec.Command("dockerd",
		"--data-root", filepath.Join(e.dir, "data"), "--exec-root", filepath.Join(e.dir, "x"), "--pidfile", filepath.Join(e.dir, "pid"),
		"--host", e.host(), "--config-file", filepath.Join(e.dir, "none.json"),
		"--containerd-namespace", "tare-test", "--containerd-plugins-namespace", "tare-test-plugins",
		"--bridge", "none", "--iptables=false", "--ip-forward=false", "--log-level", "error")
	e.cmd.Stdout, e.cmd.Stderr = e.log, e.log
	e.cmd.WaitDelay = time.Second // its containerd holds the streams too
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := os.WriteFile(filepath.Join(e.dir, "none.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	probe := New(Options{Host: e.host(), StateDir: e.dir})
	deadline := time.Now().Add(time.Minute)
	for {
		err := probe.Check(t.Context())
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Skipf("needs an engine of its own, and it does not come up: %v\n%s", err, e.log)
		}
		time.Sleep(20 * time.Millisecond) // an engine has no event to tell that it listens
	}
}

// kill ends the engine as a crash would, its containerd with it. The shims of
// its containers go on.
func (e *ownEngine) kill(t *testing.T) {
	t.Helper()
	if err := e.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	e.cmd.Wait()
	e.cmd = nil
	e.end(t, "containerd")
	// Where nobody reaps orphans, a zombie would pass for a containerd that runs.
	if err := os.Remove(filepath.Join(e.dir, "x", "containerd", "containerd.pid")); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

// arguments splits a /proc/PID/cmdline.
func arguments(line []byte) []string {
	return strings.FieldsFunc(string(line), func(r rune) bool { return r == 0 })
}

// end ends the processes that have the engine's directory in their command
// line, which is nobody else's.
func (e *ownEngine) end(t *testing.T, programs ...string) {
	t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(line), e.dir) || !slices.Contains(programs, filepath.Base(arguments(line)[0])) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		if identity, err := process.Identify(pid); err == nil {
			if err := identity.Kill(context.Background()); err != nil {
				t.Errorf("end %q: %v", arguments(line), err)
			}
		}
	}
}

// TestEngineKilledInMidRun tells the whole story: the program's end is an
// answer, the program does not go on, and what the engine kept of it is
// removed by the ledger once an engine answers again.
func TestEngineKilledInMidRun(t *testing.T) {
	img := testImage(t)
	engine := newOwnEngine(t)
	ledger := &notebook{}
	p := New(Options{Host: engine.host(), StateDir: engine.dir, Ledger: ledger})
	if err := p.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	inst, err := p.Launch(t.Context(), named(platform.Spec{
		Image: img, Stdout: &stdout, Data: []string{"/data"}, Setting: platform.Setting{Storage: platform.StorageVolume},
		Args: []string{"sleep", "1000"},
	}))
	if err != nil {
		t.Fatal(err)
	}
	pids, err := inst.Processes()
	if err != nil {
		t.Fatal(err)
	}
	program, err := process.Identify(pids[0])
	if err != nil {
		t.Fatal(err)
	}
	// And one that was started, and of which nobody has asked yet which it is.
	unknown, err := p.Create(t.Context(), named(platform.Spec{Image: img, Args: []string{"sleep", "1000"}}))
	if err != nil {
		t.Fatal(err)
	}
	if err := unknown.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	answer, err := p.client.ContainerInspect(t.Context(), unknown.ID(), client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := process.Identify(answer.Container.State.Pid)
	if err != nil {
		t.Fatal(err)
	}

	engine.kill(t)
	if _, err := inst.Wait(t.Context()); !errors.Is(err, platform.ErrGone) {
		t.Errorf("Wait: %v, want ErrGone", err)
	}
	if err := inst.Stop(t.Context()); !errors.Is(err, platform.ErrGone) || !strings.Contains(err.Error(), "tare clean") {
		t.Errorf("Stop: %v, want ErrGone and what cleans up", err)
	}
	if err := unknown.Stop(t.Context()); !errors.Is(err, platform.ErrGone) || !strings.Contains(err.Error(), "tare clean") {
		t.Errorf("Stop of what was not taken hold of: %v, want ErrGone and what cleans up", err)
	}
	for _, id := range []process.Identity{program, stranger} {
		if handle, err := id.Open(); err == nil {
			if err := handle.Await(t.Context()); err != nil {
				t.Errorf("process %d goes on: %v", id.PID, err)
			}
			handle.Close()
		}
	}
	if err := p.Release(t.Context()); !errors.Is(err, platform.ErrGone) {
		t.Errorf("Release: %v, want ErrGone", err)
	}
	left := ledger.open()
	if len(left) != 4 {
		t.Errorf("ledger %v, want image, volume and two containers", left)
	}

	engine.start(t)
	next := New(Options{Host: engine.host(), StateDir: engine.dir})
	for n := len(left) - 1; n >= 0; n-- {
		if err := next.Remove(t.Context(), left[n]); err != nil {
			t.Errorf("Remove %s %s: %v", left[n].Kind, left[n].ID, err)
		}
	}
	containers, err := next.client.ContainerList(t.Context(), client.ContainerListOptions{All: true})
	if err != nil || len(containers.Items) > 0 {
		t.Errorf("containers left: %v %v", containers.Items, err)
	}
	volumes, err := next.client.VolumeList(t.Context(), client.VolumeListOptions{})
	if err != nil || len(volumes.Items) > 0 {
		t.Errorf("volumes left: %v %v", volumes.Items, err)
	}
	if present, err := next.holds(t.Context(), img.Reference); err != nil || present {
		t.Errorf("image left: %v %v", present, err)
	}
}
