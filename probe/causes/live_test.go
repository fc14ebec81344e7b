package causes

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	hostaccounting "tare/kernel/accounting"
	"tare/kernel/cgroup"
	"tare/kernel/filesystem/fusetest"
	"tare/kernel/host"
	"tare/kernel/procfs"
	"tare/probe"
)

const waitVariable = "TARE_TEST_WAITS"

// TestMain runs the tests, or is a program that waits for its input.
func TestMain(m *testing.M) {
	if os.Getenv(waitVariable) != "" {
		fmt.Println("ready")
		waitsForInput()
		return
	}
	os.Exit(m.Run())
}

//go:noinline
func waitsForInput() {
	var b [1]byte
	for {
		if n, err := os.Stdin.Read(b[:]); n != 1 || err != nil {
			return
		}
		fmt.Println("got one")
	}
}

// loadProgram compiles testdata/load.c, once a run of the tests.
func loadProgram(t testing.TB) string {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler (cc) for the program that is watched")
	}
	path := filepath.Join(t.TempDir(), "load")
	if out, err := exec.Command(compiler, "-O2", "-Wall", "-fno-omit-frame-pointer", "-o", path, "testdata/load.c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// program is one that prints in lines what it does, and ends with its input.
type program struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t testing.TB, args ...string) *program {
	t.Helper()
	p := &program{Cmd: exec.Command(args[0], args[1:]...)}
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
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	if line := p.line(t); line != "ready" {
		t.Fatalf("the program says %q", line)
	}
	return p
}

func (p *program) line(t testing.TB) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the program ended: %v", err)
	}
	return strings.TrimSpace(line)
}

// say gives it the byte that it waits for.
func (p *program) say(t testing.TB) {
	t.Helper()
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		t.Fatal(err)
	}
}

// whole lets it do all that it is to do, watched.
func whole(t testing.TB, o Options, args ...string) Reading {
	t.Helper()
	p := start(t, args...)
	w := watch(t, Target{PIDs: []int{p.Process.Pid}}, o)
	p.say(t)
	for p.line(t) != "done" {
	}
	return stop(t, w)
}

func watch(t testing.TB, target Target, o Options) *Watch {
	t.Helper()
	w, err := Start(target, o)
	var missing *probe.Missing
	if errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = w.Stop() })
	if reason, absent := (&Reading{Absent: w.absent}).Lacks(partSwitches); absent {
		t.Skip(reason)
	}
	return w
}

func stop(t testing.TB, w *Watch) Reading {
	t.Helper()
	r, err := w.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if r.Lost != 0 {
		t.Errorf("%d events were lost", r.Lost)
	}
	return r
}

func needCPUs(t testing.TB, n int) {
	t.Helper()
	if have := host.ReadTopology("/").CPUs(); have < n {
		t.Skipf("needs %d CPUs, and has %d", n, have)
	}
}

// group makes a control group of the test's own.
func group(t testing.TB, name string) cgroup.Group {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making control groups needs root")
	}
	layout, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	if _, ok := layout.For("cpu"); !ok {
		t.Skip("no hierarchy has the cpu controller")
	}
	g := layout.At(fmt.Sprintf("tare-causes-%s-%d", name, os.Getpid()))
	if err := g.Create("cpu"); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(g.Kill(context.Background()), g.Remove(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return g
}

func (d *Distribution) between(low, high time.Duration) (n uint64) {
	for _, s := range d.Steps {
		if s.Low >= low && s.High <= high {
			n += s.Count
		}
	}
	return n
}

func TestNapsAndSpins(t *testing.T) {
	const n, nap, spin = 300, time.Millisecond, 2 * time.Millisecond
	r := whole(t, Options{Stacks: true, Accounting: true, Weigh: true}, loadProgram(t), "naps", strconv.Itoa(n), "1000", "2000")
	t.Logf("bursts p10 %v p50 %v, blocked p10 %v p50 %v, interrupts %+v, accounting %+v, absent %v, weight %v of %v", r.Burst.Quantile(0.1), r.Burst.Quantile(0.5), r.Blocked.Quantile(0.1), r.Blocked.Quantile(0.5), r.Interrupts, r.Accounting, r.Absent, r.Weight, r.CPUTime)
	// A nap is never shorter than asked for, and few are over before the thread has left
	// its CPU; a burst ends when the clock says so, and
	// is shorter by the CPU time that others had meanwhile.
	if got := r.Blocked.between(nap*15/16, time.Hour); got < n*95/100 || r.Blocked.Sum < n*nap*95/100 {
		t.Errorf("%d blockings of about %v or more, %v in all; it slept %d times", got, nap, r.Blocked.Sum, n)
	}
	if got := r.Burst.between(0, 2*spin); r.Burst.Count < n*95/100 || got < n*9/10 {
		t.Errorf("%d bursts, %d below %v; it computed %d times for %v", r.Burst.Count, got, 2*spin, n, spin)
	}
	if r.Run.Count < r.Burst.Count {
		t.Errorf("%d runs make %d bursts", r.Run.Count, r.Burst.Count)
	}
	// What it computed and what it waited is what it took.
	if sum := r.Burst.Sum + r.Wait.Sum; sum < n*spin*9/10 {
		t.Errorf("it computed or waited for %v; %d times %v were asked for", sum, n, spin)
	}
	if _, absent := r.Lacks(partInterrupts); !absent && r.Interrupts.Wakeups < n*9/10 {
		t.Errorf("a timer woke it %d times; %d naps ended", r.Interrupts.Wakeups, n)
	}
	if _, absent := r.Lacks(partStacks); absent {
		t.Skip(r.Absent)
	}
	top := r.Off[0]
	if !slices.ContainsFunc(top.Frames, func(f string) bool { return strings.Contains(f, "nanosleep") }) || !slices.ContainsFunc(top.Frames, func(f string) bool { return f == "clock_nanosleep" || strings.HasPrefix(f, "[libc") }) || top.Program != "load" || top.Count < n*95/100 {
		t.Errorf("it was off its CPU by %+v", top)
	}
	var off time.Duration
	for _, s := range r.Off {
		off += s.Time
	}
	if want := r.Blocked.Sum + r.Wait.Sum; off < want*9/10 || off > want*11/10 {
		t.Errorf("stacks have %v off the CPU; %v blocked and %v waiting", off, r.Blocked.Sum, r.Wait.Sum)
	}
	if r.Accounting.Samples == 0 && r.CPUTime > 100*time.Millisecond {
		t.Errorf("no sample in %v of CPU time", r.CPUTime)
	}
	var again Reading
	text, err := json.Marshal(r)
	if err == nil {
		err = json.Unmarshal(text, &again)
	}
	if err != nil || !reflect.DeepEqual(r, again) {
		t.Errorf("a reading that went over as JSON is another: %v", err)
	}
}

// Go keeps frame pointers, so its stacks are whole.
func TestStacksReachIntoThePrograms(t *testing.T) {
	t.Setenv(waitVariable, "1")
	p := start(t, os.Args[0])
	w := watch(t, Target{PIDs: []int{p.Process.Pid}}, Options{Stacks: true})
	if reason, absent := (&Reading{Absent: w.absent}).Lacks(partStacks); absent {
		t.Skip(reason)
	}
	// Kernels were seen that do not report some switches away: one report of many is enough.
	for range 100 {
		time.Sleep(time.Millisecond) // by then it waits for its input
		p.say(t)
		p.line(t)
	}
	r := stop(t, w)
	for _, s := range r.Off {
		frames := strings.Join(s.Frames, ";")
		if strings.Contains(frames, "tare/probe/causes.waitsForInput;tare/probe/causes.TestMain;main.main") && strings.Contains(frames, "pipe_read") {
			return
		}
	}
	t.Errorf("no stack reaches from the pipe to the function that reads it:\n%+v", r.Off)
}

func TestMovesAreCounted(t *testing.T) {
	needCPUs(t, 2)
	const n = 200
	r := whole(t, Options{}, loadProgram(t), "moves", strconv.Itoa(n))
	if r.Migrations < n || r.Used < 2 {
		t.Errorf("%d migrations over %d CPUs; it was moved %d times", r.Migrations, r.Used, n)
	}
}

func TestInterruptsThatWakeElsewhere(t *testing.T) {
	needCPUs(t, 2)
	const n = 200
	r := whole(t, Options{}, loadProgram(t), "datagrams", strconv.Itoa(n), "0", "1")
	if reason, absent := r.Lacks(partInterrupts); absent {
		t.Skip(reason)
	}
	i := r.Interrupts
	t.Logf("%+v; %d wakings and preemptions, %d waits", i, r.Wakeups+r.Involuntary, r.Wait.Count)
	// A wait for a CPU begins with a waking or a preemption, and ends with an arrival.
	// Kernels were seen that do not report switches away from some threads of others':
	// arrivals in their stead are unreported, and what is counted by them is too.
	unreported := max(r.Wakeups+r.Involuntary, r.Wait.Count) - r.Wait.Count
	if unreported >= n/2 {
		t.Skipf("the kernel does not report %d arrivals on a CPU", unreported)
	}
	// Each datagram is awaited off the CPU, and each finds the receiver bound to the
	// other one. Delivery is a softirq, while the sender has the CPU.
	if i.Wakeups < n || unreported == 0 && i.Soft < n {
		t.Errorf("%d datagrams, %d arrivals unreported: %+v", n, unreported, i)
	}
	if i.Elsewhere+unreported < n || i.Elsewhere > i.Wakeups {
		t.Errorf("bound to another CPU before each of %d wakings, it resumed elsewhere after %d of %d; %d arrivals are unreported", n, i.Elsewhere, i.Wakeups, unreported)
	}
	if r.Wakeups != i.Wakeups+i.Other {
		t.Errorf("%d wakings, of which %d are by interrupts and %d by threads", r.Wakeups, i.Wakeups, i.Other)
	}
}

func TestThrottlingAgreesWithTheKernel(t *testing.T) {
	g := group(t, "quota")
	if err := g.Apply(cgroup.Limits{Bandwidth: cgroup.Bandwidth{Quota: 5 * time.Millisecond, Period: 20 * time.Millisecond}}); err != nil {
		t.Skip(err)
	}
	p := start(t, loadProgram(t), "spin")
	if err := g.Add(p.Process.Pid); err != nil {
		t.Fatal(err)
	}
	before := stolen(t)
	outer, err := g.Use()
	if err != nil {
		t.Fatal(err)
	}
	w := watch(t, Target{Cgroup: g.Places[0].Dir()}, Options{})
	inner, err := g.Use()
	if err != nil {
		t.Fatal(err)
	}
	p.say(t)
	const periods = 20
	now := inner
	for now.Throttled-inner.Throttled < periods {
		if now, err = g.Use(); err != nil {
			t.Fatal(err)
		}
	}
	r := stop(t, w)
	after, err := g.Use()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v; CPU time %v in %v", r.Throttling, r.CPUTime, r.Span)
	if reason, absent := r.Lacks(partThrottling); absent {
		t.Fatal(reason)
	}
	if th := r.Throttling; th.Throttled < now.Throttled-inner.Throttled || th.Throttled > after.Throttled-outer.Throttled || th.Time < now.ThrottledTime-inner.ThrottledTime || th.Time > after.ThrottledTime-outer.ThrottledTime {
		t.Errorf("throttled %+v; the kernel counts between %+v-%+v and %+v-%+v", th, now, inner, after, outer)
	}
	// What the hypervisor takes of a turn the kernel accounts to nobody; it is in the turn all the same.
	others := stolen(t) - before
	if others > 0 {
		others += 20 * time.Millisecond // it is counted by ticks
	}
	if cpu := after.CPU - outer.CPU; r.CPUTime > cpu*11/10+time.Millisecond+others || r.CPUTime < (now.CPU-inner.CPU)*9/10 {
		t.Errorf("%v of CPU time; the kernel accounts for %v, and %v were stolen of all processors", r.CPUTime, cpu, others)
	}
}

// stolen is what the hypervisor gave of this host's processors to others, since boot.
func stolen(t testing.TB) time.Duration {
	t.Helper()
	s, err := hostaccounting.Take("/proc")
	if err != nil {
		t.Fatal(err)
	}
	return s.Steal
}

func voluntary(t testing.TB, pid int) uint64 { return switches(t, pid, "voluntary") }

// switches are those that the kernel itself counts of a process' first thread.
func switches(t testing.TB, pid int, kind string) (n uint64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n"+kind+"_ctxt_switches:")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// wantedRate is how many switches a second are to be counted without a loss.
const wantedRate = 200_000

func TestNothingIsLostAtTheHighestRate(t *testing.T) {
	p := start(t, loadProgram(t), "pingpong", "0", "0", "0")
	w := watch(t, Target{PIDs: []int{p.Process.Pid}}, Options{Weigh: true})
	before := voluntary(t, p.Process.Pid)
	p.say(t)
	began := time.Now()
	// As many as a second of that rate has, however long this host takes.
	// Looked at seldom: looking takes the time of the CPUs that are to switch.
	for voluntary(t, p.Process.Pid)-before < wantedRate/2 && time.Since(began) < 20*time.Second {
		time.Sleep(10 * time.Millisecond)
	}
	p.say(t)
	var trips, nanoseconds uint64
	if _, err := fmt.Sscan(p.line(t), &trips, &nanoseconds); err != nil {
		t.Fatal(err)
	}
	child := childOf(t, p.Process.Pid)
	counted := voluntary(t, p.Process.Pid) - before + voluntary(t, child)
	r := stop(t, w)
	rate := float64(r.Voluntary+r.Involuntary) / time.Duration(nanoseconds).Seconds()
	t.Logf("%d switches, %.0f a second (wanted %d); the kernel counts %d of their own accord; weight %v of %v", r.Voluntary+r.Involuntary, rate, wantedRate, counted, r.Weight, r.CPUTime)
	if difference := float64(r.Voluntary) - float64(counted); difference > float64(counted)/100 || difference < -float64(counted)/100 {
		t.Errorf("%d switches of their own accord; the kernel counts %d", r.Voluntary, counted)
	}
	if rate < wantedRate && !t.Failed() {
		t.Skipf("nothing is lost at %.0f switches a second; this host does not reach %d now, at which it is not known", rate, wantedRate)
	}
}

func childOf(t testing.TB, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	child, bad := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || bad != nil {
		t.Skipf("the kernel does not list a process' children: %v, %q", err, text)
	}
	return child
}

// A process whose root is served by a program that does not answer keeps nobody from recording it.
func TestAServedRoot(t *testing.T) {
	if !fusetest.Apart(t) {
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(self)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/" + fusetest.Name)
	t.Cleanup(func() { _ = cmd.Wait() }) // which the end of the mount lets end
	s := fusetest.Mount(t, info.Size())
	// Another process writes it: the Go runtime's poller would wait for an answer of its own process.
	if out, err := exec.Command("cp", self, s.File()).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd.Env = []string{waitVariable + "=1"}
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: s.Directory}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("this test's program does not start in a root of its own: %v", err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Skipf("this test's program does not run in a root of its own: %v", err)
	}
	s.Silence()
	n := &names{files: map[fileID]*mappedFile{}}
	s.Ends(t, "a program's file", func() { n.hold(cmd.Process.Pid, &procfs.Mapping{Path: "/" + fusetest.Name, Inode: 2}) })
	for _, f := range n.files {
		if f.open != nil {
			t.Errorf("%s is open", f.open.Name())
		}
	}
}

// The file of a process of this host is held.
func TestAFileIsHeld(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n := &names{files: map[fileID]*mappedFile{}}
	defer n.close()
	n.hold(os.Getpid(), &procfs.Mapping{Path: self, Inode: 1})
	for _, f := range n.files {
		if f.open == nil {
			t.Errorf("%s is not open", self)
		}
	}
}
