package data

import (
	"iter"
	"slices"
	"sort"
	"time"
	"unsafe"

	"tare/annex"
)

// What is known of a page.
const (
	present  uint8 = 1 << iota // mapped
	swapped                    // its entry names a place in swap
	incore                     // swapped, and brought into memory without being mapped
	pinned                     // eviction does not move it: shared, or tried in vain
	moving                     // in a request under way
	recorded                   // in the record of what its container touches when awake
	probed                     // touched by a wake that did no work
	young                      // its accessed bit was set at the last scan
)

// cell is what is kept of a page: two bytes.
type cell struct {
	used  uint8 // the tick of its last use, modulo 256
	flags uint8
}

// inMemory tells whether the page takes memory.
func (c cell) inMemory() bool { return c.flags&(present|incore) != 0 }

// movable tells whether eviction may have it.
func (c cell) movable() bool { return c.inMemory() && c.flags&(pinned|moving) == 0 }

// away tells whether it could be fetched.
func (c cell) away() bool { return c.flags&(present|incore|moving|swapped) == swapped }

// tick counts the policy's ticks since the clock's zero.
type tick uint64

func tickOf(at annex.Moment, p Policy) tick { return tick(time.Duration(at) / p.Tick) }

// oldest is the age at which pages stay. A page may be up to oldest ticks behind, and the
// rest of the range is what may pass between two sweeps.
const (
	oldest    = 240
	sweepEach = 8
)

// age is for how many ticks a page has not been used.
func (c cell) age(now tick) uint8 { return min(uint8(now)-c.used, oldest) }

// area is consecutive pages of a space of which something is known.
type area struct {
	first   annex.Page
	cells   []cell
	shift   uint8 // log2 of the pages of an extent
	extents []extent
	left    marks // pages that left at least once
	written marks // pages that were written after they had come back
	// born are pages that came into being in the last activations, those of the last few apart
	// from those of as many before.
	born [2]marks
}

func (a *area) end() annex.Page { return a.first + annex.Page(len(a.cells)) }

// extent is the extent that a page lies in; extents lie at multiples of their size, so that an area
// that grows at its beginning keeps them.
func (a *area) extent(p annex.Page) *extent { return &a.extents[p>>a.shift-a.first>>a.shift] }

func newArea(first annex.Page, pages int, shift uint8) area {
	last := first + annex.Page(pages) - 1
	return area{
		first:   first,
		cells:   make([]cell, pages),
		shift:   shift,
		extents: make([]extent, last>>shift-first>>shift+1),
	}
}

// space is one address space of a context.
type space struct {
	name  annex.Space
	areas []area
}

// area is the one that holds a page; nil where nothing is known of it.
func (s *space) area(p annex.Page) *area {
	i := sort.Search(len(s.areas), func(i int) bool { return s.areas[i].end() > p })
	if i == len(s.areas) || s.areas[i].first > p {
		return nil
	}
	return &s.areas[i]
}

// pageTable is what is known of a context's pages.
type pageTable struct {
	spaces []*space
	byName map[annex.Space]*space // the same
	shift  uint8                  // log2 of the pages of an extent of new areas

	tally     [256]int32 // pages by their flags
	counts    counts     // the sum of tally, where isCounted
	isCounted bool

	sweptAt tick
	// hasWritten tells that pages were written after they had come back.
	hasWritten bool

	// cursors are where each search goes on: before it nothing was found.
	cursors [walks]cursor
	// isExhausted tells that nothing more of the record (or of a container without one) may leave:
	// [0] pages that are only read, [1] pages that are written.
	isExhausted [2]bool
}

func newPageTable(now tick) pageTable {
	return pageTable{byName: map[annex.Space]*space{}, shift: leastShift, sweptAt: now}
}

// clear forgets all pages.
func (t *pageTable) clear() {
	t.spaces, t.byName, t.tally, t.isCounted = nil, map[annex.Space]*space{}, [256]int32{}, false
}

// find is the space of a name; nil where there is none.
func (t *pageTable) find(name annex.Space) *space { return t.byName[name] }

// areas goes through all areas.
func (t *pageTable) areas() iter.Seq2[*area, *space] {
	return func(yield func(*area, *space) bool) {
		for _, s := range t.spaces {
			for i := range s.areas {
				if !yield(&s.areas[i], s) {
					return
				}
			}
		}
	}
}

// size is what it takes, in bytes.
func (t *pageTable) size() (n int64) {
	n = int64(len(t.spaces)) * int64(unsafe.Sizeof(space{}))
	for _, s := range t.spaces {
		n += int64(cap(s.areas)) * int64(unsafe.Sizeof(area{}))
		for i := range s.areas {
			n += int64(cap(s.areas[i].cells))*int64(unsafe.Sizeof(cell{})) +
				int64(cap(s.areas[i].extents))*int64(unsafe.Sizeof(extent{})) + s.areas[i].markBytes()
		}
	}
	return n
}

// restart has all pages be gone through from the beginning.
func (t *pageTable) restart() { t.cursors, t.isExhausted = [walks]cursor{}, [2]bool{} }

// each calls do with every page of runs of which something is known.
func (t *pageTable) each(runs []annex.Run, do func(s *space, a *area, p annex.Page, cell *cell)) {
	for _, r := range runs {
		s := t.find(r.Space)
		if s == nil {
			continue
		}
		for p := r.First; p < r.End(); {
			a := s.area(p)
			if a == nil {
				p++
				continue
			}
			for end := min(a.end(), r.End()); p < end; p++ {
				do(s, a, p, &a.cells[p-a.first])
			}
		}
	}
}

// put changes what is known of a page, and keeps the tally.
func (t *pageTable) put(to *cell, flags uint8) {
	if to.flags == flags {
		return
	}
	t.tally[to.flags]--
	t.tally[flags]++
	to.flags = flags
	t.isCounted = false
	if to.movable() {
		t.restart()
	}
}

// cursor is up to where pages were gone through for a purpose: before it there is none to be had
// until one becomes movable, or is looked at anew.
type cursor struct {
	space, area, cell int
	at                tick
}

// The purposes.
const (
	ofLoose   = iota // pages of no record that are only read
	ofWritten        // and those that are written
	ofCold
	walks
)

// walk calls do with the pages from a cursor on, in the order of addresses, until it has enough, and
// leaves the cursor there.
func (t *pageTable) walk(from *cursor, do func(s *space, a *area, i int) (more bool)) {
	for ; from.space < len(t.spaces); from.space, from.area = from.space+1, 0 {
		s := t.spaces[from.space]
		for ; from.area < len(s.areas); from.area, from.cell = from.area+1, 0 {
			a := &s.areas[from.area]
			for ; from.cell < len(a.cells); from.cell++ {
				if !do(s, a, from.cell) {
					return
				}
			}
		}
	}
}

// before tells whether walk comes to a page before another.
func (t *pageTable) before(a, b pageOf) bool {
	if a.space == b.space {
		return a.page < b.page
	}
	for _, s := range t.spaces {
		if s.name == a.space || s.name == b.space {
			return s.name == a.space
		}
	}
	return false
}

// counts are pages of a context by kind.
type counts struct {
	resident, swapped, away int
	record                  int // in the record, wherever they are
	recordAway              int // that could be fetched
	movable                 int
	loose                   int // movable, and in no record
	recordHere              int // movable, in the record, and needed by no health probe
}

// count is the tally's sum. It is kept until a page changes.
func (t *pageTable) count() counts {
	if t.isCounted {
		return t.counts
	}
	var n counts
	for f, k := range t.tally {
		if k == 0 {
			continue
		}
		k, page := int(k), cell{flags: uint8(f)}
		if page.inMemory() {
			n.resident += k
		}
		if page.flags&swapped != 0 {
			n.swapped += k
		}
		if page.away() {
			n.away += k
		}
		if page.flags&recorded != 0 {
			n.record += k
			if page.away() {
				n.recordAway += k
			}
		}
		if page.movable() {
			n.movable += k
			switch page.flags & (recorded | probed) {
			case 0:
				n.loose += k
			case recorded:
				n.recordHere += k
			}
		}
	}
	t.counts, t.isCounted = n, true
	return n
}

// sweep keeps ages from running around: it is due every sweepEach ticks, and comes before
// any use is noted that is later than that. So a use is at most sweepEach ticks after the
// last sweep, or at most oldest before it.
func (t *pageTable) sweep(now tick) {
	if now < t.sweptAt+sweepEach {
		return
	}
	behind := now - t.sweptAt
	for a := range t.areas() {
		for j := range a.cells {
			age := behind
			if d := a.cells[j].used - uint8(t.sweptAt); d <= sweepEach {
				age -= tick(d)
			} else {
				age += tick(-d)
			}
			if age > oldest {
				a.cells[j].used = uint8(now - oldest)
			}
		}
	}
	t.sweptAt = now
}

// forget drops a space that has ended.
func (t *pageTable) forget(name annex.Space) {
	i := slices.IndexFunc(t.spaces, func(s *space) bool { return s.name == name })
	if i < 0 {
		return
	}
	for _, a := range t.spaces[i].areas {
		for _, cell := range a.cells {
			t.tally[cell.flags]--
		}
	}
	t.isCounted, t.cursors = false, [walks]cursor{}
	t.spaces = slices.Delete(t.spaces, i, i+1)
	delete(t.byName, name)
}
