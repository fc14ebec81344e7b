package diagnose

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/container"
	"tare/kernel/cgroup"
	"tare/kernel/clock"
	"tare/probe"
)

const programVariable = "TARE_TEST_DIAGNOSE"

// TestMain runs the tests, or is one of the programs that they watch: "WORK PAUSE" works for
// so long on a CPU, prints how long that took, and pauses; "compute" never pauses; "hold MIB"
// holds memory that is the same in all that hold as much.
func TestMain(m *testing.M) {
	program := os.Getenv(programVariable)
	if program == "" {
		os.Exit(m.Run())
	}
	if program == "compute" {
		for n := uint64(1); n != 0; n++ {
		}
	}
	if inContainer := programs[program]; inContainer != nil {
		inContainer()
	}
	if size, ok := strings.CutPrefix(program, "hold "); ok {
		hold(size)
	}
	work, pause, _ := strings.Cut(program, " ")
	need, _ := time.ParseDuration(work)
	rest, _ := time.ParseDuration(pause)
	for {
		began, used := time.Now(), clock.Thread()
		for clock.Thread()-used < need {
			for range 20_000 { // so that it makes few system calls
			}
		}
		fmt.Println(time.Since(began).Nanoseconds())
		time.Sleep(rest)
	}
}

// unbroken is the environment in which work stays on its thread, and the thread does not block in the middle of it.
var unbroken = []string{"GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1"}

// planted is a program in a control group of its own.
type planted struct {
	name, program string
	limits        cgroup.Limits

	group cgroup.Group
	mu    sync.Mutex
	took  []time.Duration // of each piece of work, by the program's own clock
}

// plant starts programs in groups of the test's own.
func plant(t testing.TB, all ...*planted) []container.Container {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making control groups requires root")
	}
	host, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	var layout cgroup.Layout
	for _, h := range host.Hierarchies {
		if h.Has("cpu") || h.Has("cpuacct") || h.Has("cpuset") || h.Has("memory") {
			layout.Hierarchies = append(layout.Hierarchies, h)
		}
	}
	top := layout.At(fmt.Sprintf("tare-diagnose-%d", os.Getpid()))
	t.Cleanup(func() {
		if err := errors.Join(top.Kill(context.Background()), top.Remove(context.Background())); err != nil {
			t.Error(err)
		}
	})
	var names []string
	for _, p := range all {
		p.group = top.Child(p.name)
		if err := errors.Join(p.group.Create("cpu", "cpuacct", "cpuset", "memory"), p.group.Apply(p.limits)); err != nil {
			t.Skip(err)
		}
		p.start(t)
		names = append(names, p.group.String())
	}
	// They go before what else this host may be doing, and leave the test itself a part of its CPU.
	if err := top.Apply(cgroup.Limits{Shares: 4096}); err != nil {
		t.Skip(err)
	}
	finder := container.Open(container.Options{Docker: []string{}, Containerd: []string{}})
	found, err := finder.FindEach(t.Context(), names)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range all {
		found[i].Name = p.name
	}
	return found
}

func (p *planted) start(t testing.TB) {
	t.Helper()
	const join = `for f; do echo $$ > "$f" || exit 1; done; exec "$0"`
	cmd := exec.Command("sh", append([]string{"-c", join, os.Args[0]}, p.group.ProcessFiles()...)...)
	cmd.Env = slices.Concat(os.Environ(), unbroken, []string{programVariable + "=" + p.program})
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for joined := time.Now(); ; time.Sleep(ms) {
		if pids, err := p.group.Processes(); err == nil && len(pids) > 0 {
			break
		}
		if time.Since(joined) > time.Minute {
			t.Fatalf("%s did not come into its group", p.name)
		}
	}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if nanos, err := strconv.ParseInt(lines.Text(), 10, 64); err == nil {
				p.mu.Lock()
				p.took = append(p.took, time.Duration(nanos))
				p.mu.Unlock()
			}
		}
	}()
}

// lost is the time lost in each second: by how much longer than its work each piece took, over
// the time that it and its pause took.
func (p *planted) lost(work, pause time.Duration) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	var sum, whole time.Duration
	for _, took := range p.took {
		sum += took - work
		whole += took + pause
	}
	return rate(sum, whole)
}

// Four programs whose truth is known by their own clocks: the time that they lose in each
// second is what was found, within a quarter.
func TestPlantedHost(t *testing.T) {
	const work, span = 30 * ms, 8 * time.Second
	pinned := func(shares int) cgroup.Limits { return cgroup.Limits{CPUs: "0", Shares: shares} }
	held := &planted{name: "held", program: "30ms 500ms", limits: cgroup.Limits{Bandwidth: cgroup.Bandwidth{Quota: 13 * ms, Period: 100 * ms}}}
	enough := &planted{name: "enough", program: "30ms 500ms", limits: cgroup.Limits{Bandwidth: cgroup.Bandwidth{Quota: 40 * ms, Period: 100 * ms}}}
	victim := &planted{name: "victim", program: "30ms 50ms", limits: pinned(1024)}
	noisy := &planted{name: "noisy", program: "compute", limits: pinned(1024)}
	all := []*planted{held, enough, victim, noisy}
	found, err := Run(t.Context(), plant(t, all...), true, span)
	var missing *probe.Missing
	if errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	if found.Span > 2*span {
		t.Skipf("watching for %v took %v: the host is too busy", span, found.Span)
	}
	cost := map[string]float64{}
	kinds := map[string][]Kind{}
	for _, f := range found.Findings {
		t.Logf("%s, %s: %s (%.3f s/s, %v each, %.3g a second)", f.ID, f.Level, f.Says, f.Cost.Rate, f.Cost.Each, f.Cost.Events)
		if f.Within == "" {
			cost[f.Container] += f.Cost.Rate
		}
		if f.Level != Harmless {
			kinds[f.Container] = append(kinds[f.Container], f.Kind)
		}
	}
	for p, pause := range map[*planted]time.Duration{held: 500 * ms, victim: 50 * ms} {
		truth := p.lost(work, pause)
		t.Logf("%s: %.3f s/s by its own clock", p.name, truth)
		if got := cost[p.name]; got < truth*3/4 || got > truth*5/4 {
			t.Errorf("%s: %.3f s/s were found, and it lost %.3f", p.name, got, truth)
		}
	}
	if got := kinds["held"]; len(got) == 0 || got[0] != Throttled {
		t.Errorf("held: %v, want throttled first", got)
	}
	if got := kinds["victim"]; len(got) == 0 || got[0] != Neighbour {
		t.Errorf("victim: %v, want its neighbour first", got)
	}
	if slices.Contains(kinds["enough"], Throttled) {
		t.Error("enough is said to be throttled")
	}
	if slices.Contains(kinds["noisy"], Neighbour) {
		t.Error("noisy, which computes and has its share, is said to suffer from a neighbour")
	}
}
