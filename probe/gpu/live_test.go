package gpu_test

import (
	"bufio"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/probe"
	"tare/probe/gpu"
)

// These tests compile the library, and run programs with it that use a driver and a CUPTI
// of the tests' own (testdata): no GPU is there, and each thing takes a time that is known
// beforehand, by a clock that is the tests' too. What comes out is compared exactly.

// workshop is what the tests compile, once.
type workshop struct {
	library string
	// open is the directory of a driver whose own calls go by what is preloaded.
	dir, clock, cuda, open, cupti, program, linked string
}

var (
	shop     workshop
	shopErr  error
	openShop sync.Once
)

func TestMain(m *testing.M) {
	code := m.Run()
	if shop.dir != "" {
		_ = os.RemoveAll(shop.dir)
	}
	os.Exit(code)
}

func gcc(args ...string) error {
	out, err := exec.Command("gcc", append([]string{"-std=gnu11", "-O1", "-Wall", "-Wextra", "-Wno-unused-function", "-Werror"}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("gcc %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// together does all at once, and gives what went wrong.
func together(all ...func() error) error {
	wrong := make([]error, len(all))
	var done sync.WaitGroup
	for i, do := range all {
		done.Go(func() { wrong[i] = do() })
	}
	done.Wait()
	return errors.Join(wrong...)
}

func equip(t testing.TB) workshop {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs gcc")
	}
	openShop.Do(func() {
		if shop.dir, shopErr = os.MkdirTemp("", "tare-gpu-test-"); shopErr != nil {
			return
		}
		at := func(name string) string { return filepath.Join(shop.dir, name) }
		shop.clock, shop.cuda, shop.cupti = at("libclock.so"), at("libcuda.so.1"), at("libfakecupti.so")
		shop.program, shop.linked, shop.open = at("program"), at("linked"), at("open")
		from := func(name string) string { return filepath.Join("testdata", name+".c") }
		if shopErr = os.Mkdir(shop.open, 0o755); shopErr != nil {
			return
		}
		shopErr = together(
			func() (err error) { shop.library, err = gpu.Build(context.Background(), shop.dir); return err },
			func() error { return gcc("-fPIC", "-shared", "-o", shop.clock, from("virtual_clock")) },
			func() error {
				if err := gcc("-fPIC", "-shared", "-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic", "-o", shop.cuda, from("fake_cuda"), "-ldl"); err != nil {
					return err
				}
				return gcc("-o", shop.linked, from("program"), "-pthread", "-ldl", "-Wl,--no-as-needed", shop.cuda, "-Wl,-rpath,"+shop.dir)
			},
			func() error {
				return gcc("-fPIC", "-shared", "-Wl,-soname,libcuda.so.1", "-o", filepath.Join(shop.open, "libcuda.so.1"), from("fake_cuda"), "-ldl")
			},
			func() error { return gcc("-fPIC", "-shared", "-o", shop.cupti, from("fake_cupti")) },
			func() error { return gcc("-o", shop.program, from("program"), "-pthread", "-ldl") },
		)
	})
	if shopErr != nil {
		t.Fatal(shopErr)
	}
	return shop
}

// run is one run of a program.
type run struct {
	route, scenario, end string
	probe                gpu.Probe
	env                  []string
	without              bool // the library
	real                 bool // the clock
	dies                 bool
}

// outcome is what came of it.
type outcome struct {
	traces []*gpu.Trace
	counts map[string]int // the fake driver's
	stdout string
	stderr string
}

func (r run) do(t testing.TB) outcome {
	t.Helper()
	w := equip(t)
	traces, counts := t.TempDir(), filepath.Join(t.TempDir(), "counts")
	program := w.program
	if r.route == "linked" {
		program = w.linked
	}
	env := []string{"LD_LIBRARY_PATH=" + w.dir, "FAKE_COUNTS=" + counts, "PATH=/usr/bin:/bin"}
	if !r.real {
		env = append(env, "LD_PRELOAD="+w.clock)
	}
	if !r.without {
		p := r.probe
		p.Library, p.Dir = w.library, traces
		var err error
		if env, err = p.Environment(env); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, r.route, r.scenario, r.end)
	cmd.Env = append(env, r.env...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); (err != nil) != r.dies {
		t.Fatalf("%s %s %s: %v\n%s", r.route, r.scenario, r.end, err, stderr.String())
	}
	all, err := gpu.ReadDir(traces, r.probe.Room)
	if err != nil {
		t.Fatal(err)
	}
	return outcome{all, readCounts(t, counts), stdout.String(), stderr.String()}
}

func readCounts(t testing.TB, path string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return counts // it was killed
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, n, _ := strings.Cut(lines.Text(), " ")
		if counts[name], err = strconv.Atoi(n); err != nil {
			t.Fatal(err)
		}
	}
	return counts
}

func one(t testing.TB, o outcome) *gpu.Trace {
	t.Helper()
	if len(o.traces) != 1 {
		t.Fatalf("%d traces, want 1; it said:\n%s", len(o.traces), o.stderr)
	}
	return o.traces[0]
}

// named are the calls of a function.
func named(tr *gpu.Trace, name string) (all []gpu.Call) {
	for _, c := range tr.Calls {
		if c.Name == name {
			all = append(all, c)
		}
	}
	return all
}

const us = time.Microsecond

// The scenario plain, by each way to the driver's functions: every call is there, once,
// with the time that it took.
func TestInterposition(t *testing.T) {
	for _, route := range []string{"linked", "dlsym", "proc", "proc2"} {
		t.Run(route, func(t *testing.T) {
			o := run{route: route, scenario: "plain", probe: gpu.Probe{Method: gpu.Interposition}}.do(t)
			plainHolds(t, one(t, o))
		})
	}
}

// What is handed out under another address than it is exported at is recognised by its version.
func TestInterpositionOfPrivateAddresses(t *testing.T) {
	o := run{route: "proc2", scenario: "plain", probe: gpu.Probe{Method: gpu.Interposition}, env: []string{"FAKE_PRIVATE=1"}}.do(t)
	plainHolds(t, one(t, o))
}

// A driver whose own calls come by what is preloaded does not have them recorded, nor
// anything called in a circle.
func TestInterpositionOfOpenDriver(t *testing.T) {
	w := equip(t)
	for _, route := range []string{"dlsym", "proc2"} {
		o := run{
			route: route, scenario: "plain", probe: gpu.Probe{Method: gpu.Interposition},
			env: []string{"FAKE_PRIVATE=1", "LD_LIBRARY_PATH=" + w.open},
		}.do(t)
		plainHolds(t, one(t, o))
	}
}

func plainHolds(t *testing.T, tr *gpu.Trace) {
	t.Helper()
	if tr.Method != gpu.Interposition || tr.Ended == 0 || tr.Cut || tr.Lost.Any() || len(tr.Complaints) > 0 {
		t.Errorf("method %s, ended %s, cut %t, lost %+v, complaints %q", tr.Method, tr.Ended, tr.Cut, tr.Lost, tr.Complaints)
	}
	if tr.Driver != 12040 || tr.Loading != "lazy" || tr.Compiler == nil || *tr.Compiler {
		t.Errorf("driver %d, loading %q, compiler %v", tr.Driver, tr.Loading, tr.Compiler)
	}
	want := []gpu.Device{
		{Ordinal: 0, Name: "Fake GPU 0", UUID: "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", Major: 8, Minor: 6, Multiprocessors: 108, ComputeMode: 0, Memory: 1 << 30},
		{Ordinal: 1, Name: "Fake GPU 1", UUID: "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f", Major: 8, Minor: 6, Multiprocessors: 108, ComputeMode: 3, Memory: 2 << 30},
	}
	if !slices.Equal(tr.Devices, want) {
		t.Errorf("devices %+v", tr.Devices)
	}
	if !strings.HasSuffix(tr.Program, "program") && !strings.HasSuffix(tr.Program, "linked") || len(tr.Arguments) < 3 || tr.Arguments[2] != "plain" {
		t.Errorf("program %q, arguments %q", tr.Program, tr.Arguments)
	}

	s := gpu.Summarize(tr)
	for name, w := range map[string]struct {
		n, failed int
		sum, max  time.Duration
		bytes     int64
	}{
		"cuInit":              {1, 0, 100 * time.Millisecond, 100 * time.Millisecond, 0},
		"cuCtxCreate":         {1, 0, 50 * time.Millisecond, 50 * time.Millisecond, 0},
		"cuModuleLoadData":    {1, 0, 20 * time.Millisecond, 20 * time.Millisecond, 27},
		"cuModuleGetFunction": {3, 1, 300, 100, 0},
		"cuLinkAddData":       {1, 0, 30 * time.Millisecond, 30 * time.Millisecond, 40},
		"cuMemAlloc":          {2, 0, 2*us + 3072, us + 2048, 3 << 20},
		"cuMemHostAlloc":      {1, 0, 200 * us, 200 * us, 64 << 10},
		"cuMemcpyHtoD":        {3, 0, 30*us + 160<<10, 10*us + 64<<10, 160 << 10},
		"cuMemcpyHtoDAsync":   {1, 0, 3 * us, 3 * us, 50000},
		"cuMemcpy2D":          {1, 0, 10*us + 512, 10*us + 512, 512},
		"cuMemcpy":            {1, 0, 13 * us, 13 * us, 3000},
		"cuLaunchKernel":      {5, 1, 25 * us, 5 * us, 0},
		"cuMemFree":           {2, 0, 4 * us, 2 * us, 0},
	} {
		c, ok := s.Call(name)
		if !ok || c.Time.Count != w.n || c.Failed != w.failed || c.Time.Sum != w.sum || c.Outer != w.sum || c.Time.Max != w.max || c.Bytes != w.bytes {
			t.Errorf("%s: %d, %d failed, %s in all, at most %s, %d bytes; want %+v", name, c.Time.Count, c.Failed, c.Time.Sum, c.Time.Max, c.Bytes, w)
		}
	}

	// In the stream of the copy (50 us, and 3 us of calling) the first kernel lies behind it and
	// the second behind that, so that their events have no gap between them; the third's
	// stream is idle, and its launch of 5 us counts in, as does the last one's.
	if s.Kernels.Launches != 4 || s.Kernels.Timed != 4 || s.Kernels.Time.Sum != 620*us {
		t.Errorf("%d launches, %d timed, %s in all", s.Kernels.Launches, s.Kernels.Timed, s.Kernels.Time.Sum)
	}
	kernels := map[string][2]time.Duration{}
	for _, k := range s.Kernels.ByName {
		kernels[k.Name] = [2]time.Duration{time.Duration(k.Time.Count), k.Time.Sum}
	}
	if kernels["lud"] != [2]time.Duration{2, 300 * us} || kernels["stencil"] != [2]time.Duration{2, 320 * us} {
		t.Errorf("kernels %v", kernels)
	}
	// stencil began 29.488 us before lud, which ended 24.488 us after it.
	if got := s.Kernels.Busy; got != busyOf(tr) || got != 344488 {
		t.Errorf("kernels ran in %s, by hand %s", got, busyOf(tr))
	}
	if k, a := s.Shares(); k <= 0 || k >= 0.01 || math.Abs(k+a-1) > 1e-9 {
		t.Errorf("shares %v and %v", k, a)
	}

	copies := map[string]string{}
	for _, c := range s.Copies {
		copies[fmt.Sprintf("%s, %s, async %t, by %s", c.Direction, c.Memory, c.Async, c.Timing)] = fmt.Sprintf("%d: %d bytes, %s", c.Time.Count, c.Bytes, c.Time.Sum)
	}
	for what, want := range map[string]string{
		"host to device, pageable, async false, by call": fmt.Sprintf("3: %d bytes, %s", 96<<10+512, 30*us+96<<10+512),
		"host to device, pinned, async false, by call":   fmt.Sprintf("1: %d bytes, %s", 64<<10, 10*us+64<<10),
		"host to device, pinned, async true, by events":  fmt.Sprintf("1: %d bytes, %s", 50000, 53*us),
		"device to host, pageable, async false, by call": fmt.Sprintf("2: %d bytes, %s", 4000, 24*us),
		"device to device, device, async false, by call": fmt.Sprintf("1: %d bytes, %s", 2000, 12*us),
	} {
		if copies[what] != want {
			t.Errorf("copies %s: %s, want %s", what, copies[what], want)
		}
	}
	if len(copies) != 5 {
		t.Errorf("copies %v", copies)
	}

	if s.JIT.Known || s.JIT.Loads.Count != 1 || s.JIT.Compiling.Sum != 20*time.Millisecond || s.JIT.Links.Sum != 32*time.Millisecond+200 || s.JIT.Firsts.Count != 2 || !s.JIT.Lazy {
		t.Errorf("JIT %+v", s.JIT)
	}
	if len(tr.Modules) != 1 || tr.Modules[0].Form != gpu.PTX || tr.Modules[0].Arch != 86 || tr.Modules[0].PTX != 1 {
		t.Errorf("modules %+v", tr.Modules)
	}
}

// busyOf is the time in which a kernel ran, by asking each nanosecond's neighbours: the
// slow way.
func busyOf(tr *gpu.Trace) time.Duration {
	var edges []time.Duration
	for _, w := range tr.Work {
		if w.Kind == gpu.Kernel {
			edges = append(edges, w.Start, w.Start+w.Took)
		}
	}
	slices.Sort(edges)
	var sum time.Duration
	for i := 1; i < len(edges); i++ {
		if slices.ContainsFunc(tr.Work, func(w gpu.Work) bool {
			return w.Kind == gpu.Kernel && w.Start <= edges[i-1] && w.Start+w.Took >= edges[i]
		}) {
			sum += edges[i] - edges[i-1]
		}
	}
	return sum
}

// The driver is called as often as without the library, but for what the library itself
// asks.
func TestProgramIsAsItWas(t *testing.T) {
	for _, route := range []string{"linked", "dlsym", "proc2", "threads"} {
		scenario := "plain"
		if route == "threads" {
			scenario = "own"
		}
		without := run{route: route, scenario: scenario, without: true}.do(t)
		with := run{route: route, scenario: scenario, probe: gpu.Probe{Method: gpu.Interposition}}.do(t)
		for name, n := range without.counts {
			// Of these the library has its own.
			if slices.Contains([]string{"cuStreamCreate", "cuGetProcAddress", "cuGetProcAddress_v2", "cuCtxGetCurrent"}, name) {
				if with.counts[name] < n {
					t.Errorf("%s: %s is called %d times, and without the library %d", route, name, with.counts[name], n)
				}
				continue
			}
			if with.counts[name] != n {
				t.Errorf("%s: %s is called %d times, and without the library %d", route, name, with.counts[name], n)
			}
		}
		if with.stderr != without.stderr {
			t.Errorf("%s: it says %q, and without the library %q", route, with.stderr, without.stderr)
		}
	}
	// Without a directory the library does nothing, and asks for nothing.
	w := equip(t)
	idle := run{route: "dlsym", scenario: "plain", without: true, env: []string{"LD_PRELOAD=" + w.library + ":" + w.clock}}.do(t)
	plain := run{route: "dlsym", scenario: "plain", without: true}.do(t)
	for name, n := range idle.counts {
		if plain.counts[name] != n {
			t.Errorf("idle: %s is called %d times, and without the library %d", name, n, plain.counts[name])
		}
	}
	_ = run{route: "dlsym", scenario: "next", probe: gpu.Probe{}}.do(t)
}

// Functions of streams of the thread's own, a library's kernels and launches by a
// configuration.
func TestThreadsOwnStreams(t *testing.T) {
	tr := one(t, run{route: "threads", scenario: "own", probe: gpu.Probe{Method: gpu.Interposition}}.do(t))
	s := gpu.Summarize(tr)
	// The copy ended 0.904 us before the launch was made, and its event had passed by then.
	if len(s.Kernels.ByName) != 1 || s.Kernels.ByName[0].Name != "own" || s.Kernels.Launches != 2 || s.Kernels.Time.Sum != 20904+45*us {
		t.Errorf("kernels %+v", s.Kernels)
	}
	if len(s.Devices) != 1 || s.Devices[0].Device.Ordinal != 1 || s.Devices[0].Kernels != 20904+45*us {
		t.Errorf("devices %+v", s.Devices)
	}
	if len(tr.Modules) != 1 || tr.Modules[0].Compiles == nil || !*tr.Modules[0].Compiles {
		t.Errorf("modules %+v", tr.Modules)
	}
	if got := s.Kernels.Launches; got != 2 || tr.Lost.Any() {
		t.Errorf("%d launches, lost %+v", got, tr.Lost)
	}
}

// What goes into a graph is not timed, and its launches are.
func TestGraphs(t *testing.T) {
	tr := one(t, run{route: "dlsym", scenario: "graphs", probe: gpu.Probe{Method: gpu.Interposition}}.do(t))
	s := gpu.Summarize(tr)
	if s.Kernels.Timed != 0 || tr.Lost.Capture != 2 || s.Graphs.Count != 2 || s.Graphs.Sum != 57*us+50*us {
		t.Errorf("kernels %+v, graphs %+v, lost %+v", s.Kernels, s.Graphs, tr.Lost)
	}
	if got := s.KernelTime(); got != 107*us {
		t.Errorf("kernels took %s", got)
	}
}

// More launches than events: some are not timed, and counted; none is waited for.
func TestMoreLaunchesThanEvents(t *testing.T) {
	for _, c := range []struct {
		name          string
		sample        int
		timed         int
		full, sampled int64
	}{
		{"all", 0, 1024, 476, 0},
		{"every fifth", 5, 300, 0, 1200},
		{"none", -1, 0, 0, 1500},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := run{route: "dlsym", scenario: "many=1500", probe: gpu.Probe{Method: gpu.Interposition, Sample: c.sample}}.do(t)
			tr := one(t, o)
			s := gpu.Summarize(tr)
			if s.Kernels.Launches != 1500 || s.Kernels.Timed != c.timed || tr.Lost.Full != c.full || tr.Lost.Sampled != c.sampled {
				t.Errorf("%d launches, %d timed, lost %+v", s.Kernels.Launches, s.Kernels.Timed, tr.Lost)
			}
			if c.timed > 0 && s.KernelTime() < 1500*time.Second {
				t.Errorf("all are taken to be %s", s.KernelTime())
			}
			if c.sample < 0 && o.counts["cuEventRecord"] != 0 {
				t.Errorf("%d events were recorded", o.counts["cuEventRecord"])
			}
		})
	}
}

// Threads write beside each other, and later ones go on where earlier ones left.
func TestThreads(t *testing.T) {
	tr := one(t, run{route: "dlsym", scenario: "threads", probe: gpu.Probe{Method: gpu.Interposition}}.do(t))
	if n := len(named(tr, "cuMemAlloc")); n != 24*200 || len(named(tr, "cuMemcpyHtoD")) != n || len(named(tr, "cuMemFree")) != n || tr.Lost.Any() {
		t.Errorf("%d allocations, %d copies, %d frees, lost %+v", n, len(named(tr, "cuMemcpyHtoD")), len(named(tr, "cuMemFree")), tr.Lost)
	}
	threads := map[int]int{}
	for _, c := range tr.Calls {
		threads[c.Thread]++
		if !c.Outer {
			t.Fatalf("%+v is said to be within another", c)
		}
	}
	if len(threads) != 25 {
		t.Errorf("%d threads", len(threads))
	}
	s := gpu.Summarize(tr)
	if c, _ := s.Call("cuMemcpyHtoD"); c.Time.P50 != 11*us || c.Time.P99 != 11*us || c.Time.Max != 11*us {
		t.Errorf("copies took %+v", c.Time)
	}
}

// However a process ends, what it did before is there.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		end    string
		dies   bool
		closed bool
	}{
		{"return", false, true},
		{"exit", false, true},
		{"_exit", false, true},
		{"quick_exit", false, true},
		{"abort", true, false},
		{"kill", true, false},
	} {
		t.Run(c.end, func(t *testing.T) {
			tr := one(t, run{route: "dlsym", scenario: "many=100", end: c.end, dies: c.dies, probe: gpu.Probe{Method: gpu.Interposition}}.do(t))
			s := gpu.Summarize(tr)
			if s.Kernels.Launches != 100 || s.Kernels.Timed != 100 || len(named(tr, "cuCtxSynchronize")) != 1 || (tr.Ended != 0) != c.closed || tr.Cut {
				t.Errorf("%d launches, %d timed, ended %s, cut %t", s.Kernels.Launches, s.Kernels.Timed, tr.Ended, tr.Cut)
			}
		})
	}
	// What had not ended by then is counted, and not waited for.
	for _, end := range []string{"exit", "_exit"} {
		t.Run("unfinished, "+end, func(t *testing.T) {
			tr := one(t, run{route: "dlsym", scenario: "loose=5", end: end, probe: gpu.Probe{Method: gpu.Interposition}}.do(t))
			if s := gpu.Summarize(tr); s.Kernels.Launches != 5 || s.Kernels.Timed != 0 || tr.Lost.Unfinished != 5 || tr.Ended == 0 {
				t.Errorf("kernels %+v, lost %+v", s.Kernels, tr.Lost)
			}
		})
	}
	t.Run("_exit with CUPTI", func(t *testing.T) {
		tr := one(t, run{route: "dlsym", scenario: "many=3", end: "_exit", probe: gpu.Probe{CUPTI: equip(t).cupti}}.do(t))
		if tr.Method != gpu.CUPTI || tr.Ended == 0 || len(tr.Complaints) != 1 || !strings.Contains(tr.Complaints[0], "_exit") {
			t.Errorf("method %s, complaints %q", tr.Method, tr.Complaints)
		}
	})
	t.Run("exec", func(t *testing.T) {
		o := run{route: "dlsym", scenario: "many=100", end: "exec", probe: gpu.Probe{Method: gpu.Interposition}}.do(t)
		if len(o.traces) != 2 {
			t.Fatalf("%d traces", len(o.traces))
		}
		var launches []int
		for _, tr := range o.traces {
			launches = append(launches, gpu.Summarize(tr).Kernels.Launches)
		}
		slices.Sort(launches)
		if !slices.Equal(launches, []int{5, 100}) || o.traces[0].PID != o.traces[1].PID {
			t.Errorf("launches %v, processes %d and %d", launches, o.traces[0].PID, o.traces[1].PID)
		}
	})
	t.Run("children", func(t *testing.T) {
		o := run{route: "dlsym", scenario: "forks", probe: gpu.Probe{Method: gpu.Interposition}}.do(t)
		var launches []int
		for _, tr := range o.traces {
			launches = append(launches, gpu.Summarize(tr).Kernels.Launches)
			if tr.Ended == 0 {
				t.Errorf("%s did not end", tr.Title())
			}
		}
		slices.Sort(launches)
		if !slices.Equal(launches, []int{2, 3, 4}) {
			t.Errorf("launches %v", launches)
		}
		for _, tr := range o.traces {
			// The parent goes on after the child of vfork has ended.
			if gpu.Summarize(tr).Kernels.Launches == 2 && len(named(tr, "cuCtxSynchronize")) != 2 {
				t.Errorf("the parent's trace ended with its child: %d", len(named(tr, "cuCtxSynchronize")))
			}
		}
	})
}

// A bounded file: what found no room is counted, by function and with its time.
func TestRoom(t *testing.T) {
	tr := one(t, run{route: "dlsym", scenario: "many=40000", probe: gpu.Probe{Method: gpu.Interposition, Sample: -1, Room: 1}}.do(t))
	s := gpu.Summarize(tr)
	recorded, _ := s.Call("cuLaunchKernel")
	if recorded.Lost.Count == 0 || int64(recorded.Time.Count)+recorded.Lost.Count != 40000 || recorded.Time.Sum+recorded.Lost.Time != 40000*5*us {
		t.Errorf("%d calls in %s, lost %+v", recorded.Time.Count, recorded.Time.Sum, recorded.Lost)
	}
	if tr.Lost.Calls < recorded.Lost.Count || tr.Ended == 0 {
		t.Errorf("lost %+v, ended %s", tr.Lost, tr.Ended)
	}
}

// Where no trace can be made the program runs as ever, and one line says why there is none.
func TestNoPlaceForTraces(t *testing.T) {
	w := equip(t)
	for _, dir := range []string{filepath.Join(t.TempDir(), "absent"), "relative"} {
		o := run{
			route: "dlsym", scenario: "plain", without: true,
			env: []string{"LD_PRELOAD=" + w.library + ":" + w.clock, "TARE_GPU_TRACE=" + dir, "TARE_GPU_METHOD=interpose"},
		}.do(t)
		if strings.Count(o.stderr, "\n") != 1 || !strings.Contains(o.stderr, dir) {
			t.Errorf("it says %q", o.stderr)
		}
	}
}

// A function in a version that is not known is left as it is, and said.
func TestUnknownVersion(t *testing.T) {
	tr := one(t, run{route: "dlsym", scenario: "newer", probe: gpu.Probe{Method: gpu.Interposition}, env: []string{"FAKE_PRIVATE=1"}}.do(t))
	if tr.Lost.Versions != 1 || len(named(tr, "cuMemAlloc")) != 0 || len(tr.Complaints) != 1 || !strings.Contains(tr.Complaints[0], "99000") {
		t.Errorf("lost %+v, complaints %q", tr.Lost, tr.Complaints)
	}
	// By its address it is known all the same.
	tr = one(t, run{route: "dlsym", scenario: "newer", probe: gpu.Probe{Method: gpu.Interposition}}.do(t))
	if tr.Lost.Versions != 0 || len(named(tr, "cuMemAlloc")) != 1 {
		t.Errorf("lost %+v, calls %+v", tr.Lost, tr.Calls)
	}
}

// What a module consists of, from a file: the layout of fat binaries is as others have
// found it.
func TestImages(t *testing.T) {
	entry := func(kind, arch byte, length int) []byte {
		b := make([]byte, 64+length)
		b[0], b[2], b[3], b[4], b[8], b[28] = kind, 1, 1, 64, byte(length), arch
		return b
	}
	fat := func(entries ...[]byte) []byte {
		all := slices.Concat(entries...)
		return append([]byte{0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, byte(len(all)), byte(len(all) >> 8), 0, 0, 0, 0, 0, 0}, all...)
	}
	cubin := func(abi byte, flags uint32) []byte {
		b := make([]byte, 64)
		copy(b, "\x7fELF\x02\x01\x01")
		b[8], b[48], b[49] = abi, byte(flags), byte(flags>>8)
		return b
	}
	yes, no := true, false
	for _, c := range []struct {
		name        string
		image       []byte
		form        gpu.Form
		cubins, ptx int
		compiles    *bool
	}{
		{"ptx", []byte("/* by hand */\n// and more\n.version 7.0\n"), gpu.PTX, 0, 1, &yes},
		{"cubin", cubin(7, 0x500050), gpu.Cubin, 1, 0, &no},
		{"new cubin", cubin(8, 0x6005604), gpu.Cubin, 1, 0, &no},
		{"exact", fat(entry(2, 86, 8)), gpu.Fat, 1, 0, &no},
		{"lower minor version", fat(entry(2, 80, 8), entry(1, 80, 16)), gpu.Fat, 1, 1, &no},
		{"higher minor version", fat(entry(2, 89, 8), entry(1, 80, 16)), gpu.Fat, 1, 1, &yes},
		{"other major version", fat(entry(2, 90, 8), entry(2, 70, 8), entry(1, 70, 16)), gpu.Fat, 2, 1, &yes},
		{"ptx alone", fat(entry(1, 50, 16)), gpu.Fat, 0, 1, &yes},
		{"overlong entry", fat(entry(2, 86, 8))[:60], gpu.UnknownForm, 0, 0, nil},
		{"text", []byte("no module at all"), gpu.UnknownForm, 0, 0, nil},
		{"nothing", nil, gpu.UnknownForm, 0, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "image")
			if err := os.WriteFile(path, c.image, 0o600); err != nil {
				t.Fatal(err)
			}
			tr := one(t, run{route: "dlsym", scenario: "load=" + path, probe: gpu.Probe{Method: gpu.Interposition}}.do(t))
			if len(tr.Modules) != 1 {
				t.Fatalf("modules %+v", tr.Modules)
			}
			m := tr.Modules[0]
			same := (m.Compiles == nil) == (c.compiles == nil) && (m.Compiles == nil || *m.Compiles == *c.compiles)
			if m.Form != c.form || m.Cubins != c.cubins || m.PTX != c.ptx || m.Bytes != int64(len(c.image)) || !same {
				t.Errorf("%+v", m)
			}
		})
	}
}

// CUPTI's records, whether the library was preloaded or injected by the driver.
func TestCUPTI(t *testing.T) {
	w := equip(t)
	for _, c := range []struct {
		name    string
		preload bool
		env     []string
	}{
		{"preloaded and injected", true, nil},
		{"injected alone", false, nil},
		{"another clock", false, []string{"FAKE_CUPTI_DRIFT=50"}},
		{"the newest", false, []string{"FAKE_CUPTI_VERSION=130500"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run{route: "dlsym", scenario: "many=10", probe: gpu.Probe{CUPTI: w.cupti}, env: c.env}
			if !c.preload {
				r.env = append(r.env, "LD_PRELOAD="+w.clock)
			}
			tr := one(t, r.do(t))
			s := gpu.Summarize(tr)
			if tr.Method != gpu.CUPTI || tr.Ended == 0 || len(tr.Complaints) > 0 || tr.Lost.Unknown != 1 {
				t.Errorf("method %s, ended %s, complaints %q, lost %+v", tr.Method, tr.Ended, tr.Complaints, tr.Lost)
			}
			if c.preload && len(tr.Devices) != 2 {
				t.Errorf("devices %+v", tr.Devices)
			}
			// A preloaded library records until CUPTI does, which begins within cuInit.
			calls, took := 0, time.Duration(0)
			if c.preload {
				calls, took = 1, 100*time.Millisecond
				if init, ok := s.Call("cuInit"); !ok || init.Time.Sum != took {
					t.Errorf("cuInit took %+v", init.Time)
				}
			}
			if len(tr.Calls) != 6+calls || s.API.Time.Count != 3+calls || s.API.Time.Sum != 30*us+took {
				t.Errorf("%d calls; those in no other: %+v", len(tr.Calls), s.API.Time)
			}
			for name, want := range map[string]gpu.CallTime{
				"cudaMalloc":       {Outer: 10 * us, Time: gpu.Distribution{Count: 1, Sum: 10 * us}},
				"cuMemAlloc":       {Outer: 0, Time: gpu.Distribution{Count: 1, Sum: 6 * us}},
				"cudaLaunchKernel": {Outer: 20 * us, Time: gpu.Distribution{Count: 2, Sum: 20 * us}},
				"cuLaunchKernel":   {Outer: 0, Time: gpu.Distribution{Count: 2, Sum: 12 * us}},
			} {
				got, _ := s.Call(name)
				if got.Outer != want.Outer || got.Time.Count != want.Time.Count || got.Time.Sum != want.Time.Sum {
					t.Errorf("%s: %+v", name, got)
				}
			}
			if s.Kernels.Launches != 2 || s.Kernels.Timed != 3 || s.Kernels.Time.Sum != 75*us {
				t.Errorf("kernels %+v", s.Kernels)
			}
			// The first runs from 50 to 80 us, the second from 60 to 100, the third later.
			if d := s.Kernels.Busy - 55*us; d < -us/50 || d > us/50 {
				t.Errorf("kernels ran in %s", s.Kernels.Busy)
			}
			// What CUPTI's clock said is converted: the first call began 50 us before the first kernel.
			if d := tr.Work[0].Start - named(tr, "cudaMalloc")[0].Start - 50*us; d < -us/50 || d > us/50 || tr.Calls[0].Start < tr.Began || tr.Work[0].Start > tr.Ended+time.Second {
				t.Errorf("a kernel began at %s, a call at %s, the trace at %s", tr.Work[0].Start, named(tr, "cudaMalloc")[0].Start, tr.Began)
			}
			if !s.JIT.Known || s.JIT.Compile.Sum != 25*time.Millisecond || s.JIT.CacheLoad.Sum != 70*us || s.JIT.CacheStore.Sum != 100*us {
				t.Errorf("JIT %+v", s.JIT)
			}
			copies := map[gpu.Direction]gpu.Copies{}
			for _, c := range s.Copies {
				copies[c.Direction] = c
			}
			if c := copies[gpu.HostToDevice]; c.Memory != gpu.Pageable || c.Async || c.Bytes != 4096 || c.Time.Sum != 8*us || c.Timing != gpu.ByCUPTI {
				t.Errorf("copies to the device %+v", c)
			}
			if c := copies[gpu.DeviceToHost]; c.Memory != gpu.Pinned || !c.Async || c.Bytes != 8192 || c.Rate() != 8192/4e-6 {
				t.Errorf("copies from the device %+v", c)
			}
			if s.Sets.Count != 1 || s.Sets.Sum != 2*us || s.Overheads["lazy loading of a function"].Sum != 3*us {
				t.Errorf("sets %+v, overheads %+v", s.Sets, s.Overheads)
			}
		})
	}
}

// Where CUPTI will not do there is interposition, and the trace says why.
func TestCUPTIRefuses(t *testing.T) {
	w := equip(t)
	for _, c := range []struct {
		name   string
		probe  gpu.Probe
		env    []string
		method gpu.Method
		says   string
	}{
		{"unknown version", gpu.Probe{CUPTI: w.cupti}, []string{"FAKE_CUPTI_VERSION=29"}, gpu.Interposition, "version 29"},
		{"later version", gpu.Probe{CUPTI: w.cupti}, []string{"FAKE_CUPTI_VERSION=140000"}, gpu.Interposition, "version 140000"},
		{"refused kind", gpu.Probe{CUPTI: w.cupti}, []string{"FAKE_CUPTI_REFUSES=4"}, gpu.Interposition, "CUPTI_ERROR_NOT_INITIALIZED"},
		{"refused and not needed", gpu.Probe{CUPTI: w.cupti}, []string{"FAKE_CUPTI_REFUSES=52"}, gpu.CUPTI, "compilation"},
		{"absent", gpu.Probe{CUPTI: "/nonexistent/libcupti.so"}, nil, gpu.Interposition, "/nonexistent/libcupti.so"},
		{"another library", gpu.Probe{CUPTI: w.clock}, nil, gpu.Interposition, "lacks functions"},
		{"nowhere", gpu.Probe{}, nil, gpu.Interposition, "no CUPTI: "},
		{"asked for", gpu.Probe{Method: gpu.CUPTI, CUPTI: "/nonexistent/libcupti.so"}, nil, gpu.None, "nothing is recorded"},
		{"neither", gpu.Probe{CUPTI: "/nonexistent/libcupti.so"}, []string{"LD_PRELOAD=" + w.clock}, gpu.None, "not preloaded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := one(t, run{route: "dlsym", scenario: "many=10", probe: c.probe, env: c.env}.do(t))
			if tr.Method != c.method || !strings.Contains(strings.Join(tr.Complaints, "\n"), c.says) {
				t.Errorf("method %s, complaints %q", tr.Method, tr.Complaints)
			}
			if recorded := len(tr.Calls) > 0; recorded != (c.method != gpu.None) {
				t.Errorf("%d calls", len(tr.Calls))
			}
			if c.method == gpu.CUPTI && gpu.Summarize(tr).JIT.Known {
				t.Error("compilation is said to be known")
			}
		})
	}
	tr := one(t, run{route: "dlsym", scenario: "init", probe: gpu.Probe{CUPTI: w.cupti}, env: []string{"FAKE_CUPTI_DROPS=3"}}.do(t))
	if tr.Lost.Dropped != 6 {
		t.Errorf("lost %+v", tr.Lost)
	}
}

// Variables with values that will not do are said, and the defaults taken.
func TestBadVariables(t *testing.T) {
	tr := one(t, run{
		route: "dlsym", scenario: "many=3", probe: gpu.Probe{CUPTI: "/nonexistent"},
		env: []string{"TARE_GPU_SAMPLE=-1", "TARE_GPU_MIB=lots", "TARE_GPU_METHOD=guess"},
	}.do(t))
	for _, variable := range []string{"TARE_GPU_SAMPLE", "TARE_GPU_MIB", "TARE_GPU_METHOD"} {
		if !strings.Contains(strings.Join(tr.Complaints, "\n"), variable+" is ") {
			t.Errorf("complaints %q, none of %s", tr.Complaints, variable)
		}
	}
	if s := gpu.Summarize(tr); s.Kernels.Timed != 3 {
		t.Errorf("kernels %+v", s.Kernels)
	}
}

// The library runs with older C libraries than the one that it was built with.
func TestLibraryNeedsNoNewCLibrary(t *testing.T) {
	w := equip(t)
	f, err := elf.Open(w.library)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.ImportedSymbols()
	if err != nil || len(symbols) == 0 {
		t.Fatalf("%d imported symbols, %v", len(symbols), err)
	}
	for _, s := range symbols {
		minor, ok := strings.CutPrefix(s.Version, "GLIBC_2.")
		if !ok {
			continue
		}
		minor, _, _ = strings.Cut(minor, ".")
		if n, err := strconv.Atoi(minor); err != nil || n > 17 {
			t.Errorf("%s is needed as of %s, and older C libraries do not have that", s.Name, s.Version)
		}
	}
	// What it exports is what it stands before, and what the driver calls.
	exported, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range exported {
		if s.Section == elf.SHN_UNDEF || elf.ST_BIND(s.Info) != elf.STB_GLOBAL {
			continue
		}
		if !strings.HasPrefix(s.Name, "cu") && !slices.Contains([]string{"dlsym", "_exit", "_Exit", "InitializeInjection"}, s.Name) {
			t.Errorf("it exports %s", s.Name)
		}
	}
}

func TestBuildWithoutCompiler(t *testing.T) {
	t.Setenv("CC", "no-such-compiler")
	_, err := gpu.Build(t.Context(), t.TempDir())
	var missing *probe.Missing
	if !errors.As(err, &missing) || strings.Contains(err.Error(), "\n") || missing.Mend == "" {
		t.Errorf("%v", err)
	}
}

// What the library adds to a call and a launch, against a driver that does nothing: what
// docs/gpu.md states.
func BenchmarkCalls(b *testing.B) {
	for _, c := range []struct {
		name    string
		without bool
		sample  int
	}{
		{"without", true, 0},
		{"launches not timed", false, -1},
		{"every tenth timed", false, 10},
		{"all timed", false, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			call, launch := math.Inf(1), math.Inf(1) // the least of all runs: what comes between only adds
			for b.Loop() {
				o := run{
					route: "dlsym", scenario: "calls=50000", without: c.without, real: true,
					probe: gpu.Probe{Method: gpu.Interposition, Sample: c.sample}, env: []string{"FAKE_FAST=1"},
				}.do(b)
				var x, y float64
				if _, err := fmt.Sscan(o.stdout, &x, &y); err != nil {
					b.Fatal(err)
				}
				call, launch = min(call, x), min(launch, y)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(call, "ns/call")
			b.ReportMetric(launch, "ns/launch")
		})
	}
}
