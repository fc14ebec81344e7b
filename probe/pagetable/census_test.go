package pagetable

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"tare/kernel/procfs"
)

// expect holds a region to the entries that it must have: a page that is not
// in want has none. What is required must be set, and what is refused must not.
type expectation struct{ required, refused Entry }

func expect(t *testing.T, taker Taker, s *Space, name string, r region, kind Kind, want map[uint64]expectation) map[uint64]Entry {
	t.Helper()
	got := s.entries(r)
	for page, w := range want {
		e, ok := got[page]
		if !ok {
			t.Errorf("%s: %s: page %d has no entry", taker.Name(), name, page)
			continue
		}
		required := w.required
		if taker.Name() == "pagemap" {
			required &^= Writable | Dirty // which only the walk knows
		}
		if !e.Has(required) || e&w.refused != 0 {
			t.Errorf("%s: %s: page %d is %#x, want %#x set and %#x not", taker.Name(), name, page, e, required, w.refused)
		}
	}
	for page, e := range got {
		if _, ok := want[page]; !ok {
			t.Errorf("%s: %s: page %d is %#x, want none", taker.Name(), name, page, e)
		}
	}
	if k := s.kindAt(r); k != kind {
		t.Errorf("%s: %s is of kind %d, want %d", taker.Name(), name, k, kind)
	}
	return got
}

// all expects the same of some pages.
func all(w expectation, pages ...uint64) map[uint64]expectation {
	m := map[uint64]expectation{}
	for _, p := range pages {
		m[p] = w
	}
	return m
}

func upTo(n uint64) (pages []uint64) {
	for i := range n {
		pages = append(pages, i)
	}
	return pages
}

var (
	// Not Accessed: the kernel may clear it at any time, to learn what is in use.
	written  = expectation{Present | Writable | Dirty, Swapped | Zero | Huge | FileFrame}
	zeroPage = expectation{Present | Zero, Swapped | Writable | Huge | FileFrame}
	ofFile   = expectation{Present | FileFrame, Swapped | Zero | Huge | Anon}
)

func both(t *testing.T, do func(t *testing.T, taker Taker, flags bool)) []Taker {
	t.Helper()
	all := takers(t)
	for _, taker := range all {
		do(t, taker, false)
		do(t, taker, true)
	}
	return all
}

func TestAnonymousMemory(t *testing.T) {
	h := start(t, "anonymous")
	agree(t, both(t, func(t *testing.T, taker Taker, flags bool) {
		s := spaceOf(t, take(t, taker, flags, h.pid), h.pid)
		s.well(t, taker.Name())
		want := written
		if flags {
			want.required |= Anon | SwapBacked
		}
		expect(t, taker, s, "touched", h.at["touched"], Anonymous, all(want, 0, 1, 2, 10))
		expect(t, taker, s, "untouched", h.at["untouched"], Anonymous, nil)
		zero := all(zeroPage, 0, 1, 2)
		zero[3] = want
		expect(t, taker, s, "zero", h.at["zero"], Anonymous, zero)
	}), h.pid)
}

func TestMappedFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, bytes.Repeat([]byte("tare"), 2*PageSize), 0o644); err != nil {
		t.Fatal(err)
	}
	h := start(t, "file", file)
	agree(t, both(t, func(t *testing.T, taker Taker, flags bool) {
		s := spaceOf(t, take(t, taker, flags, h.pid), h.pid)
		s.well(t, taker.Name())
		// A file that is mapped executable anywhere is a library everywhere.
		want := all(ofFile, upTo(8)...)
		want[3], want[5] = written, written
		private := expect(t, taker, s, "private", h.at["private"], Library, want)
		shared := expect(t, taker, s, "shared", h.at["shared"], Library, all(ofFile, upTo(8)...))
		code := expect(t, taker, s, "code", h.at["code"], Library, all(ofFile, upTo(4)...))
		for i := range uint64(8) {
			copied := i == 3 || i == 5
			if same := private[i].Frame() == shared[i].Frame(); same == copied {
				t.Errorf("%s: page %d has the same frame privately and shared: %v", taker.Name(), i, same)
			}
			if i >= 4 && code[i-4].Frame() != shared[i].Frame() {
				t.Errorf("%s: page %d has another frame where it is mapped at an offset", taker.Name(), i)
			}
		}
		for _, m := range s.Mappings {
			if m.File == file && (m.Inode == 0 || m.Device == 0) {
				t.Errorf("%s: the file is reported without its identity: %+v", taker.Name(), m)
			}
		}
	}), h.pid)
}

func TestFork(t *testing.T) {
	h := start(t, "fork")
	child := h.pids["child"][0]
	takers := takers(t)
	for _, wrote := range []bool{false, true} {
		for _, taker := range takers {
			c := take(t, taker, true, h.pid, child)
			parent, child := spaceOf(t, c, h.pid).entries(h.at["forked"]), spaceOf(t, c, child).entries(h.at["forked"])
			if len(parent) != 4 || len(child) != 4 {
				t.Fatalf("%s: %d and %d entries, want 4 each", taker.Name(), len(parent), len(child))
			}
			for i := range uint64(4) {
				own := wrote && i == 1
				if same := parent[i].Frame() == child[i].Frame(); same == own {
					t.Errorf("%s: page %d has the same frame in both: %v (the child wrote: %v)", taker.Name(), i, same, wrote)
				}
				if taker.Name() == "page tables" && child[i].Has(Writable) != own {
					t.Errorf("%s: page %d of the child is %#x (it wrote: %v)", taker.Name(), i, child[i], wrote)
				}
				if taker.Name() == "pagemap" && child[i].Has(SharedFrame) == own {
					t.Errorf("%s: page %d of the child is %#x (it wrote: %v)", taker.Name(), i, child[i], wrote)
				}
			}
		}
		agree(t, takers, h.pid, child)
		if !wrote {
			h.step()
		}
	}
}

func TestSharedMemory(t *testing.T) {
	h := start(t, "shared")
	agree(t, both(t, func(t *testing.T, taker Taker, flags bool) {
		s := spaceOf(t, take(t, taker, flags, h.pid), h.pid)
		want := all(ofFile, upTo(4)...)
		one := expect(t, taker, s, "one", h.at["one"], SharedMemory, want)
		two := expect(t, taker, s, "two", h.at["two"], SharedMemory, want)
		expect(t, taker, s, "nameless", h.at["nameless"], SharedMemory, want)
		expect(t, taker, s, "sysv", h.at["sysv"], SharedMemory, want)
		for i := range uint64(4) {
			if one[i].Frame() != two[i].Frame() {
				t.Errorf("%s: page %d of one memory has two frames", taker.Name(), i)
			}
		}
	}), h.pid)
}

func TestHugePages(t *testing.T) {
	h := start(t, "huge")
	takers := takers(t)
	hugeIs := written
	hugeIs.required |= Huge
	hugeIs.refused &^= Huge
	hugeZero := expectation{Present | Huge | Zero, FileFrame | Writable | Swapped}
	pages := upTo(512)
	made := func(taker Taker) bool {
		return spaceOf(t, take(t, taker, false, h.pid), h.pid).entries(h.at["whole"])[0].Has(Huge)
	}
	if !made(takers[0]) {
		t.Skip("the kernel gives no huge page now (/sys/kernel/mm/transparent_hugepage/enabled, or memory is in pieces)")
	}
	for _, taker := range takers {
		s := spaceOf(t, take(t, taker, false, h.pid), h.pid)
		s.well(t, taker.Name())
		for _, name := range []string{"whole", "protected", "given", "part"} {
			got := expect(t, taker, s, name, h.at[name], Anonymous, all(hugeIs, pages...))
			for i := range uint64(512) {
				if got[i].Frame() != got[0].Frame()+i {
					t.Fatalf("%s: %s: page %d has frame %d, the first %d", taker.Name(), name, i, got[i].Frame(), got[0].Frame())
				}
			}
		}
		expect(t, taker, s, "zero", h.at["zero"], Anonymous, all(hugeZero, pages...))
	}
	agree(t, takers, h.pid)
	h.step()
	for _, taker := range takers {
		s := spaceOf(t, take(t, taker, true, h.pid), h.pid)
		s.well(t, taker.Name())
		base := written
		base.required |= Anon
		protected := all(base, pages...)
		protected[7] = expectation{Present, Writable | Huge}
		expect(t, taker, s, "protected", h.at["protected"], Anonymous, protected)
		for name, hole := range map[string]uint64{"given": 9, "part": 11} {
			want := all(base, pages...)
			delete(want, hole)
			expect(t, taker, s, name, h.at[name], Anonymous, want)
		}
		expect(t, taker, s, "whole", h.at["whole"], Anonymous, all(expectation{Present | Huge | Anon | THP | Large, Writable | Swapped}, pages...))
	}
	agree(t, takers, h.pid)
}

func TestForbiddenMemory(t *testing.T) {
	h := start(t, "forbidden")
	takers := takers(t)
	before := spaceOf(t, take(t, takers[0], false, h.pid), h.pid).entries(h.at["none"])
	if len(before) != 4 {
		t.Fatalf("%d entries before, want 4", len(before))
	}
	h.step()
	for _, taker := range takers {
		s := spaceOf(t, take(t, taker, true, h.pid), h.pid)
		got := expect(t, taker, s, "none", h.at["none"], Anonymous, all(expectation{Present | Anon, Writable | Swapped}, upTo(4)...))
		for i, e := range got {
			if e.Frame() != before[i].Frame() {
				t.Errorf("%s: page %d is in frame %d once it may not be touched, and was in %d", taker.Name(), i, e.Frame(), before[i].Frame())
			}
		}
		if h.says["guards"] == "yes" {
			expect(t, taker, s, "guarded", h.at["guarded"], Anonymous, all(written, 0))
		}
	}
	agree(t, takers, h.pid)
}

func TestFarMappings(t *testing.T) {
	h := start(t, "far")
	agree(t, both(t, func(t *testing.T, taker Taker, flags bool) {
		s := spaceOf(t, take(t, taker, flags, h.pid), h.pid)
		s.well(t, taker.Name())
		expect(t, taker, s, "across", h.at["across"], Anonymous, all(written, upTo(4)...))
		want := map[uint64]expectation{}
		for i := range uint64(32) {
			want[i<<23+3] = written
		}
		expect(t, taker, s, "sparse", h.at["sparse"], Anonymous, want)
	}), h.pid)
}

// The tables are counted to the page: VmPTE of the kernel counts the three lower
// levels, and for each huge page of anonymous memory a table that is kept to
// split it, which is in no tree.
func TestTablesAreCounted(t *testing.T) {
	for _, scenario := range []string{"anonymous", "far", "huge"} {
		h := start(t, scenario)
		for _, taker := range takers(t) {
			s := spaceOf(t, take(t, taker, true, h.pid), h.pid)
			status, err := procfs.Host.Process(h.pid).Status()
			if err != nil {
				t.Fatal(err)
			}
			kept := uint64(0)
			for _, r := range s.Runs {
				for i, e := range r.Entries {
					if e.Has(Huge) && (r.Page+uint64(i))%tableEntries == 0 {
						kept++
					}
				}
			}
			got := (s.Tables.PTE + s.Tables.PMD + s.Tables.PUD + kept) * PageSize
			if taker.Name() == "page tables" && (got != status.PageTables || !s.Tables.Known) {
				t.Errorf("%s: %+v and %d kept are %d bytes of page tables, the kernel says %d", scenario, s.Tables, kept, got, status.PageTables)
			}
			if taker.Name() == "pagemap" && (got > status.PageTables || s.Tables.Known || s.Tables.PTE == 0) {
				t.Errorf("%s: at least %+v and %d kept, the kernel says %d bytes", scenario, s.Tables, kept, status.PageTables)
			}
		}
	}
}
