package media

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tare/annex"
	"tare/kernel/pagemap"
	"tare/kernel/swap"
)

const testPages = 4096

// loose is how many of a test's pages may be elsewhere than where they were sent: the
// kernel isolates none that wait in another processor's batch (31 pages each), and
// what else the host does may evict some or bring some back.
var loose = 31*runtime.NumCPU() + 2

func near(have, want int) bool { return have >= want-loose && have <= want+loose }

// What leaves comes back as it was, by a touch, by fetching, and by mapping.
func TestMove(t *testing.T) {
	for _, medium := range []struct {
		kind Kind
		make func(testing.TB, int64) Medium
	}{{File, onFile}, {ZRAM, onZRAM}} {
		t.Run(string(medium.kind), func(t *testing.T) {
			m := medium.make(t, 64<<20)
			if m.Kind() != medium.kind {
				t.Fatalf("%s is of kind %s", m.Name(), m.Kind())
			}
			k := newKernel(t, Options{Medium: m})
			h := startHolder(t, testPages)
			ask := func(op annex.Op, runs []annex.Run) annex.Result {
				t.Helper()
				r := k.Do(t.Context(), annex.Request{Number: 1, Op: op, Runs: runs})
				if r.Err != nil || r.Stopped || r.Asked != annex.Count(runs) || r.Moved+r.Skipped > r.Asked || r.Ended < r.Began {
					t.Fatalf("%s: %+v", op, r)
				}
				t.Logf("%s: %d of %d pages moved, in %v", op, r.Moved, r.Asked, r.Ended.Since(r.Began))
				return r
			}
			if r := ask(annex.Evict, h.all()); !near(r.Moved, testPages) || !near(h.places(t)[inSwap], testPages) {
				t.Errorf("%+v: pages are at %v", r, h.places(t))
			}
			if r := ask(annex.Evict, h.all()); !near(r.Skipped, testPages) {
				t.Errorf("evicted again: %+v", r)
			}
			h.tell(t, "check", 0, testPages/4)
			if r := ask(annex.Fetch, h.all()); !near(r.Moved, testPages*3/4) || !near(r.Skipped, testPages/4) || !near(h.places(t)[inSwap], testPages*3/4) {
				t.Errorf("%+v: pages are at %v, want those fetched not mapped", r, h.places(t))
			}
			h.tell(t, "check", testPages/4, testPages/4)
			if r := ask(annex.Map, h.all()); !near(r.Moved, testPages/2) || !near(h.places(t)[inMemory], testPages) {
				t.Errorf("%+v: pages are at %v, want all mapped", r, h.places(t))
			}
			h.tell(t, "check", 0, testPages)
		})
	}
}

// What leaves in the order of its use lies in that order in swap.
func TestEvictionOrderIsSlotOrder(t *testing.T) {
	m := onFile(t, 64<<20)
	k := newKernel(t, Options{Medium: m})
	h := startHolder(t, testPages)
	var runs []annex.Run
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(testPages / 4) {
		runs = append(runs, h.run(4*i, 4))
	}
	if r := k.Do(t.Context(), annex.Request{Op: annex.Evict, Runs: runs}); r.Err != nil || !near(r.Moved, testPages) {
		t.Fatalf("%+v", r)
	}
	target, err := Open(h.space)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	var slots []int64
	for _, r := range runs {
		var words [4]uint64
		if n, err := target.Entries(r.First, words[:]); err != nil || n != 4 {
			t.Fatal(n, err)
		}
		for _, w := range words {
			if e := pagemap.Entry(w); placeOf(e) == inSwap {
				slots = append(slots, int64(e.SwapOffset()))
			}
		}
	}
	up, down, beside := 0, 0, 0
	for i := 1; i < len(slots); i++ {
		switch d := slots[i] - slots[i-1]; {
		case d == 1:
			up++
		case d == -1:
			down++
		case d > -8 && d < 8:
			beside++
		}
	}
	t.Logf("of %d pages %d lie one after the one before, %d one before it, %d beside: %v", len(slots), up, down, beside, slots[:16])
	if together := up + down + beside; together < len(slots)*9/10 {
		t.Errorf("of %d pages only %d lie by the one before", len(slots), together)
	}
}

// Pages that were fetched are in memory though their entries do not say so: their touch
// waits for no device. A program that stands still is moved like any other.
func TestFetchedPagesAreThere(t *testing.T) {
	m := onZRAM(t, 64<<20) // what leaves for it is in memory no more at once
	k := newKernel(t, Options{Medium: m})
	h := startHolder(t, testPages)
	const fetched = testPages / 4
	if err := h.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if r := k.Do(t.Context(), annex.Request{Op: annex.Evict, Runs: h.all()}); r.Err != nil || !near(r.Moved, testPages) {
		t.Fatalf("%+v", r)
	}
	if r := k.Do(t.Context(), annex.Request{Op: annex.Fetch, Runs: h.all()[:2]}); r.Err != nil || !near(r.Moved, fetched) {
		t.Fatalf("%+v", r)
	}
	if err := h.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	before := majorFaults(t, h)
	h.tell(t, "check", 0, fetched)
	between := majorFaults(t, h)
	h.tell(t, "check", fetched, fetched)
	after := majorFaults(t, h)
	t.Logf("%d pages that were fetched cost %d major faults, as many that were not %d", fetched, between-before, after-between)
	if near(between-before, after-between) {
		t.Errorf("%d pages that were fetched cost %d major faults, as many that were not %d", fetched, between-before, after-between)
	}
}

// While swap is at most half full a page that comes back keeps its place, and need not be
// written when it leaves again; above that the kernel gives places up. The daemon says so.
func TestPlacesAreKeptToHalfOfSwap(t *testing.T) {
	const pages = testPages * annex.PageSize
	for _, size := range []int64{4 * pages, pages * 3 / 2} {
		t.Run(fmt.Sprintf("%d MiB", size>>20), func(t *testing.T) {
			k := newKernel(t, Options{Medium: onFile(t, size)})
			h := startHolder(t, testPages)
			if r := k.Do(t.Context(), annex.Request{Number: 1, Op: annex.Evict, Runs: h.all()}); r.Err != nil || !near(r.Moved, testPages) {
				t.Fatalf("%+v", r)
			}
			full, used := swapUse(t)
			h.tell(t, "check", 0, testPages)
			_, kept := swapUse(t)
			want := used
			if used > full/2 {
				want = max(full/2, used-pages)
			} else if size < 2*pages {
				t.Skip("there is so much other swap that this area does not fill half of all")
			}
			// Up to Linux 6.12 each processor has some places that were given up and do not count yet.
			const returned = 64
			if slack := int64(loose+returned*runtime.NumCPU()) * annex.PageSize; kept < want-slack || kept > want+slack {
				t.Errorf("of %d bytes of swap %d were used, and %d after all had come back, want %d", full, used, kept, want)
			}
		})
	}
}

// swapUse is how large the host's swap is, and how much of it is used.
func swapUse(t *testing.T) (size, used int64) {
	t.Helper()
	areas, err := swap.Host{}.Areas()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range areas {
		size, used = size+a.Size, used+a.Used
	}
	return size, used
}

// majorFaults are those for which a program has waited.
func majorFaults(t *testing.T, h *holder) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	const majflt = 12 - 3 // of proc(5), from the third on
	n, err := strconv.Atoi(strings.Fields(rest)[majflt])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
