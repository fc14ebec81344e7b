package sched

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/kernel/procfs"
	"tare/probe"
)

// patience bounds what tests wait for; nothing is judged by it.
const patience = 30 * time.Second

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("tracing needs root")
	}
}

func startTracer(t testing.TB) *Tracer {
	t.Helper()
	needRoot(t)
	tracer, err := Start()
	if missing := new(probe.Missing); errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tracer.Stop(); err != nil {
			t.Error(err)
		}
	})
	return tracer
}

func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// busybox is a program that needs no library.
func busybox(t testing.TB) string {
	t.Helper()
	for _, file := range []string{"/bin/busybox", "/usr/bin/busybox"} {
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	t.Skip("no busybox: apt-get install busybox-static")
	return ""
}

func TestExecIsSeenWithItsArguments(t *testing.T) {
	tracer := startTracer(t)
	args := []string{"/bin/true", "", "two words", strings.Repeat("x", 300)}
	before := Now()
	cmd := exec.Command(args[0], args[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f := tracer.ByPID(cmd.Process.Pid, before, args)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	after := Now()
	marks, err := f.Application(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	if !(before < marks.Init && marks.Init < marks.Application && marks.Application < after) {
		t.Errorf("forked at %v and executed at %v, want both in that order between %v and %v", marks.Init, marks.Application, before, after)
	}
	seen, ok := tracer.Processes().At(marks.PID, marks.Application)
	if !ok || !slices.Equal(seen.Args, args) || seen.Exe != args[0] || seen.Parent != os.Getpid() || !seen.Contained || seen.Comm != "true" {
		t.Errorf("the process is known as %+v", seen)
	}
	was, ok := tracer.Processes().At(marks.PID, marks.Init)
	if !ok || was.Exe == args[0] || was.Contained {
		t.Errorf("before its exec it is known as %+v, want what forked it", was)
	}
	if lost, err := tracer.Lost(); lost != 0 || err != nil {
		t.Errorf("%d events lost, %v", lost, err)
	}
}

// Two shells start programs as fast as they can: every one is seen.
func TestNoneIsMissed(t *testing.T) {
	tracer := startTracer(t)
	const each = 300
	var shells []*exec.Cmd
	for range 2 {
		// Not the shell's own true.
		shell := exec.Command("sh", "-c", fmt.Sprintf("n=0; while [ $n -lt %d ]; do /bin/true $n; n=$((n+1)); done", each))
		if err := shell.Start(); err != nil {
			t.Fatal(err)
		}
		shells = append(shells, shell)
	}
	for _, shell := range shells {
		if err := shell.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if err := tracer.Stop(); err != nil {
		t.Fatal(err)
	}
	if lost, err := tracer.Lost(); lost != 0 || err != nil {
		t.Errorf("%d events lost, %v", lost, err)
	}
	for _, shell := range shells {
		seen := map[string]int{}
		for _, l := range tracer.processes.lives {
			for _, s := range l.states {
				if s.by == Exec && s.process.Parent == shell.Process.Pid {
					seen[strings.Join(s.process.Args, " ")]++
				}
			}
		}
		for n := range each {
			if command := fmt.Sprint("/bin/true ", n); seen[command] != 1 {
				t.Errorf("%q was seen %d times", command, seen[command])
			}
		}
	}
}

func TestLongArgumentsAreCut(t *testing.T) {
	tracer := startTracer(t)
	args := []string{"/bin/true", strings.Repeat("x", 2*argsSize)}
	before := Now()
	cmd := exec.Command(args[0], args[1:]...)
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	marks, err := tracer.ByPID(cmd.Process.Pid, before, args).Application(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	seen, _ := tracer.Processes().At(marks.PID, marks.Application)
	if len(seen.Args) != 2 || !strings.HasPrefix(args[1], seen.Args[1]) || len(seen.Args[1]) < argsSize/2 {
		t.Errorf("the arguments are known as %q", seen.Args)
	}
}

func TestScriptIsItsOwnProgram(t *testing.T) {
	tracer := startTracer(t)
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh -e\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	before := Now()
	cmd := exec.Command(script, "a", "b")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := tracer.ByPID(cmd.Process.Pid, before, []string{script, "a", "b"}).Application(patient(t)); err != nil {
		t.Error(err)
	}
}

func TestProcessesOfBeforeAreKnown(t *testing.T) {
	tracer := startTracer(t)
	self, ok := tracer.Processes().At(os.Getpid(), Now())
	if !ok || !slices.Equal(self.Args, os.Args) || self.KernelThread {
		t.Errorf("this process is known as %+v", self)
	}
	threads, ok := tracer.Processes().At(kthreadd, Now())
	if _, err := os.Stat("/proc/2"); err == nil && (!ok || !threads.KernelThread) {
		t.Errorf("kthreadd is known as %+v", threads)
	}
}

func TestStopEndsWaiting(t *testing.T) {
	tracer := startTracer(t)
	f := tracer.Follow("nobody", []string{"/nothing"})
	ended := make(chan error, 1)
	go func() {
		_, err := f.Application(patient(t))
		ended <- err
	}()
	if err := tracer.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, errStopped) {
		t.Errorf("waiting ended with %v", err)
	}
	if _, err := tracer.Follow("nobody", nil).Application(patient(t)); !errors.Is(err, errStopped) {
		t.Errorf("following a stopped tracer ended with %v", err)
	}
	if err := tracer.Stop(); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

// bundle lays out an OCI bundle in which busybox runs args.
func bundle(t testing.TB, runtime string, args []string) string {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "rootfs")
	for _, d := range []string{"bin", "proc", "dev", "sys", "tmp"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.ReadFile(busybox(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "bin/busybox"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(runtime, "spec")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s spec: %v\n%s", runtime, err, out)
	}
	file := filepath.Join(dir, "config.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var spec map[string]any
	if err := json.Unmarshal(text, &spec); err != nil {
		t.Fatal(err)
	}
	process := spec["process"].(map[string]any)
	process["args"], process["terminal"] = args, false
	if text, err = json.Marshal(spec); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// starts are the ways by which a runtime starts a container.
var starts = []struct {
	name     string
	commands func(bundle, id string) [][]string
	released bool
}{
	{"create and start", func(bundle, id string) [][]string {
		return [][]string{{"create", "--bundle", bundle, id}, {"start", id}}
	}, true},
	{"run detached", func(bundle, id string) [][]string { return [][]string{{"run", "-d", "--bundle", bundle, id}} }, false},
}

// sleeper is a program in a container that runs until it is killed.
var sleeper = []string{"/bin/busybox", "sleep", "1000"}

// startOCI starts a container by a runtime, and removes it when the test ends.
func startOCI(t testing.TB, runtime, id string, commands [][]string) {
	t.Helper()
	t.Cleanup(func() {
		if out, err := command(runtime, "delete", "--force", id).CombinedOutput(); err != nil {
			t.Errorf("%s delete: %v\n%s", runtime, err, out)
		}
	})
	for _, args := range commands {
		cmd := command(runtime, args...)
		// A pipe would stay open for as long as the container runs.
		output, err := os.CreateTemp(t.TempDir(), "output")
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdout, cmd.Stderr = output, output
		if err := cmd.Run(); err != nil {
			text, _ := os.ReadFile(output.Name())
			t.Skipf("%s %s does not work on this host: %v: %s", runtime, args[0], err, text)
		}
	}
}

// command runs a runtime where the unified cgroup hierarchy of a hybrid host is
// out of sight, since crun refuses to work beside it.
func command(runtime string, args ...string) *exec.Cmd {
	const hidden = `mountpoint -q /sys/fs/cgroup/unified && umount /sys/fs/cgroup/unified; exec "$0" "$@"`
	return exec.Command("unshare", append([]string{"--mount", "sh", "-c", hidden, runtime}, args...)...)
}

func lookRuntime(t testing.TB, runtime string) string {
	t.Helper()
	needRoot(t)
	file, err := exec.LookPath(runtime)
	if err != nil {
		t.Skipf("no %s: apt-get install %s", runtime, runtime)
	}
	return file
}

func TestRuntimeIsFollowed(t *testing.T) {
	for _, runtime := range []string{"runc", "crun"} {
		for _, s := range starts {
			t.Run(runtime+" "+s.name, func(t *testing.T) {
				file := lookRuntime(t, runtime)
				dir := bundle(t, file, sleeper)
				tracer := startTracer(t)
				id := fmt.Sprintf("tare-sched-%d", Now())
				before := Now()
				f := tracer.Follow(id, sleeper)
				startOCI(t, file, id, s.commands(dir, id))
				marks, err := f.Application(patient(t))
				if err != nil {
					t.Fatalf("%v; seen: %+v", err, marks)
				}
				if !(before < marks.Runtime && marks.Runtime < marks.Init && marks.Init < marks.Application && marks.Application < Now()) || marks.Shim != 0 {
					t.Errorf("marks %+v, from %v", marks, before)
				}
				if s.released != (marks.Release != 0) || marks.Release > marks.Application {
					t.Errorf("released at %v, executed at %v", marks.Release, marks.Application)
				}
				checkApplication(t, tracer, marks)
			})
		}
	}
}

// checkApplication compares the process that was found with /proc's, and what
// it was before with what a runtime is.
func checkApplication(t *testing.T, tracer *Tracer, marks Marks) {
	t.Helper()
	args, err := procfs.Host.Process(marks.PID).Args()
	if err != nil || !slices.Equal(args, sleeper) {
		t.Errorf("process %d runs %q, %v", marks.PID, args, err)
	}
	is, _ := tracer.Processes().At(marks.PID, Now())
	if got := probe.ComponentOf(is, os.Getpid()); got != probe.Application {
		t.Errorf("the application %+v is of component %q", is, got)
	}
	was, _ := tracer.Processes().At(marks.PID, marks.Application-1)
	if got := probe.ComponentOf(was, os.Getpid()); got != probe.Runtime {
		t.Errorf("init %+v is of component %q", was, got)
	}
	if lost, err := tracer.Lost(); lost != 0 || err != nil {
		t.Errorf("%d events lost, %v", lost, err)
	}
}

// docker runs the engine's client and gives its output.
func docker(t testing.TB, stdin []byte, args ...string) string {
	t.Helper()
	cmd := exec.Command("docker", args...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("docker %s: %v: %s", args[0], err, exit.Stderr)
		}
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// createDocker makes a container at rest that runs args, and removes it with its
// image when the test ends.
func createDocker(t testing.TB, args []string) (id string) {
	t.Helper()
	needRoot(t)
	if out, err := exec.Command("docker", "version").CombinedOutput(); err != nil {
		t.Skipf("no engine answers: %v: %s", err, out)
	}
	program, err := os.ReadFile(busybox(t))
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: "bin/busybox", Mode: 0o755, Size: int64(len(program))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(program); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	image := fmt.Sprintf("tare-sched-test:%d", Now())
	docker(t, archive.Bytes(), "import", "-", image)
	t.Cleanup(func() { docker(t, nil, "rmi", image) })
	id = docker(t, nil, append([]string{"create", image}, args...)...)
	t.Cleanup(func() { docker(t, nil, "rm", "--force", id) })
	return id
}

func TestDockerIsFollowed(t *testing.T) {
	id := createDocker(t, sleeper)
	tracer := startTracer(t)
	f := tracer.Follow(id, sleeper)
	before := Now()
	docker(t, nil, "start", id)
	marks, err := f.Application(patient(t))
	if err != nil {
		t.Fatalf("%v; seen: %+v", err, marks)
	}
	order := []time.Duration{before, marks.Shim, marks.Runtime, marks.Init, marks.Release, marks.Application, Now()}
	if !slices.IsSorted(order) || marks.Shim == 0 {
		t.Errorf("marks %+v, from %v", marks, before)
	}
	checkApplication(t, tracer, marks)
}
