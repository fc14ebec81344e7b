package bursts

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/process"
	"tare/probe"
)

const programVariable = "TARE_TEST_BURSTS"

// TestMain runs the tests, or is one of the programs that they observe: one that
// answers each line, one that computes until it is killed, and one that executes itself
// after each line, by a thread that is not its first.
func TestMain(m *testing.M) {
	switch os.Getenv(programVariable) {
	case "echo":
		in := bufio.NewReader(os.Stdin)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			fmt.Print(line)
		}
	case "exec":
		fmt.Println(process.OnFreshThread(executeAfterALine))
		os.Exit(1)
	case "spin":
		fmt.Println("ready")
		for n := uint64(0); ; n++ {
			if n == 1<<63 {
				fmt.Println(n)
			}
		}
	}
	os.Exit(m.Run())
}

// executeAfterALine answers a line, and executes the program anew. The thread that does so takes the id of
// the first one.
func executeAfterALine() error {
	line := make([]byte, 1)
	if _, err := os.Stdin.Read(line); err != nil {
		return err
	}
	fmt.Print(string(line))
	return process.Execute(os.Args[0], os.Args[:1], os.Environ())
}

// program starts one of the programs on CPU 0, in the group where one is given.
type program struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t testing.TB, name string, group *cgroup.Group) *program {
	t.Helper()
	p := &program{Cmd: exec.Command("taskset", "-c", "0", os.Args[0])}
	p.Env = append(os.Environ(), programVariable+"="+name, "GOMAXPROCS=1")
	if group != nil {
		p.Cmd = exec.Command("sh", append([]string{"-c", `for f; do echo $$ > "$f" || exit 1; done; exec taskset -c 0 "$0"`, os.Args[0]}, group.ProcessFiles()...)...)
		p.Env = append(os.Environ(), programVariable+"="+name, "GOMAXPROCS=1")
	}
	var err error
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.Start(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	if name == "spin" {
		p.line(t)
	} else {
		p.echo(t)
	}
	return p
}

func (p *program) line(t testing.TB) {
	t.Helper()
	if _, err := p.out.ReadString('\n'); err != nil {
		t.Fatalf("the program ended: %v", err)
	}
}

func (p *program) echo(t testing.TB) {
	t.Helper()
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		t.Fatal(err)
	}
	p.line(t)
}

// cpuTime is what the kernel itself accounts for, of all threads.
func (p *program) cpuTime(t testing.TB) time.Duration {
	t.Helper()
	all, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.Process.Pid))
	if err != nil || len(all) == 0 {
		t.Fatalf("no thread of the program (%v)", err)
	}
	var sum time.Duration
	for _, name := range all {
		var nanos int64
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(string(text), &nanos); err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(nanos)
	}
	return sum
}

// voluntary are the switches that the kernel itself counts, of all threads.
func (p *program) voluntary(t testing.TB) uint64 {
	t.Helper()
	all, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p.Process.Pid))
	if err != nil || len(all) == 0 {
		t.Fatalf("no thread of the program (%v)", err)
	}
	var sum uint64
	for _, name := range all {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, ok := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
		var n uint64
		if _, err := fmt.Sscan(rest, &n); err != nil || !ok {
			t.Fatalf("%s does not report the switches: %v", name, err)
		}
		sum += n
	}
	return sum
}

func record(t testing.TB, targets []Target, o Options) *Recording {
	t.Helper()
	r, err := Start(targets, o)
	var missing *probe.Missing
	if errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Stop() })
	return r
}

// group makes a control group of the test's own, in the hierarchies that follow processes.
func group(t testing.TB, name string) cgroup.Group {
	t.Helper()
	layout, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	mine, _, err := layout.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	g := mine.Tracking().Child("tare-bursts").Child(fmt.Sprintf("%s-%d", name, os.Getpid()))
	create(t, g)
	return g
}

// groupOf makes a control group of the test's own in the hierarchy with that controller.
func groupOf(t testing.TB, controller string) cgroup.Group {
	t.Helper()
	layout, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	h, ok := layout.For(controller)
	if !ok {
		t.Skipf("no hierarchy has the %s controller", controller)
	}
	g := cgroup.Layout{Hierarchies: []cgroup.Hierarchy{h}}.At(fmt.Sprintf("tare-bursts-%s-%d", controller, os.Getpid()))
	create(t, g, controller)
	return g
}

// create makes a control group until the test ends.
func create(t testing.TB, g cgroup.Group, controllers ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making cgroups needs root")
	}
	if err := g.Create(controllers...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(g.Kill(context.Background()), g.Remove(context.Background())); err != nil {
			t.Error(err)
		}
	})
}

// What waits in a group that has used up its quota does not wait for a neighbour. That holds too
// for a thread that was queued before the other one used up the quota.
func TestQuotaUsedUpWhileQueued(t *testing.T) {
	limited, others := groupOf(t, "cpu"), group(t, "others")
	limits := cgroup.Limits{Bandwidth: cgroup.Bandwidth{Quota: 5 * time.Millisecond, Period: 100 * time.Millisecond}}
	if err := limited.Apply(limits); err != nil {
		t.Skip(err)
	}
	start(t, "spin", &others)
	start(t, "spin", &limited)
	start(t, "spin", &limited)
	r := record(t, []Target{{Name: "limited", Cgroup: limited.Places[0].Dir()}}, Options{})
	var g *Group
	for waited := time.Duration(0); waited < 2*time.Second; {
		reading, err := r.Read()
		if err != nil {
			t.Fatal(err)
		}
		g = &reading.Groups[0]
		waited = g.Wait.Sum()
	}
	var all, held time.Duration
	for _, b := range g.Behind {
		all += b.Time
		if b.Group == Quota {
			held += b.Time
		}
	}
	if held < all*8/10 {
		t.Errorf("of %v waited, %v are for the quota, which is 5 ms in 100 ms for two threads: %+v", all, held, g.Behind)
	}
}

func TestAnswersAndComputing(t *testing.T) {
	echoes, spins := group(t, "echo"), group(t, "spin")
	server, computing := start(t, "echo", &echoes), start(t, "spin", &spins)
	const requests = 500
	outer, outerSwitches := computing.cpuTime(t), server.voluntary(t)
	r := record(t, []Target{{Name: "server", Cgroup: echoes.Places[0].Dir()}, {Name: "computing", Cgroup: spins.Places[0].Dir()}}, Options{Weigh: true})
	inner, innerSwitches := computing.cpuTime(t), server.voluntary(t)
	// The kernel's own account moves with each tick: many of them are waited for.
	for n := 0; n < requests || computing.cpuTime(t)-inner < 100*time.Millisecond; n++ {
		server.echo(t)
	}
	inner, innerSwitches = computing.cpuTime(t)-inner, server.voluntary(t)-innerSwitches
	reading, err := r.Stop()
	if err != nil {
		t.Fatal(err)
	}
	outer, outerSwitches = computing.cpuTime(t)-outer, server.voluntary(t)-outerSwitches
	s, c := &reading.Groups[0], &reading.Groups[1]
	t.Logf("server: %+v, burst %v, wait p50 %v p99 %v, behind %+v; computing: %+v, unfinished %v, behind %+v; lost %d", s.Counts, s.Burst.Quantile(0.5), s.Wait.Quantile(0.5), s.Wait.Quantile(0.99), s.Behind, c.Counts, c.Unfinished, c.Behind, reading.Lost)
	if s.Name != "server" || s.Voluntary < innerSwitches || s.Voluntary > outerSwitches {
		t.Errorf("the server left its CPU %d times of its own accord; the kernel counts %d to %d", s.Voluntary, innerSwitches, outerSwitches)
	}
	const threads = 10 // more than it has: each may be blocked at either end
	if s.Wakeups+threads < s.Voluntary || s.Wakeups > s.Voluntary+threads || s.Bursts > s.Voluntary || s.Bursts+threads < s.Voluntary {
		t.Errorf("the server was woken %d times and had %d bursts, where it blocked %d times", s.Wakeups, s.Bursts, s.Voluntary)
	}
	if s.Burst.Count() != s.Bursts || s.Wait.Count() < s.Wakeups || s.Blocked.Count() > s.Wakeups {
		t.Errorf("%d bursts, %d waits and %d blockings are in the histograms, of %d bursts and %d wakings", s.Burst.Count(), s.Wait.Count(), s.Blocked.Count(), s.Bursts, s.Wakeups)
	}
	if c.CPUTime < inner*8/10 || c.CPUTime > outer*12/10 {
		t.Errorf("the computing program had %v of CPU time; the kernel accounts for %v to %v", c.CPUTime, inner, outer)
	}
	// How long it computes in one go is also its language's runtime's doing, which
	// moves the computation between threads.
	if longest := c.AllBursts().Quantile(1); longest < 100*s.Burst.Quantile(0.5) {
		t.Errorf("the computing program's longest burst is %v of %v, a server's is %v", longest, c.CPUTime, s.Burst.Quantile(0.5))
	}
	var perCPU Counts
	for _, counts := range s.PerCPU {
		perCPU = perCPU.plus(counts)
	}
	if perCPU != s.Counts {
		t.Errorf("all CPUs together are %+v, want %+v", perCPU, s.Counts)
	}
	if c.PerCPU[0].CPUTime != c.CPUTime {
		t.Errorf("the computing program had %v, of which %v on the CPU that it is bound to", c.CPUTime, c.PerCPU[0].CPUTime)
	}
	if c.Involuntary == 0 {
		t.Error("the computing program was never preempted")
	}
	behind := Behind{}
	for _, b := range s.Behind {
		if b.Group == 1 {
			behind = b
		}
	}
	if behind.Waits == 0 {
		t.Errorf("the server's waits, p99 %v, are behind %+v, and none behind the program that shares its CPU", s.Wait.Quantile(0.99), s.Behind)
	}
	if w := reading.Weight; w.Runs > 0 && (w.Time <= 0 || w.Runs < s.Wakeups+s.Voluntary) {
		t.Errorf("the programs ran %d times for %v, with %d switches and wakings of the server alone", w.Runs, w.Time, s.Wakeups+s.Voluntary)
	} else {
		t.Logf("weight: %+v in %v", w, reading.Span())
	}
	again, err := r.Stop()
	if err != nil || again != reading {
		t.Errorf("stopping again gave another reading (%v)", err)
	}
}

func TestProcessesAndTheirChildren(t *testing.T) {
	server := start(t, "echo", nil)
	shell := exec.Command("sh", "-c", "read line; for i in 1 2 3; do sh -c 'sleep 0.01'; done")
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	r := record(t, []Target{{Name: "server", PIDs: []int{server.Process.Pid}}, {Name: "shell", PIDs: []int{shell.Process.Pid}}}, Options{})
	toHalf := server.voluntary(t)
	for range 100 {
		server.echo(t)
	}
	toHalf = server.voluntary(t) - toHalf
	if _, err := io.WriteString(in, "go\n"); err != nil {
		t.Fatal(err)
	}
	if err := shell.Wait(); err != nil {
		t.Fatal(err)
	}
	half, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	// Whoever has the id of one that ended is not taken for it.
	var pid, target int32
	left := map[int32]int32{}
	for all := r.collection.Maps[objectMapFollowed].Iterate(); all.Next(&pid, &target); {
		left[pid] = target
	}
	if want := map[int32]int32{int32(server.Process.Pid): 0}; !maps.Equal(left, want) {
		t.Errorf("followed are %v, want the server alone, %v", left, want)
	}
	fromHalf := server.voluntary(t)
	for range 50 {
		server.echo(t)
	}
	fromHalf = server.voluntary(t) - fromHalf
	whole, err := r.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if s := half.Groups[0]; s.Voluntary < toHalf {
		t.Errorf("the server blocked %d times; the kernel counts %d", s.Voluntary, toHalf)
	}
	// The shell, three more, and three sleeps, each of which is blocked at least once.
	if s := half.Groups[1]; s.Voluntary < 7 {
		t.Errorf("the shell and its children switched %d times: the children were not followed", s.Voluntary)
	}
	if s := whole.Since(half).Groups[0]; s.Voluntary < fromHalf || s.Voluntary+half.Groups[0].Voluntary != whole.Groups[0].Voluntary {
		t.Errorf("the server blocked %d times since the first reading, %d times until then, and %d times in all; the kernel counts %d since", s.Voluntary, half.Groups[0].Voluntary, whole.Groups[0].Voluntary, fromHalf)
	}
}

// All that a process did until it ended counts, also beside groups in two hierarchies.
func TestLastBurst(t *testing.T) {
	targets := []Target{{Name: "process"}}
	for _, controller := range []string{"cpu", "memory"} {
		g := groupOf(t, controller)
		targets = append(targets, Target{Name: controller, Cgroup: g.Places[0].Dir()})
	}
	shell := exec.Command("sh", "-c", "read line; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	targets[0].PIDs = []int{shell.Process.Pid}
	r := record(t, targets, Options{})
	if _, err := io.WriteString(in, "go\n"); err != nil {
		t.Fatal(err)
	}
	if err := shell.Wait(); err != nil {
		t.Fatal(err)
	}
	reading, err := r.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if g := reading.Groups[0]; g.CPUTime == 0 || g.Burst.Sum() != g.CPUTime {
		t.Errorf("of %v on a CPU, bursts that ended have %v: %+v", g.CPUTime, g.Burst.Sum(), g.Counts)
	}
}

// A thread that executes a program is known by its new id alone, and what it does then is its target's.
func TestThreadThatExecutes(t *testing.T) {
	g := group(t, "exec")
	p := start(t, "exec", &g)
	r := record(t, []Target{{Name: "program", Cgroup: g.Places[0].Dir()}}, Options{})
	for range 10 {
		p.echo(t)
	}
	// The last one is under way still.
	var ended []int32
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		ended = nil
		err := r.threads(func(one *kernelThread) {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", p.Process.Pid, one.TID)); err != nil && one.Target == 0 {
				ended = append(ended, one.TID)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(ended) == 0 {
			break
		}
	}
	if len(ended) > 0 {
		t.Errorf("threads %d are kept, and there are none by these ids any more", ended)
	}
	reading, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	p.echo(t)
	p.echo(t)
	after, err := r.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if d := after.Groups[0].Voluntary - reading.Groups[0].Voluntary; d == 0 || reading.Groups[0].CPUTime == 0 {
		t.Errorf("the program blocked %d times while it answered twice, and had %v before", d, reading.Groups[0].CPUTime)
	}
}

func TestEveryGroup(t *testing.T) {
	g := groupOf(t, "memory")
	server := start(t, "echo", &g)
	r := record(t, nil, Options{Controller: "memory"})
	before := server.voluntary(t)
	for range 100 {
		server.echo(t)
	}
	counted := server.voluntary(t) - before
	reading, err := r.Stop()
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range reading.Groups {
		if got.Cgroup == g.Places[0].Path {
			if got.Voluntary < counted || !strings.HasPrefix(got.Name, "tare-bursts-") {
				t.Errorf("the group %s blocked %d times; the kernel counts %d", got.Name, got.Voluntary, counted)
			}
			return
		}
	}
	t.Errorf("%d groups were distinguished, and %s is none of them", len(reading.Groups), g)
}

// BenchmarkEcho is a round trip to a server on its CPU, alone and recorded: the
// difference is what the probe weighs, for four switches and two wakings.
func BenchmarkEcho(b *testing.B) {
	server := start(b, "echo", nil)
	trips := func(b *testing.B) {
		for b.Loop() {
			server.echo(b)
		}
	}
	b.Run("alone", trips)
	b.Run("recorded", func(b *testing.B) {
		record(b, []Target{{Name: "server", PIDs: []int{server.Process.Pid}}}, Options{})
		trips(b)
	})
	b.Run("every group recorded", func(b *testing.B) {
		record(b, nil, Options{})
		trips(b)
	})
}
