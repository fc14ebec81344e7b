package hint_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tare/annex/guard"
	"tare/kernel/advise"
	"tare/kernel/cgroup"
	"tare/kernel/pagemap"
	"tare/kernel/process"
	"tare/kernel/swap/swaptest"
)

// flags are the Makefile's, and those of the test's programs.
var flags = []string{"-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"}

// scratch is where the library and the programs are built, each once.
var scratch string

func TestMain(m *testing.M) {
	if code, ours := guard.Main(os.Args); ours {
		os.Exit(code)
	}
	if path := os.Getenv(daemonVariable); path != "" {
		os.Exit(beDaemon(path))
	}
	os.Exit(within(m))
}

func within(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "tare-hint-test-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(scratch)
	return m.Run()
}

// built is what is built of one call of gcc, and gives its path.
type built func() (string, error)

// compile has gcc make a file of that name, when it is first asked for.
func compile(name string, args func() ([]string, error)) built {
	return sync.OnceValues(func() (string, error) {
		gcc, err := exec.LookPath("gcc")
		if err != nil {
			return "", err
		}
		rest, err := args()
		if err != nil {
			return "", err
		}
		path := filepath.Join(scratch, name)
		cmd := exec.Command(gcc, slices.Concat(flags, []string{"-o", path}, rest)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
		}
		return path, nil
	})
}

func (b built) path(t testing.TB) string {
	t.Helper()
	path, err := b()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("needs gcc")
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var (
	theLibrary = compile("libannexhint.so", func() ([]string, error) {
		return []string{"-fPIC", "-shared", "annex_hint.c", "-pthread", "-ldl"}, nil
	})
	calls, waking       = ofItself("calls"), ofItself("waker")
	arenas, toldOfWakes = telling("arenas"), telling("waker")
)

// library gives the path of the library.
func library(t testing.TB) string { t.Helper(); return theLibrary.path(t) }

// ofItself is a program that knows nothing of the library.
func ofItself(name string) built {
	return compile(name, func() ([]string, error) { return []string{filepath.Join("testdata", name+".c")}, nil })
}

// telling is one that calls it.
func telling(name string) built {
	return compile(name+"-told", func() ([]string, error) {
		lib, err := theLibrary()
		return []string{"-DTOLD", "-I.", filepath.Join("testdata", name+".c"), lib, "-Wl,-rpath," + scratch}, err
	})
}

// preload is the environment in which a program has the library.
func preload(library string, more ...string) []string {
	return append([]string{"LD_PRELOAD=" + library}, more...)
}

func run(t *testing.T, path string, env []string, args ...string) (stderr string) {
	t.Helper()
	var said strings.Builder
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		t.Errorf("%s with %q: %v\n%s", filepath.Base(path), env, err, said.String())
	}
	return said.String()
}

// atOnce has all of them done, most of which wait, and awaits that.
func atOnce[T any](all []T, do func(T)) {
	var under sync.WaitGroup
	for _, one := range all {
		under.Go(func() { do(one) })
	}
	under.Wait()
}

// What the library stands before does what it did.
func TestCallsAreAsTheyWere(t *testing.T) {
	lib, calls := library(t), calls.path(t)
	atOnce([][]string{
		nil,
		preload(lib),
		preload(lib, "ANNEX_HINT=0"),
		preload(lib, "ANNEX_HINT=1"),
		preload(lib, "ANNEX_HINT=1", "ANNEX_HINT_IDLE_MS=1", "ANNEX_HINT_LEAST=4KiB"),
	}, func(env []string) {
		if said := run(t, calls, env); said != "" {
			t.Errorf("with %q it says %q", env, said)
		}
	})
}

func TestArenas(t *testing.T) {
	arenas := arenas.path(t)
	atOnce([][]string{nil, {"ANNEX_HINT=1", "ANNEX_HINT_LEAST=1GiB"}}, func(env []string) {
		if said := run(t, arenas, env); said != "" {
			t.Errorf("with %q it says %q", env, said)
		}
	})
	if said := run(t, arenas, []string{"ANNEX_HINT=yes"}, "off"); strings.Count(said, "\n") != 1 {
		t.Errorf("off, it says %q", said)
	}
}

// A variable that has a bad value is told of in one line, and turns the library off.
func TestBadEnvironment(t *testing.T) {
	lib, calls := library(t), calls.path(t)
	atOnce([]string{
		"ANNEX_HINT=", "ANNEX_HINT=yes", "ANNEX_HINT=11", "ANNEX_HINT=1\nand more",
		"ANNEX_HINT_LEAST=", "ANNEX_HINT_LEAST=1M", "ANNEX_HINT_LEAST=4095", "ANNEX_HINT_LEAST=-1", "ANNEX_HINT_LEAST=1025GiB", "ANNEX_HINT_LEAST=99999999999999999999",
		"ANNEX_HINT_MOST=much", "ANNEX_HINT_MOST=17179869184GiB",
		"ANNEX_HINT_IDLE_MS=0", "ANNEX_HINT_IDLE_MS=1s", "ANNEX_HINT_IDLE_MS=86400001",
	}, func(bad string) {
		env := []string{bad}
		if name, _, _ := strings.Cut(bad, "="); name != "ANNEX_HINT" {
			env = append(env, "ANNEX_HINT=1")
		}
		said := run(t, calls, preload(lib, env...))
		name, _, _ := strings.Cut(bad, "=")
		if !strings.HasPrefix(said, "libannexhint: "+name+" is ") || strings.Count(said, "\n") != 1 || !strings.HasSuffix(said, "\n") || !strings.Contains(said, ": want ") {
			t.Errorf("of %q it says %q", bad, said)
		}
	})
	atOnce([]string{"ANNEX_HINT_LEAST=4096", "ANNEX_HINT_LEAST=1024GiB", "ANNEX_HINT_MOST=512KiB", "ANNEX_HINT_IDLE_MS=86400000"}, func(good string) {
		if said := run(t, calls, preload(lib, "ANNEX_HINT=1", good)); said != "" {
			t.Errorf("of %q it says %q", good, said)
		}
	})
}

// arena is what the program of these tests holds, in bytes.
const arena = 8 << 20

// sleep is longer than the least that the library takes for sleep, where nothing else is said.
const sleep = 1200 * time.Millisecond

// waker is that program, in a memory group of its own.
type waker struct {
	how     string // it comes by its memory
	in      io.WriteCloser
	out     *bufio.Scanner
	handle  *process.Handle
	entries *pagemap.File
	group   cgroup.Group
	memory  advise.Range
	since   time.Time // when it went to sleep
}

// woken is what it tells of a wake.
type woken struct {
	answered time.Duration // from the byte to the answer: what a client waits
	touching time.Duration
	hinting  time.Duration // where it gives the hint itself
	majors   int
	sum      string // of all that it holds
}

// groups counts those that were made.
var groups atomic.Int64

// group is a place for a control group of the test's own.
func group(t testing.TB, name string) cgroup.Group {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making control groups needs root")
	}
	layout, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	return layout.At(fmt.Sprintf("/tare-hint-test-%d-%s", os.Getpid(), name))
}

// begin starts it, up to where it waits for its first byte; or, where its memory is to be
// moved, for the second.
func begin(t testing.TB, path, how string, env []string) *waker {
	t.Helper()
	return beginIn(t, group(t, fmt.Sprint(groups.Add(1))), path, how, env)
}

// beginIn does so in a group that it makes.
func beginIn(t testing.TB, g cgroup.Group, path, how string, env []string) *waker {
	t.Helper()
	w := &waker{how: how, group: g}
	if err := w.group.Create("memory"); err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(path, how)
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), os.Stderr
	end := func() {}
	t.Cleanup(func() {
		end()
		if err := w.group.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	var err error
	if w.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() {
		w.in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	w.out = bufio.NewScanner(out)
	if err := w.group.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	id, err := process.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if w.handle, err = id.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.handle.Close() })
	if w.entries, err = pagemap.Open(fmt.Sprintf("/proc/%d/pagemap", id.PID)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.entries.Close() })
	if how == "moved" {
		if _, err := w.in.Write([]byte{'w'}); err != nil {
			t.Fatal(err)
		}
	}
	w.since = time.Now()
	return w
}

// fill has it fill its memory.
func (w *waker) fill(t testing.TB) {
	t.Helper()
	if w.how == "moved" {
		w.sleep(sleep)
	}
	if _, err := fmt.Sscan(w.ask(t), &w.memory.Start, &w.memory.Length); err != nil || w.memory.Length != arena {
		t.Fatalf("the program tells of %d bytes at %#x (%v)", w.memory.Length, w.memory.Start, err)
	}
}

// ask gives it a byte, and reads its line.
func (w *waker) ask(t testing.TB) string {
	t.Helper()
	if _, err := w.in.Write([]byte{'w'}); err != nil {
		t.Fatal(err)
	}
	if !w.out.Scan() {
		t.Fatalf("the program ends: %v", w.out.Err())
	}
	w.since = time.Now()
	return w.out.Text()
}

func (w *waker) wake(t testing.TB) woken {
	t.Helper()
	began := time.Now()
	line := w.ask(t)
	a := woken{answered: time.Since(began)}
	if _, err := fmt.Sscan(line, (*int64)(&a.touching), (*int64)(&a.hinting), &a.majors, &a.sum); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return a
}

// sleep lets it sleep for so long in all since its last answer.
func (w *waker) sleep(d time.Duration) { time.Sleep(time.Until(w.since.Add(d))) }

// leave has all that it holds leave memory, the swap cache too.
func (w *waker) leave(t testing.TB) {
	t.Helper()
	if passed, err := advise.Give(w.handle, advise.PageOut, []advise.Range{w.memory}); err != nil || len(passed) > 0 {
		t.Fatal(passed, err)
	}
	page := uint64(os.Getpagesize())
	words, out := make([]uint64, arena/page), 0
	if n, err := pagemap.Words(w.entries, w.memory.Start/page, words); err != nil || n != len(words) {
		t.Fatal(n, err)
	}
	for _, word := range words {
		if pagemap.Entry(word).Swapped() {
			out++
		}
	}
	// Some wait in another processor's batch, and stay.
	if out < len(words)*3/4 {
		t.Fatalf("of %d pages %d left", len(words), out)
	}
	// On a disk they are still being written, and in memory as long.
	var usage int64
	for range 20 {
		var err error
		if usage, err = w.group.MemoryUsage(); err != nil {
			t.Fatal(err)
		}
		if usage < arena/4 {
			return
		}
		if err := w.group.ReclaimMemory(usage-1<<20, cgroup.NoBound); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Skipf("%d bytes stay in memory as swap cache", usage)
}

// needs skips where pages would not leave for swap at once.
func needs(t testing.TB) {
	t.Helper()
	if err := advise.Supported(); err != nil {
		t.Skip(err)
	}
	swaptest.NoPool(t)
}

// room is of all that the programs of a test hold together.
const room = 16 * arena

func onFile(t testing.TB) { t.Helper(); needs(t); swaptest.File(t, "hint", room) }
func onZRAM(t testing.TB) { t.Helper(); needs(t); swaptest.ZRAM(t, room) }

// A program that slept finds its memory read, however it came by it, where it has the
// library; and as it was.
func TestWake(t *testing.T) {
	lib, plain, told := library(t), waking.path(t), toldOfWakes.path(t)
	asked := preload(lib, "ANNEX_HINT=1")
	// one is a program, which sleeps while the others do.
	type one struct {
		name  string
		path  string
		how   string
		env   []string
		hints bool
		waker *waker
		first woken
	}
	media := []struct {
		name string
		put  func(testing.TB)
		all  []one
	}{{name: "file", put: onFile}, {name: "zram", put: onZRAM}}
	for i := range media {
		media[i].all = []one{
			{name: "none", path: plain, how: "mmap"},
			{name: "not asked for", path: plain, how: "mmap", env: preload(lib)},
			{name: "nothing so long", path: plain, how: "mmap", env: preload(lib, "ANNEX_HINT=1", "ANNEX_HINT_LEAST=1GiB")},
			{name: "no sleep", path: plain, how: "mmap", env: preload(lib, "ANNEX_HINT=1", "ANNEX_HINT_IDLE_MS=86400000")},
			{name: "api", path: told, how: "mmap", hints: true},
			{name: "mmap", path: plain, how: "mmap", env: asked, hints: true},
			{name: "sparse", path: plain, how: "sparse", env: asked, hints: true}, // what was never touched is not what comes back
			{name: "malloc", path: plain, how: "malloc", env: asked, hints: true},
			{name: "heap", path: plain, how: "heap", env: asked, hints: true},
			{name: "moved", path: plain, how: "moved", env: asked, hints: true}, // which the sum of what is mapped does not tell
		}
		for n := range media[i].all {
			c := &media[i].all[n]
			c.waker = begin(t, c.path, c.how, c.env)
		}
	}
	for _, m := range media {
		t.Run(m.name, func(t *testing.T) {
			m.put(t)
			for n := range m.all {
				c := &m.all[n]
				c.waker.fill(t)
				c.first = c.waker.wake(t)
				c.waker.leave(t)
			}
			var without woken
			for _, c := range m.all {
				t.Run(c.name, func(t *testing.T) {
					c.waker.sleep(sleep)
					after := c.waker.wake(t)
					t.Logf("%+v", after)
					if after.sum != c.first.sum {
						t.Errorf("it reads %s, and held %s", after.sum, c.first.sum)
					}
					// Without hints the kernel reads some 8 pages at a fault, at the most.
					if c.name == "none" {
						if without = after; without.majors < arena/os.Getpagesize()/16 {
							t.Fatalf("%d major faults: what is tested was not away", without.majors)
						}
						return
					}
					if without.sum == "" {
						t.Skip("without hints nothing was away")
					}
					if after.sum != without.sum {
						t.Errorf("it reads %s, and without hints %s", after.sum, without.sum)
					}
					if few := 2*after.majors <= without.majors; few != c.hints {
						t.Errorf("%d major faults, and %d without hints", after.majors, without.majors)
					}
				})
			}
		})
	}
}

// Of memory that is found by itself no more comes back at a time than was said.
func TestMostBounds(t *testing.T) {
	lib, plain := library(t), waking.path(t)
	onFile(t)
	const idle = 50 * time.Millisecond
	majors := map[string]int{}
	for _, most := range []string{"64KiB", "64MiB"} {
		w := begin(t, plain, "mmap", preload(lib, "ANNEX_HINT=1", "ANNEX_HINT_MOST="+most, fmt.Sprintf("ANNEX_HINT_IDLE_MS=%d", idle.Milliseconds())))
		w.fill(t)
		w.wake(t)
		w.leave(t)
		w.sleep(2 * idle)
		majors[most] = w.wake(t).majors
	}
	if majors["64KiB"] < arena/os.Getpagesize()/16 || majors["64KiB"] < 2*majors["64MiB"] {
		t.Errorf("major faults: %v", majors)
	}
}

// What a wake takes from a disk, as the client and the program see it; and what the hint
// costs where nothing is away.
func BenchmarkWake(b *testing.B) {
	lib, plain, told := library(b), waking.path(b), toldOfWakes.path(b)
	onFile(b)
	const idle = 50 * time.Millisecond
	for _, c := range []struct {
		name, path string
		env        []string
	}{
		{"none", plain, nil},
		{"preload", plain, preload(lib, "ANNEX_HINT=1", fmt.Sprintf("ANNEX_HINT_IDLE_MS=%d", idle.Milliseconds()))},
		{"api", told, nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := begin(b, c.path, "mmap", c.env)
			w.fill(b)
			w.wake(b)
			var away, there woken
			for b.Loop() {
				w.leave(b)
				w.sleep(2 * idle)
				away = away.with(w.wake(b))
				w.sleep(2 * idle)
				there = there.with(w.wake(b))
			}
			mean := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(b.N) }
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(mean(away.answered), "wake-us")
			b.ReportMetric(mean(away.touching), "touch-us")
			b.ReportMetric(mean(away.hinting), "hint-us")
			b.ReportMetric(float64(away.majors)/float64(b.N), "majors")
			b.ReportMetric(mean(there.answered), "wake-there-us")
			b.ReportMetric(mean(there.hinting), "hint-there-us")
		})
	}
}

// with adds a wake to others.
func (a woken) with(b woken) woken {
	a.answered, a.touching, a.hinting, a.majors = a.answered+b.answered, a.touching+b.touching, a.hinting+b.hinting, a.majors+b.majors
	return a
}
