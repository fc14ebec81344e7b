package pagetable

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// patience bounds what tests wait for; nothing is judged by it.
const patience = 30 * time.Second

// swapFile gives the host a swap file of the test's own, while the test runs.
func swapFile(t *testing.T) {
	t.Helper()
	needRoot(t)
	for _, tool := range []string{"mkswap", "swapon", "swapoff"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	file := filepath.Join(t.TempDir(), "swap")
	if err := os.WriteFile(file, make([]byte, 64<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"mkswap", file}, {"swapon", file}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("swapoff", file).CombinedOutput(); err != nil {
			t.Errorf("swapoff: %v: %s", err, out)
		}
	})
}

func TestSwappedPages(t *testing.T) {
	swapFile(t)
	h := start(t, "swapped")
	takers := takers(t)
	h.step()
	if n := len(swappedOf(t, takers[0], h)); n != 32 {
		t.Skipf("the kernel paged out %d of 32 pages", n)
	}
	for _, present := range []int{32, 33} {
		var places []uint64
		for _, taker := range takers {
			s := spaceOf(t, take(t, taker, true, h.pid), h.pid)
			got := s.entries(h.at["swapped"])
			n := 0
			places = places[:0]
			for page, e := range got {
				switch swapped := page < 32 && (present == 32 || page != 5); {
				case swapped != e.Has(Swapped), swapped && e&^Frames != Swapped, !swapped && !e.Has(Present|Anon):
					t.Errorf("%s: page %d is %#x", taker.Name(), page, e)
				case swapped:
					places = append(places, e.Frame())
				default:
					n++
				}
			}
			if n != present || len(got) != 64 {
				t.Errorf("%s: %d of %d pages are present, want %d of 64", taker.Name(), n, len(got), present)
			}
			slices.Sort(places)
			if len(slices.Compact(places)) != 64-present {
				t.Errorf("%s: two pages have one place in swap: %v", taker.Name(), places)
			}
		}
		agree(t, takers, h.pid)
		if present == 32 {
			h.step()
		}
	}
}

func swappedOf(t *testing.T, taker Taker, h *helper) (pages []uint64) {
	for page, e := range spaceOf(t, take(t, taker, false, h.pid), h.pid).entries(h.at["swapped"]) {
		if e.Has(Swapped) {
			pages = append(pages, page)
		}
	}
	return pages
}

// Processes of one address space are counted once.
func TestTwin(t *testing.T) {
	h := start(t, "twin")
	other := h.pids["twin"][0]
	for _, taker := range takers(t) {
		for _, order := range [][]int{{h.pid, other}, {other, h.pid}, {h.pid, os.Getpid(), h.pid}} {
			c := take(t, taker, false, order...)
			last := order[len(order)-1]
			if len(c.Spaces) != len(order)-1 || c.Spaces[0].PID != order[0] || !slices.Equal(c.Twin, []int{last}) {
				t.Errorf("%s: of %v %d were counted, twin %v, gone %v", taker.Name(), order, len(c.Spaces), c.Twin, c.Gone)
			}
		}
	}
}

// Of a process whose first thread has ended the others have it.
func TestFirstThreadEnded(t *testing.T) {
	h := start(t, "headless")
	takers := takers(t)
	deadline := time.Now().Add(patience)
	for {
		s, f, err := meet(h.pid)
		if err != nil || f != counted {
			t.Fatalf("the process is taken for %d (%v)", f, err)
		}
		if s.stat.Zombie() {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the first thread does not end")
		}
		time.Sleep(time.Millisecond) // a thread's end is no event to others
	}
	for _, taker := range takers {
		s := spaceOf(t, take(t, taker, false, h.pid), h.pid)
		expect(t, taker, s, "touched", h.at["touched"], Anonymous, all(written, 0))
	}
	agree(t, takers, h.pid)
}

func TestKernelAndGone(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Skip(err)
	}
	ended := cmd.Process.Pid
	zombie := exec.Command("true")
	out, err := zombie.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	defer zombie.Wait()
	// Its end of the pipe closes when it ends, just before it is a zombie.
	if _, err := out.Read(make([]byte, 1)); err == nil {
		t.Fatal("true says something")
	}
	const kthreadd = 2
	for _, taker := range takers(t) {
		c := take(t, taker, true, ended, zombie.Process.Pid, kthreadd, os.Getpid())
		if !slices.Equal(c.Gone, []int{ended, zombie.Process.Pid}) || !slices.Equal(c.Kernel, []int{kthreadd}) || len(c.Spaces) != 1 {
			t.Errorf("%s: gone %v, kernel %v, %d counted; want %d and %d gone, %d the kernel's", taker.Name(), c.Gone, c.Kernel, len(c.Spaces), ended, zombie.Process.Pid, kthreadd)
		}
	}
}

// What a process leaves alone is exact while it maps and unmaps all the time.
func TestRestlessProcess(t *testing.T) {
	h := start(t, "restless")
	for _, taker := range takers(t) {
		changed := 0
		for deadline := time.Now().Add(patience); changed < 3 && time.Now().Before(deadline); {
			s := spaceOf(t, take(t, taker, true, h.pid), h.pid)
			s.well(t, taker.Name())
			expect(t, taker, s, "still", h.at["still"], Anonymous, all(written, upTo(1000)...))
			if s.Changed {
				changed++
			}
			if n := len(s.entries(region{0, 1 << 52})); n < 1000 || n > 1000+100+2000 {
				t.Errorf("%s: %d entries in all", taker.Name(), n)
			}
			if t.Failed() {
				return
			}
		}
		if changed == 0 {
			t.Errorf("%s: no census of a process that maps and unmaps all the time was marked as changed", taker.Name())
		}
	}
}

// A process that executes programs, again and again, is counted whole or marked
// as gone, and is no error.
func TestExecutingProcess(t *testing.T) {
	h := start(t, "executing")
	for _, taker := range takers(t) {
		for range 100 {
			c := take(t, taker, true, h.pid)
			if len(c.Spaces)+len(c.Gone) != 1 {
				t.Fatalf("%s: %d counted, gone %v", taker.Name(), len(c.Spaces), c.Gone)
			}
			for i := range c.Spaces {
				c.Spaces[i].well(t, taker.Name())
			}
		}
	}
	if !alive(h.pid) {
		t.Error("the helper ended: nothing was shown")
	}
}

func TestEndingProcesses(t *testing.T) {
	h := start(t, "ending")
	for _, taker := range takers(t) {
		for range 100 {
			if !h.out.Scan() {
				t.Fatal(h.out.Err())
			}
			f := strings.Fields(h.out.Text())
			pid, err := strconv.Atoi(f[len(f)-1])
			if err != nil {
				t.Fatal(err)
			}
			c := take(t, taker, true, pid)
			if len(c.Spaces)+len(c.Gone) != 1 {
				t.Fatalf("%s: %d counted, gone %v", taker.Name(), len(c.Spaces), c.Gone)
			}
		}
	}
}

// A container may have hundreds of processes.
func TestManyProcesses(t *testing.T) {
	const children = 300
	h := start(t, "many", strconv.Itoa(children))
	pids := append([]int{h.pid}, h.pids["child"]...)
	for _, taker := range takers(t) {
		c := take(t, taker, true, pids...)
		if len(c.Spaces) != children+1 || len(c.Twin)+len(c.Gone)+len(c.Kernel) != 0 {
			t.Fatalf("%s: %d of %d counted, twin %v, gone %v", taker.Name(), len(c.Spaces), children+1, c.Twin, c.Gone)
		}
		first := c.Spaces[0].entries(h.at["forked"])
		for i := range c.Spaces {
			s := &c.Spaces[i]
			s.well(t, taker.Name())
			got := s.entries(h.at["forked"])
			if len(got) != 64 || s.Group != i {
				t.Fatalf("%s: process %d has %d of 64 entries, group %d", taker.Name(), s.PID, len(got), s.Group)
			}
			for page, e := range got {
				if e.Frame() != first[page].Frame() {
					t.Fatalf("%s: page %d of process %d has a frame of its own", taker.Name(), page, s.PID)
				}
			}
		}
	}
	agree(t, takers(t), pids[0], pids[150])
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, taker := range takers(t) {
		if c, err := taker.Take(ctx, []Process{{PID: os.Getpid()}}, true); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: cancelled it gives %v, %v", taker.Name(), c, err)
		}
	}
}

func TestOpen(t *testing.T) {
	needRoot(t)
	taker, note, err := Open()
	if err != nil {
		t.Skip(err)
	}
	defer taker.Close()
	if (taker.Name() == "page tables") != (note == "") {
		t.Errorf("%s with the note %q", taker.Name(), note)
	}
}
