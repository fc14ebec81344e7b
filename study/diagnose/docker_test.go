package diagnose

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/container"
	"tare/kernel/cgroup"
	"tare/probe"
)

// engine is Docker's, with an image of the test's own program and a shell.
type engine struct {
	image  string
	parent string // the control group that its containers are in
	names  []string
}

// dockerd finds a Docker engine, and gives it an image that holds this program.
func dockerd(t *testing.T) *engine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making control groups requires root")
	}
	driver, err := exec.Command("docker", "info", "--format", "{{.CgroupDriver}}").Output()
	if err != nil {
		t.Skip("no Docker engine answers: ", err)
	}
	if got := strings.TrimSpace(string(driver)); got != "cgroupfs" {
		t.Skipf("the containers' parent group requires the driver cgroupfs, not %s", got)
	}
	e := &engine{image: fmt.Sprintf("tare.local/diagnose:%d", os.Getpid())}
	shell, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("needs a static busybox: apt-get install busybox-static")
	}
	var layer strings.Builder
	w := tar.NewWriter(&layer)
	for name, path := range map[string]string{"program": os.Args[0], "bin/sh": shell} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(b))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	e.docker(t, strings.NewReader(layer.String()), "import", "-", e.image)
	t.Cleanup(func() { e.docker(t, nil, "rmi", "-f", e.image) })

	layout, err := cgroup.Host()
	if err != nil {
		t.Fatal(err)
	}
	top := layout.At(fmt.Sprintf("tare-diagnose-docker-%d", os.Getpid()))
	if err := errors.Join(top.Create("cpu", "cpuset", "memory"), top.Apply(cgroup.Limits{Shares: 4096})); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := top.Remove(t.Context()); err != nil {
			t.Log(err)
		}
	})
	e.parent = "/" + strings.TrimPrefix(top.String(), "/")
	t.Cleanup(func() { e.docker(t, nil, append([]string{"rm", "-f"}, e.names...)...) })
	return e
}

func (e *engine) docker(t *testing.T, in io.Reader, args ...string) string {
	t.Helper()
	cmd := exec.Command("docker", args...)
	cmd.Stdin = in
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// start starts a container that runs one of this program's programs.
func (e *engine) start(t *testing.T, name, program string, options ...string) string {
	t.Helper()
	for _, v := range append([]string{programVariable + "=" + program}, unbroken...) {
		options = append(options, "-e", v)
	}
	return e.run(t, name, []string{"/program"}, options...)
}

// run starts a container that runs a command.
func (e *engine) run(t *testing.T, name string, command []string, options ...string) string {
	t.Helper()
	name = fmt.Sprintf("tare-%s-%d", name, os.Getpid())
	e.names = append(e.names, name)
	if !slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(o, "--publish") }) {
		options = append(options, "--network", "none")
	}
	args := slices.Concat([]string{"run", "-d", "--name", name, "--cgroup-parent", e.parent}, options, []string{e.image}, command)
	e.docker(t, nil, args...)
	return name
}

// find describes the containers that were started.
func (e *engine) find(t *testing.T) []container.Container {
	t.Helper()
	found, err := container.Open(container.Options{Containerd: []string{}}).FindEach(t.Context(), e.names)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// watched diagnoses them, or skips where this host cannot.
func watched(t testing.TB, of []container.Container, span time.Duration) *Result {
	t.Helper()
	r, err := Run(t.Context(), of, true, span)
	if missing := new(probe.Missing); errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		t.Logf("%s, %s: %s (%v, %v each, %.3g a second)", f.ID, f.Level, f.Says, f.Cost, f.Cost.Each, f.Cost.Events)
	}
	return r
}

// took are the times that a container's program printed.
func (e *engine) took(t *testing.T, name string) *planted {
	p := &planted{name: name}
	for line := range strings.Lines(e.docker(t, nil, "logs", name)) {
		if n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64); err == nil {
			p.took = append(p.took, time.Duration(n))
		}
	}
	return p
}

// The containers of a well-known example: a request of 30 ms once a second under a quota of 13 ms
// a period, one with enough, a sleeper that is throttled, and a victim beside a noisy one.
func TestThrottledInDocker(t *testing.T) {
	const work, span = 30 * ms, 8 * time.Second
	e := dockerd(t)
	quota := func(micros string) []string { return []string{"--cpu-period", "100000", "--cpu-quota", micros} }
	held := e.start(t, "quota", "30ms 970ms", quota("13000")...)
	enough := e.start(t, "enough", "30ms 970ms", quota("40000")...)
	// Where waking takes more than 4 ms, it waits for the rest of a period. It has one thread, and wakes once
	// in the watch at most: on a busy host that takes some 10 ms, three periods.
	sleeper := e.run(t, "sleeper", []string{"/bin/sh", "-c", "while sleep 8; do :; done"}, quota("4000")...)
	victim := e.start(t, "victim", "30ms 70ms", "--cpuset-cpus", "0")
	noisy := e.start(t, "noisy", "compute", "--cpuset-cpus", "0")
	all := e.find(t)
	// A container's start takes of its quota, too: the watch begins after that, and what came before
	// the threads were watched is not counted.
	for range 300 {
		if len(e.took(t, held).took) >= 4 {
			break
		}
		time.Sleep(100 * ms)
	}
	r := watched(t, all, span)
	if r.Span > 2*span {
		t.Skipf("watching for %v took %v: the host is too busy", span, r.Span)
	}

	cost := map[string]float64{}
	first := map[string]Finding{}
	for _, f := range r.Findings {
		if f.Within == "" {
			cost[f.Container] += f.Cost.Rate
		}
		if _, ok := first[f.Container]; !ok {
			first[f.Container] = f
		}
	}
	for name, pause := range map[string]time.Duration{held: 970 * ms, victim: 70 * ms} {
		during := e.took(t, name)
		var back time.Duration
		for i, took := range slices.Backward(during.took) {
			if back += took + pause; back > r.Facts[0].Watched {
				during.took = during.took[i+1:]
				break
			}
		}
		truth := during.lost(work, pause)
		t.Logf("%s: %.3f s/s by its own clock", name, truth)
		if got := cost[name]; got < truth*3/4 || got > truth*5/4 {
			t.Errorf("%s: %.3f s/s were found, and it lost %.3f", name, got, truth)
		}
	}
	if f := first[held]; f.Kind != Throttled {
		t.Errorf("%s: %+v, want throttled first", held, f)
	}
	for _, to := range first[held].Set {
		if strings.Contains(to.Says, "burst") {
			t.Errorf("a burst of 13 ms does not end it, and %s is proposed", to.Says)
		}
	}
	if f := first[victim]; f.ID != victim+"/noisy-neighbour:"+noisy {
		t.Errorf("%s: %+v, want its neighbour first", victim, f)
	}
	for _, f := range r.Findings {
		if (f.Container == enough || f.Container == sleeper) && f.Level != Harmless && f.Kind == Throttled {
			t.Errorf("%s is %s", f.ID, f.Level)
		}
	}
}

// A check each second costs more than the service, since a runtime starts it.
func TestHealthChecksInDocker(t *testing.T) {
	const count = 5
	e := dockerd(t)
	for i := range count {
		e.start(t, "checked-"+strconv.Itoa(i), "0ms 1h", "--health-cmd", "true", "--health-interval", "1s", "--health-timeout", "5s")
	}
	all := e.find(t)
	for _, name := range e.names {
		for began := time.Now(); strings.TrimSpace(e.docker(t, nil, "inspect", "--format", "{{len .State.Health.Log}}", name)) == "0"; {
			if time.Since(began) > time.Minute {
				t.Skipf("%s was not checked within a minute: the host is too busy", name)
			}
		}
	}
	r := watched(t, all, 5*time.Second)
	for _, name := range e.names {
		i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Container == name && f.Kind == Checks })
		if i < 0 {
			t.Errorf("%s: its check is not among the findings", name)
			continue
		}
		f := r.Findings[i]
		facts := r.Facts[slices.IndexFunc(r.Facts, func(f *Facts) bool { return f.Container.Name == name })]
		if facts.Engine.Shim <= 0 || facts.Engine.Daemon <= 0 {
			t.Errorf("%s: shim %v, daemons %v: want both counted", name, facts.Engine.Shim, facts.Engine.Daemon)
		}
		if !strings.Contains(f.Says, "costs more than the service") || f.Set[0].Command != "docker run --health-interval 30s" {
			t.Errorf("%s: %s; to be set: %+v", name, f.Says, f.Set)
		}
	}
}
