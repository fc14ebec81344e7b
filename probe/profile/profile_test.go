package profile

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/kernel/clock"
	"tare/kernel/process"
	"tare/probe"
	"tare/probe/breakdown"
)

// spin is a program whose time is spent in a function that can be recognised.
const spin = `package main

import "os"

//go:noinline
func spin(n int) (sum int) {
	for i := range n {
		sum += i * sum
	}
	return sum
}

func main() {
	if spin(200_000_000) == 1 {
		os.Exit(1)
	}
}
`

// spinRoot is a root file system with the program, without symbols, at a path
// that the host does not have.
func spinRoot(t *testing.T) (root, program string) {
	t.Helper()
	root = t.TempDir()
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte(spin), 0o644); err != nil {
		t.Fatal(err)
	}
	program = "/only-in-the-image/spin"
	if err := os.Mkdir(filepath.Join(root, filepath.Dir(program)), 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(root, program), source)
	build.Env = append(os.Environ(), "GO111MODULE=off", "CGO_ENABLED=0")
	build.Dir = t.TempDir()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return root, program
}

// TestAProgramOfAnotherRootThatHasEnded is the main case: at the end nothing of
// the process is left, and its files are only to be found in the image.
func TestAProgramOfAnotherRootThatHasEnded(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: to change the root directory")
	}
	root, program := spinRoot(t)
	r := startOrSkip(t, Options{
		Roots: []string{root},
		Processes: func(pid int, _ time.Duration) (probe.Process, bool) {
			return probe.Process{PID: pid, Contained: true}, true
		},
	})
	run := exec.Command(program)
	run.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	run.Dir = "/"
	if out, err := run.CombinedOutput(); err != nil {
		r.Discard()
		t.Fatalf("%v\n%s", err, out)
	}
	recording, err := r.Stop()
	if err != nil {
		t.Fatal(err)
	}
	var user, spinning int
	for _, s := range recording.Samples {
		if s.PID != run.Process.Pid || s.Process.Exe != program {
			continue
		}
		if got := probe.ComponentOf(*s.Process, os.Getpid()); got != probe.Application {
			t.Fatalf("%+v is taken for %s", s.Process, got)
		}
		if s.Time < recording.Begin || s.Time > recording.End {
			t.Errorf("a sample of %v lies outside of %v to %v", s.Time, recording.Begin, recording.End)
		}
		if len(s.Kernel) == 0 {
			user++
			if slices.Contains(s.User, "main.spin") {
				spinning++
				if !slices.Contains(s.User, "runtime.main") {
					t.Errorf("main.spin is called by %q", s.User[1:])
				}
			}
		}
	}
	if user == 0 || spinning*10 < user*9 {
		t.Errorf("of %d samples in the program's own code %d are in main.spin; %q", user, spinning, recording.Cautions)
	}
}

func TestPprofOpensIt(t *testing.T) {
	r := startOrSkip(t, Options{Hertz: 1000})
	if err := quiet("/bin/sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"); err != nil {
		r.Discard()
		t.Fatal(err)
	}
	recording, err := r.Stop()
	if err != nil {
		t.Fatal(err)
	}
	p, err := recording.Profile()
	if err != nil {
		t.Fatal(err)
	}
	var samples, nanoseconds int64
	for _, s := range p.Sample {
		samples += s.Value[0]
		nanoseconds += s.Value[1]
		if len(s.Label["component"]) != 1 || len(s.Label["group"]) != 1 || len(s.Label["comm"]) != 1 {
			t.Fatalf("a sample's labels are %v", s.Label)
		}
	}
	if want := int64(len(recording.Samples)); samples != want || nanoseconds != want*int64(time.Millisecond) {
		t.Errorf("%d samples of a millisecond are %d of %d ns", want, samples, nanoseconds)
	}
	if d := time.Since(time.Unix(0, p.TimeNanos)); d < recording.Elapsed() || d > time.Hour {
		t.Errorf("it began %v ago", d)
	}
	file := filepath.Join(t.TempDir(), "cpu.pb.gz")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Write(f), f.Close()); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "tool", "pprof", "-top", "-tagfocus=comm=^sh$", file).CombinedOutput()
	if err != nil {
		t.Fatalf("go tool pprof: %v\n%s", err, out)
	}
	if !strings.Contains(string(out), "Type: cpu") || !strings.Contains(string(out), "flat%") {
		t.Errorf("go tool pprof -top says\n%s", out)
	}
}

func TestADoneContextEndsTheRecording(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, err := Start(ctx, Options{Hertz: 10})
	if missing := new(probe.Missing); errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	<-r.done
	if _, err := r.Stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context was done it stops with %v", err)
	}
	if _, err := Start(ctx, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is done it starts with %v", err)
	}
}

func TestTheBoundOfMemoryEndsTheRecording(t *testing.T) {
	r := startOrSkip(t, Options{Hertz: 5000, MostBytes: 1})
	<-r.done // when the first ring is half full
	recording, err := r.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if len(recording.Samples)+recording.Idle == 0 || recording.End >= clock.Monotonic() {
		t.Errorf("%d samples until %v", len(recording.Samples), recording.End)
	}
	if !slices.ContainsFunc(recording.Cautions, func(c string) bool { return strings.HasPrefix(c, "the recording ends after") }) {
		t.Errorf("nothing says that it ended early: %q", recording.Cautions)
	}
}

func TestTooHighAFrequencyIsMissing(t *testing.T) {
	_, err := Start(t.Context(), Options{Hertz: 1e9})
	if missing := new(probe.Missing); !errors.As(err, &missing) || missing.Probe != "profile" || missing.Mend == "" {
		t.Errorf("at 10^9 Hz: %v", err)
	}
}

// TestRealStarts starts containers with all that is here and asks whether what
// each component does has names, and a group.
func TestRealStarts(t *testing.T) {
	root := busyboxRoot(t)
	for _, c := range []struct {
		name  string
		start func(t *testing.T, root string) func() error
		parts map[probe.Component]string // a function that it must have been seen in
	}{
		{"docker", dockerStarts, map[probe.Component]string{probe.Engine: "net/http.(*conn).serve", probe.Containerd: "runtime.goexit*", probe.Shim: "runtime.main", probe.Runtime: "main.main"}},
		{"runc", runtimeStarts("runc"), map[probe.Component]string{probe.Runtime: "main.main"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			recording := recordStarts(t, c.start(t, root), 5, root)
			if recording.Lost > 0 {
				t.Errorf("lost %d", recording.Lost)
			}
			seen := map[probe.Component]map[string]bool{}
			unknown, all := 0, 0
			for _, s := range recording.Samples {
				component := probe.ComponentOf(*s.Process, os.Getpid())
				if seen[component] == nil {
					seen[component] = map[string]bool{}
				}
				for _, name := range s.User {
					seen[component][name] = true
				}
				for _, name := range s.Kernel {
					all++
					if name == unnamedKernel {
						unknown++
					}
				}
			}
			for component, function := range c.parts {
				prefix := strings.TrimSuffix(function, "*")
				found := false
				for name := range seen[component] {
					found = found || name == function || prefix != function && strings.HasPrefix(name, prefix)
				}
				if !found {
					t.Errorf("%s is never seen in %s, but in %d other functions", component, function, len(seen[component]))
				}
			}
			if recording.unnamed() {
				t.Skip("the kernel's functions have no names here")
			}
			if unknown*100 > all {
				t.Errorf("%d of %d kernel functions have no name", unknown, all)
			}
			b := breakdown.Of(recording.Stacks()).Without(probe.Other)
			if share := b.Share(breakdown.Unassigned); share > 0.10 {
				t.Errorf("%.1f %% are unassigned", 100*share)
			}
		})
	}
}

func (r *Recording) unnamed() bool {
	return slices.ContainsFunc(r.Cautions, func(c string) bool { return strings.HasPrefix(c, "functions of the kernel have no names") })
}

// BenchmarkCost says what recording takes of the machine's time
// while every CPU is busy: this process' own, by its CPU time, and what the
// sampled programs pay, by how much more CPU time a fixed work takes. The least
// of several is compared, since what else the host does adds only.
func BenchmarkCost(b *testing.B) {
	work := func() time.Duration {
		used := make(chan time.Duration)
		for range runtime.NumCPU() {
			go func() {
				shell := exec.Command("/bin/sh", "-c", "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done")
				if err := shell.Run(); err != nil {
					b.Error(err)
				}
				used <- shell.ProcessState.UserTime() + shell.ProcessState.SystemTime()
			}()
		}
		least := <-used
		for range runtime.NumCPU() - 1 {
			least = min(least, <-used)
		}
		return least
	}
	with, without := time.Hour, time.Hour
	var own, elapsed time.Duration
	for b.Loop() {
		without = min(without, work())
		r := startOrSkip(b, Options{})
		before, err := process.CPUTime()
		if err != nil {
			b.Fatal(err)
		}
		with = min(with, work())
		after, err := process.CPUTime()
		if err != nil {
			b.Fatal(err)
		}
		recording, err := r.Stop()
		if err != nil {
			b.Fatal(err)
		}
		if recording.Lost > 0 {
			b.Errorf("lost %d", recording.Lost)
		}
		own += after - before
		elapsed += recording.Elapsed()
	}
	b.ReportMetric(100*float64(own)/float64(elapsed)/float64(runtime.NumCPU()), "own-%")
	b.ReportMetric(100*(float64(with)/float64(without)-1), "more-%")
}
