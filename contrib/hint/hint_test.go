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
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/kernel/advise"
	"tare/kernel/cgroup"
	"tare/kernel/pagemap"
	"tare/kernel/process"
	"tare/kernel/swap"
)

// flags are the Makefile's, and those of the test's programs.
var flags = []string{"-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"}

func compile(t testing.TB, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs gcc")
	}
	if out, err := exec.Command("gcc", append(flags[:len(flags):len(flags)], args...)...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// library builds the library, and gives its path.
func library(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "libannexhint.so")
	compile(t, "-fPIC", "-shared", "-o", path, "annex_hint.c", "-pthread", "-ldl")
	return path
}

// program builds one that knows nothing of the library.
func program(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	compile(t, "-o", path, filepath.Join("testdata", name+".c"))
	return path
}

// telling builds one that calls it.
func telling(t testing.TB, name, library string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	compile(t, "-DTOLD", "-I.", "-o", path, filepath.Join("testdata", name+".c"), library, "-Wl,-rpath,"+filepath.Dir(library))
	return path
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

// What the library stands before does what it did.
func TestCallsAreAsTheyWere(t *testing.T) {
	lib, calls := library(t), program(t, "calls")
	for _, env := range [][]string{
		nil,
		preload(lib),
		preload(lib, "ANNEX_HINT=0"),
		preload(lib, "ANNEX_HINT=1"),
		preload(lib, "ANNEX_HINT=1", "ANNEX_HINT_IDLE_MS=1", "ANNEX_HINT_LEAST=4KiB"),
	} {
		if said := run(t, calls, env); said != "" {
			t.Errorf("with %q it says %q", env, said)
		}
	}
}

func TestArenas(t *testing.T) {
	lib := library(t)
	arenas := telling(t, "arenas", lib)
	for _, env := range [][]string{nil, {"ANNEX_HINT=1", "ANNEX_HINT_LEAST=1GiB"}} {
		if said := run(t, arenas, env); said != "" {
			t.Errorf("with %q it says %q", env, said)
		}
	}
	if said := run(t, arenas, []string{"ANNEX_HINT=yes"}, "off"); strings.Count(said, "\n") != 1 {
		t.Errorf("off, it says %q", said)
	}
}

// A variable that has a bad value is told of in one line, and turns the library off.
func TestBadEnvironment(t *testing.T) {
	lib, calls := library(t), program(t, "calls")
	for _, bad := range []string{
		"ANNEX_HINT=", "ANNEX_HINT=yes", "ANNEX_HINT=11", "ANNEX_HINT=1\nand more",
		"ANNEX_HINT_LEAST=", "ANNEX_HINT_LEAST=1M", "ANNEX_HINT_LEAST=4095", "ANNEX_HINT_LEAST=-1", "ANNEX_HINT_LEAST=1025GiB", "ANNEX_HINT_LEAST=99999999999999999999",
		"ANNEX_HINT_MOST=much", "ANNEX_HINT_MOST=17179869184GiB",
		"ANNEX_HINT_IDLE_MS=0", "ANNEX_HINT_IDLE_MS=1s", "ANNEX_HINT_IDLE_MS=86400001",
	} {
		env := []string{bad}
		if name, _, _ := strings.Cut(bad, "="); name != "ANNEX_HINT" {
			env = append(env, "ANNEX_HINT=1")
		}
		said := run(t, calls, preload(lib, env...))
		name, _, _ := strings.Cut(bad, "=")
		if !strings.HasPrefix(said, "libannexhint: "+name+" is ") || strings.Count(said, "\n") != 1 || !strings.HasSuffix(said, "\n") || !strings.Contains(said, ": want ") {
			t.Errorf("of %q it says %q", bad, said)
		}
	}
	for _, good := range []string{"ANNEX_HINT_LEAST=4096", "ANNEX_HINT_LEAST=1024GiB", "ANNEX_HINT_MOST=512KiB", "ANNEX_HINT_IDLE_MS=86400000"} {
		if said := run(t, calls, preload(lib, "ANNEX_HINT=1", good)); said != "" {
			t.Errorf("of %q it says %q", good, said)
		}
	}
}

// arena is what the program of these tests holds, in bytes.
const arena = 8 << 20

// sleep is longer than the least that the library takes for sleep, where nothing else is said.
const sleep = 1200 * time.Millisecond

// waker is that program, in a memory group of its own.
type waker struct {
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

func start(t testing.TB, path, how string, env []string) *waker {
	t.Helper()
	layout, err := cgroup.Host()
	if err != nil {
		t.Skip(err)
	}
	w := &waker{group: layout.At(fmt.Sprintf("/tare-hint-test-%d", os.Getpid()))}
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
		time.Sleep(sleep)
	}
	if _, err := fmt.Sscan(w.ask(t), &w.memory.Start, &w.memory.Length); err != nil || w.memory.Length != arena {
		t.Fatalf("the program tells of %d bytes at %#x (%v)", w.memory.Length, w.memory.Start, err)
	}
	return w
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

// rooms leads to a disk, where what a test that was killed left behind is found by its name.
func rooms(t testing.TB) string {
	t.Helper()
	dir := filepath.Join("/var/tmp", "tare-hint-test")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Skip(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		number, _, _ := strings.Cut(e.Name(), ".")
		if pid, err := strconv.Atoi(number); err == nil {
			if _, err := process.Identify(pid); err == nil && pid != os.Getpid() {
				continue // its test runs
			}
		}
		path := filepath.Join(dir, e.Name())
		if _, on, err := (swap.Host{}).Area(path); err == nil && on {
			if err := swap.Off(context.Background(), path); err != nil {
				t.Error(err)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
	return dir
}

func needs(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("putting swap to use needs root")
	}
	if err := advise.Supported(); err != nil {
		t.Skip(err)
	}
	if z, err := (swap.Host{}).Zswap(); err == nil && z.Enabled {
		t.Skip("zswap is enabled, and pages go there first")
	}
}

// put puts an area to use before all others, until the end of the test.
func put(t testing.TB, path string) {
	t.Helper()
	areas, err := swap.Host{}.Areas()
	if err != nil {
		t.Skip(err)
	}
	priority, err := swap.PriorityAbove(areas)
	if err != nil {
		t.Skip(err)
	}
	if err := swap.On(path, priority, swap.DiscardNever); errors.Is(err, syscall.EPERM) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := swap.Off(context.Background(), path); err != nil {
			t.Error(err)
		}
	})
}

func onFile(t testing.TB) {
	t.Helper()
	needs(t)
	path := filepath.Join(rooms(t), strconv.Itoa(os.Getpid())+".swap")
	var unfit *swap.Unfit
	var full *swap.Full
	if err := swap.CreateFile(context.Background(), path, 4*arena); errors.As(err, &unfit) || errors.As(err, &full) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	})
	put(t, path)
}

func onZRAM(t testing.TB) {
	t.Helper()
	needs(t)
	host := swap.Host{}
	var none *swap.NoZRAM
	z, err := host.AddZRAM(4 * arena)
	if errors.As(err, &none) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.RemoveZRAM(z); err != nil {
			t.Error(err)
		}
	})
	if err := host.ConfigureZRAM(z, ""); err != nil {
		t.Fatal(err)
	}
	put(t, z.Device())
}

// A program that slept finds its memory read, however it came by it, where it has the
// library; and as it was.
func TestWake(t *testing.T) {
	lib, plain := library(t), program(t, "waker")
	told := telling(t, "waker", lib)
	asked := preload(lib, "ANNEX_HINT=1")
	for name, on := range map[string]func(testing.TB){"file": onFile, "zram": onZRAM} {
		t.Run(name, func(t *testing.T) {
			on(t)
			var without woken
			for _, c := range []struct {
				name  string
				path  string
				how   string
				env   []string
				hints bool
			}{
				{"none", plain, "mmap", nil, false},
				{"not asked for", plain, "mmap", preload(lib), false},
				{"nothing so long", plain, "mmap", preload(lib, "ANNEX_HINT=1", "ANNEX_HINT_LEAST=1GiB"), false},
				{"no sleep", plain, "mmap", preload(lib, "ANNEX_HINT=1", "ANNEX_HINT_IDLE_MS=86400000"), false},
				{"api", told, "mmap", nil, true},
				{"mmap", plain, "mmap", asked, true},
				{"sparse", plain, "sparse", asked, true}, // what was never touched is not what comes back
				{"moved", plain, "moved", asked, true},   // which the sum of what is mapped does not tell
				{"malloc", plain, "malloc", asked, true},
				{"heap", plain, "heap", asked, true},
			} {
				t.Run(c.name, func(t *testing.T) {
					w := start(t, c.path, c.how, c.env)
					before := w.wake(t)
					w.leave(t)
					w.sleep(sleep)
					after := w.wake(t)
					t.Logf("%+v", after)
					if after.sum != before.sum {
						t.Errorf("it reads %s, and held %s", after.sum, before.sum)
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
	lib, plain := library(t), program(t, "waker")
	onFile(t)
	majors := map[string]int{}
	for _, most := range []string{"64KiB", "64MiB"} {
		t.Run(most, func(t *testing.T) {
			w := start(t, plain, "mmap", preload(lib, "ANNEX_HINT=1", "ANNEX_HINT_MOST="+most))
			w.wake(t)
			w.leave(t)
			w.sleep(sleep)
			majors[most] = w.wake(t).majors
		})
	}
	if len(majors) == 2 && (majors["64KiB"] < arena/os.Getpagesize()/16 || majors["64KiB"] < 2*majors["64MiB"]) {
		t.Errorf("major faults: %v", majors)
	}
}

// What a wake takes from a disk, as the client and the program see it; and what the hint
// costs where nothing is away.
func BenchmarkWake(b *testing.B) {
	lib, plain := library(b), program(b, "waker")
	told := telling(b, "waker", lib)
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
			w := start(b, c.path, "mmap", c.env)
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
