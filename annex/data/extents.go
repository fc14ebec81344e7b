package data

import (
	"math/bits"
	"time"

	"tare/annex"
)

// stamp is a moment in steps of a tenth of a second.
type stamp uint32

const stampStep = 100 * time.Millisecond

func stampOf(at annex.Moment) stamp { return stamp(time.Duration(at) / stampStep) }

// extent is pages that lie together, in the multi-queue: its level is by how often it was
// used, and falls by one for each lifetime in which it was not. An extent whose pages left
// is a ghost: it keeps how often it was used, and a quick return raises it.
type extent struct {
	used stamp // last
	left stamp // when pages of it were last evicted; 0 is never, or not any more
	uses uint16
}

// levels of the queue: the last is that of 128 uses and more.
const levels = 8

// level is the queue that it is in now.
func (e *extent) level(now stamp, lifetime stamp) int {
	l := min(bits.Len16(e.uses), levels) // 0 uses 0, 1 use 1, 2 to 3 uses 2
	return max(0, l-int((max(now, e.used)-e.used)/lifetime))
}

// use counts one use in each step of time, from the level to which it has fallen.
func (e *extent) use(now stamp, p Policy) {
	if e.uses > 0 && now <= e.used {
		return
	}
	if l := e.level(now, p.lifetime()); l < min(bits.Len16(e.uses), levels) {
		e.uses = 1 << max(l, 1) >> 1 // the least of that level
	}
	if e.uses < 1<<levels {
		e.uses++
	}
	e.used = now
}

// leave makes it a ghost.
func (e *extent) leave(now stamp) { e.left = max(now, 1) }

// returns tells whether a page of it that is touched now was missed so soon after having
// left that it should have stayed; the first such page raises the extent a level.
func (e *extent) returns(now stamp, p Policy) bool {
	if e.left == 0 || now-e.left > stamp(p.Quick/stampStep) {
		return false
	}
	if e.used <= e.left && e.uses < 1<<(levels-1) {
		e.uses = max(e.uses*2, 1)
	}
	return true
}

// merge adds what is known of another that is now part of it.
func (e *extent) merge(o extent) {
	e.used, e.left, e.uses = max(e.used, o.used), max(e.left, o.left), max(e.uses, o.uses)
}

func (p Policy) lifetime() stamp { return max(stamp(p.Lifetime/stampStep), 1) }

// Extents are of 64 KiB in containers of up to 64 MiB, and of up to 2 MiB in larger ones.
const (
	leastShift  = 4
	mostShift   = 9
	extentsWant = 1024
)

// shiftFor is the size of extents for so many pages.
func shiftFor(pages int) uint8 {
	s := bits.Len(uint(max(pages-1, 0) / extentsWant))
	return uint8(min(max(s, leastShift), mostShift))
}

// resize has larger extents where the context has grown, or smaller ones where it has become a
// quarter; not at each step, since joining them forgets.
func (t *pageTable) resize() {
	pages := 0
	for a := range t.areas() {
		pages += len(a.cells)
	}
	want := shiftFor(pages)
	if want <= t.shift && want+2 > t.shift {
		return
	}
	t.shift = want
	for a := range t.areas() {
		old := *a
		a.shift = t.shift
		a.extents = make([]extent, (old.end()-1)>>t.shift-old.first>>t.shift+1)
		step := min(old.shift, t.shift)
		for p := old.first; p < old.end(); p = (p>>step + 1) << step {
			a.extent(p).merge(*old.extent(p))
		}
	}
}
