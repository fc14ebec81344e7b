package media

import (
	"strings"
	"testing"

	"tare/annex"
	"tare/kernel/filesystem/fusetest"
	"tare/kernel/pagemap"
	"tare/kernel/swap/swaptest"
)

// offsets are where the pages of runs are in swap, in bytes.
func offsets(t *testing.T, h *holder, runs []annex.Run) map[int64]bool {
	t.Helper()
	target, err := Open(h.space)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	at := map[int64]bool{}
	for _, r := range runs {
		words := make([]uint64, r.Pages)
		if _, err := target.Entries(r.First, words); err != nil {
			t.Fatal(err)
		}
		for _, w := range words {
			if e := pagemap.Entry(w); placeOf(e) == inSwap {
				at[int64(e.SwapOffset())*annex.PageSize] = true
			}
		}
	}
	return at
}

// failsReading has reads of some places fail.
func failsReading(at map[int64]bool) fusetest.Fails {
	return func(write bool, offset, length int64) bool {
		for page := offset; page < offset+length && !write; page += annex.PageSize {
			if at[page] {
				return true
			}
		}
		return false
	}
}

// Pages that a device does not take stay in memory, with every byte.
func TestFailingWrites(t *testing.T) {
	needs(t)
	device, system := swaptest.Failing(t, 64<<20)
	m := of(t, device)
	k := newKernel(t, Options{Medium: m})
	h, group := grouped(t, "failing", testPages)
	system.Fail(func(write bool, _, _ int64) bool { return write })
	r := k.Do(t.Context(), annex.Request{Op: annex.Evict, Runs: h.all()})
	t.Logf("%+v", r)
	usage, err := group.MemoryUsage()
	if err != nil || usage < testPages*annex.PageSize*9/10 {
		t.Errorf("%d bytes are in memory, %v", usage, err)
	}
	h.tell(t, "check", 0, testPages)
}

// What can be read comes back, what cannot is reported, and neither keeps the other.
func TestFailingReads(t *testing.T) {
	needs(t)
	device, system := swaptest.Failing(t, 64<<20)
	k := newKernel(t, Options{Medium: of(t, device)})
	for _, op := range []annex.Op{annex.Fetch, annex.Map} {
		t.Run(op.String(), func(t *testing.T) {
			h, group := grouped(t, "failing-"+op.String(), testPages)
			out(t, k, h, group, nil)
			const lost = testPages / segments
			system.Fail(failsReading(offsets(t, h, []annex.Run{h.run(0, lost)})))
			r := k.Do(t.Context(), annex.Request{Op: op, Runs: h.all()})
			t.Logf("%+v, %v", r, h.places(t))
			if op == annex.Map && (r.Err == nil || !strings.Contains(r.Err.Error(), "could not be read")) {
				t.Errorf("%v", r.Err)
			}
			h.tell(t, "check", lost, testPages-lost)
		})
	}
}
