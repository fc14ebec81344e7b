package data

import (
	"slices"
	"sort"
	"time"

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
	return area{first: first, cells: make([]cell, pages), shift: shift, extents: make([]extent, last>>shift-first>>shift+1)}
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

// each calls do with every page of runs of which something is known.
func (c *context) each(runs []annex.Run, do func(s *space, a *area, p annex.Page, cell *cell)) {
	for _, r := range runs {
		s := c.find(r.Space)
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

// put changes what is known of a page, and keeps the tally right.
func (c *context) put(to *cell, flags uint8) {
	if to.flags == flags {
		return
	}
	c.tally[to.flags]--
	c.tally[flags]++
	to.flags = flags
	c.counted = false
	if to.movable() {
		c.dry, c.from = [2]bool{}, [walks]cursor{}
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
func (c *context) walk(from *cursor, do func(s *space, a *area, i int) (more bool)) {
	for ; from.space < len(c.spaces); from.space, from.area = from.space+1, 0 {
		s := c.spaces[from.space]
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

// counts are pages of a context by kind.
type counts struct {
	resident, swapped, away int
	record                  int // in the record, wherever they are
	recordAway              int // that could be fetched
	movable                 int
	loose                   int // movable, and in no record
	recordHere              int // movable, in the record, and wanted by no murmur
}

// count is the tally's sum. It is kept until a page changes.
func (c *context) count() counts {
	if c.counted {
		return c.counts
	}
	var n counts
	for f, k := range c.tally {
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
	c.counts, c.counted = n, true
	return n
}

// gap is from how many pages on that were never touched a stretch is taken as two.
const gap = 64

// segments calls do with the parts of a stretch that were touched.
func segments(s annex.Stretch, do func(first annex.Page, states []annex.State)) {
	begin, zeros := -1, 0
	for i, st := range s.States {
		switch {
		case st != 0:
			if begin < 0 {
				begin = i
			}
			zeros = 0
		case begin >= 0:
			if zeros++; zeros == gap {
				do(s.First+annex.Page(begin), s.States[begin:i+1-gap])
				begin, zeros = -1, 0
			}
		}
	}
	if begin >= 0 {
		do(s.First+annex.Page(begin), s.States[begin:len(s.States)-zeros])
	}
}

// scan takes what one look at all its spaces found, in place of what was known. They are
// judged together: what the context uses is the sum over them.
func (c *context) scan(spaces []annex.Scan, p Policy) {
	there := map[annex.Space]bool{}
	for _, s := range spaces {
		there[s.Space] = true
	}
	for _, s := range slices.Clone(c.spaces) {
		if !there[s.name] {
			c.forget(s.name)
		}
	}
	if len(spaces) == 0 {
		return
	}
	began, ended := spaces[0].Began, spaces[0].Ended
	for _, s := range spaces[1:] {
		began, ended = min(began, s.Began), max(ended, s.Ended)
	}
	c.scans++
	c.tight, c.dry, c.from = false, [2]bool{}, [walks]cursor{}
	c.sweep(tickOf(ended, p))
	look := c.lookAt(began, ended, p)
	for _, s := range spaces {
		look.knows = s.KnowsAccess
		c.space(s, look)
	}
	c.counted = false
	c.working, c.cold = look.working, look.cold
	c.ages.closed(ended, look.workingAll, p)
	c.lastScan, c.surveyed = began, c.learned
	if look.settled {
		c.short = false // what was passed by is known
	}
	c.resize()
}

// space takes what a look found of one space.
//
// Pages that were unmapped and mapped again may be in a request under way of which their
// cells know nothing: the manager marks them anew.
func (c *context) space(s annex.Scan, look *look) {
	sp := c.find(s.Space)
	if sp == nil {
		sp = &space{name: s.Space}
		c.spaces = append(c.spaces, sp)
		c.named[s.Space] = sp
	}
	var had collect
	for i := range sp.areas {
		for j, cell := range sp.areas[i].cells {
			c.tally[cell.flags]--
			if cell.flags&recorded != 0 {
				had.add(s.Space, sp.areas[i].first+annex.Page(j))
			}
		}
	}
	old, fresh, total := sp.areas, make([]area, 0, len(sp.areas)), 0
	next := 0 // of old, the first that may still overlap
	for _, stretch := range s.Stretches {
		segments(stretch, func(first annex.Page, states []annex.State) {
			total += len(states)
			a, known := c.carry(old, &next, first, len(states))
			look.update(&a, states, known)
			fresh = append(fresh, a)
		})
	}
	sp.areas = fresh
	for i := range fresh {
		for _, cell := range fresh[i].cells {
			c.tally[cell.flags]++
		}
	}
	if gone := sp.gone(had); gone.pages > 0 {
		c.predictor.Gone(gone.runs)
	}
}

// gone are those pages of a record of which a look has found nothing: they were unmapped, or given
// back.
func (s *space) gone(had collect) (gone collect) {
	var a *area
	for _, r := range had.runs {
		for p := r.First; p < r.End(); p++ {
			if a == nil || p < a.first || p >= a.end() {
				a = s.area(p)
			}
			if a == nil || a.cells[p-a.first].flags&recorded == 0 {
				gone.add(s.name, p)
			}
		}
	}
	return gone
}

// carry makes the area of pages with what is known of them from before; known tells
// whether all of it was one area already.
func (c *context) carry(old []area, next *int, first annex.Page, pages int) (a area, known bool) {
	end := first + annex.Page(pages)
	for *next < len(old) && old[*next].end() <= first {
		*next++
	}
	if *next < len(old) {
		if o := old[*next]; o.first == first && len(o.cells) == pages && o.shift == c.shift {
			*next++
			return o, true
		}
	}
	a = newArea(first, pages, c.shift)
	for i := range a.cells {
		a.cells[i].flags = fresh
	}
	for i := *next; i < len(old) && old[i].first < end; i++ {
		o := &old[i]
		from, to := max(first, o.first), min(end, o.end())
		copy(a.cells[from-first:to-first], o.cells[from-o.first:to-o.first])
		for p := from; p < to && (o.left != nil || o.marked()); p++ {
			a.inherit(int(p-first), o, int(p-o.first))
		}
		for p := from; p < to; p = (p>>o.shift + 1) << o.shift {
			a.extent(p).merge(*o.extent(p))
		}
	}
	return a, false
}

// fresh marks a cell, while a scan is taken, of which nothing was known: a combination that
// no page has.
const fresh = present | swapped | incore

// look is one scan as it is taken.
type look struct {
	c     *context
	p     Policy
	knows bool
	now   tick
	stamp stamp
	// ran tells that the context did work since the scan before, so that a bit which was
	// set already may have been set anew; and at is when it last did.
	ran bool
	at  tick
	// settled tells that nothing was moved since the scan began: what it says can be taken.
	settled bool

	working, workingAll int
	cold                [oldest + 1]uint32
}

func (c *context) lookAt(began, ended annex.Moment, p Policy) *look {
	l := &look{c: c, p: p, now: tickOf(ended, p), stamp: stampOf(ended), settled: began > c.moved}
	l.ran = c.awake && c.worked || c.lastRan >= c.lastScan
	l.at = l.now
	if !c.awake {
		l.at = min(l.now, tickOf(c.lastRan, p))
	}
	return l
}

// update takes the states of an area's pages.
func (l *look) update(a *area, states []annex.State, known bool) {
	window := uint8(min(l.p.Working/l.p.Tick, oldest))
	recent := uint8(min(l.p.Recent/l.p.Tick, oldest))
	defer func() { l.c.writes = l.c.writes || a.marked() }()
	for i, st := range states {
		to := &a.cells[i]
		isNew := l.c.surveyed && (to.flags == fresh || to.flags&(present|swapped|incore|moving) == 0)
		used := l.page(to, st)
		a.dirty(i, st, isNew)
		if used {
			a.extent(a.first+annex.Page(i)).use(l.stamp, l.p)
		}
		if !to.inMemory() {
			continue
		}
		age := to.age(l.now)
		if to.flags&(pinned|recorded|probed) == 0 {
			l.cold[age]++
		}
		if age <= window {
			l.workingAll++
		}
		if age <= recent {
			l.working++
		}
	}
}

// page takes the state of one page, and tells whether it has been used.
func (l *look) page(to *cell, st annex.State) (used bool) {
	was := to.flags
	if was == fresh {
		to.used = uint8(l.now)
		was = 0
		if st.Has(annex.Present) {
			was = present | young // seen for the first time is not used just now
		}
	}
	if st == 0 {
		to.flags = was & moving
		return false
	}
	f := was & (moving | recorded | probed)
	if was&moving != 0 || !l.settled && was&(present|swapped) != 0 {
		// What is under way says where it is when it is done.
		f |= was & (present | swapped | incore)
	} else {
		if st.Has(annex.Present) {
			f |= present
		} else if st.Has(annex.Swapped) {
			f |= swapped | was&incore
		}
	}
	// Of an eviction that moved less than was asked, what is still there was passed by; it is
	// tried again after a while.
	stuck := l.c.short && l.settled && f&present != 0 && was&(present|incore|swapped) == swapped
	if st.Has(annex.Shared) || stuck || was&pinned != 0 && l.c.scans%retryPinned != 0 {
		f |= pinned
	}
	if st.Has(annex.Accessed) {
		f |= young
	}
	if f&probed != 0 && to.age(l.now) >= uint8(min(probedFor/l.p.Tick, oldest)) {
		f &^= probed
	}
	if f&present != 0 && !stuck {
		switch {
		case was&present == 0: // it came by itself: touched, or new
			used = true
			if was&swapped != 0 {
				l.c.ages.promote(to.age(l.now))
			}
		case l.knows && f&young != 0 && was&young == 0:
			used = true
			l.c.ages.promote(to.age(l.now))
		case l.ran && (!l.knows || f&young != 0) && tick(to.age(l.now)) > l.now-l.at:
			to.used = uint8(l.at) // may be; it is no promotion
		}
	}
	if used {
		to.used = uint8(l.now)
	}
	if to.age(l.now) == oldest {
		to.used = uint8(l.now - oldest)
	}
	to.flags = f
	return used
}

// probedFor is for how long a page stays since a wake that did no work wanted it back. Who goes
// on wanting it shows that by wanting it back again, once; and who wants another page each time
// would in the end keep all of them.
const probedFor = 10 * time.Minute

// retryPinned is after how many scans what was passed by is tried again.
const retryPinned = 16

// sweep keeps ages from running around: it is due every sweepEach ticks, and comes before
// any use is noted that is later than that. So a use is at most sweepEach ticks after the
// last sweep, or at most oldest before it.
func (c *context) sweep(now tick) {
	if now < c.swept+sweepEach {
		return
	}
	behind := now - c.swept
	for _, s := range c.spaces {
		for i := range s.areas {
			cells := s.areas[i].cells
			for j := range cells {
				age := behind
				if d := cells[j].used - uint8(c.swept); d <= sweepEach {
					age -= tick(d)
				} else {
					age += tick(-d)
				}
				if age > oldest {
					cells[j].used = uint8(now - oldest)
				}
			}
		}
	}
	c.swept = now
}

// forget drops a space that has ended.
func (c *context) forget(name annex.Space) {
	for i, s := range c.spaces {
		if s.name != name {
			continue
		}
		for j := range s.areas {
			for _, cell := range s.areas[j].cells {
				c.tally[cell.flags]--
			}
		}
		c.counted, c.from = false, [walks]cursor{}
		c.spaces = slices.Delete(c.spaces, i, i+1)
		delete(c.named, name)
		break
	}
	c.predictor.Forget(name)
}
