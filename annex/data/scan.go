package data

import (
	"slices"
	"time"

	"tare/annex"
)

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

// scans is what the looks at the page tables of a context have come to.
type scans struct {
	count     int
	lastBegan annex.Moment
	lastMove  annex.Moment // when a request for the context ended last
	// passedBy tells that an eviction since the last scan moved less than was asked for.
	passedBy bool
	// hadRecord tells that there was a record at the last scan, so that what is there since is new.
	hadRecord bool
}

// scan takes what one look at all its spaces found, in place of what was known. They are
// judged together: what the context uses is the sum over them.
func (c *context) scan(spaces []annex.Scan, p Policy) {
	there := map[annex.Space]bool{}
	for _, s := range spaces {
		there[s.Space] = true
	}
	for _, s := range slices.Clone(c.pages.spaces) {
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
	c.scans.count++
	c.evict.isTight = false
	c.pages.restart()
	c.pages.sweep(tickOf(ended, p))
	look := c.look(began, ended, p)
	for _, s := range spaces {
		look.knowsAccess = s.KnowsAccess
		look.space(s)
	}
	c.pages.isCounted = false
	c.coldness.histogram = look.cold
	c.coldness.closed(ended, look.working, p)
	c.scans.lastBegan, c.scans.hadRecord = began, c.record.exists
	if look.isSettled {
		c.scans.passedBy = false // which pages they were is known
	}
	c.pages.resize()
}

// space takes what a look found of one space.
//
// Pages that were unmapped and mapped again may be in a request under way of which their
// cells know nothing: the manager marks them anew.
func (l *look) space(s annex.Scan) {
	t := &l.c.pages
	sp := t.find(s.Space)
	if sp == nil {
		sp = &space{name: s.Space}
		t.spaces = append(t.spaces, sp)
		t.byName[s.Space] = sp
	}
	var had collect
	for i := range sp.areas {
		for j, cell := range sp.areas[i].cells {
			t.tally[cell.flags]--
			if cell.flags&recorded != 0 {
				had.add(s.Space, sp.areas[i].first+annex.Page(j))
			}
		}
	}
	old, fresh := sp.areas, make([]area, 0, len(sp.areas))
	next := 0 // of old, the first that may still overlap
	for _, stretch := range s.Stretches {
		segments(stretch, func(first annex.Page, states []annex.State) {
			a := t.carry(old, &next, first, len(states))
			l.update(&a, states)
			fresh = append(fresh, a)
		})
	}
	sp.areas = fresh
	for i := range fresh {
		for _, cell := range fresh[i].cells {
			t.tally[cell.flags]++
		}
	}
	if gone := sp.gone(had); gone.pages > 0 {
		l.c.predictor.Gone(gone.runs)
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

// carry makes the area of pages with what is known of them from before.
func (t *pageTable) carry(old []area, next *int, first annex.Page, pages int) area {
	end := first + annex.Page(pages)
	for *next < len(old) && old[*next].end() <= first {
		*next++
	}
	if *next < len(old) {
		if o := old[*next]; o.first == first && len(o.cells) == pages && o.shift == t.shift {
			*next++
			return o
		}
	}
	a := newArea(first, pages, t.shift)
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
	return a
}

// fresh marks a cell, while a scan is taken, of which nothing was known: a combination that
// no page has.
const fresh = present | swapped | incore

// look is one scan as it is taken.
type look struct {
	c     *context
	p     Policy
	now   tick
	stamp stamp
	// knowsAccess tells whether the bits say which pages were accessed.
	knowsAccess bool
	// ran tells that the context did work since the scan before, so that a bit which was
	// set already may have been set anew; and ranAt is when it last did.
	ran   bool
	ranAt tick
	// isSettled tells that nothing was moved since the scan began: what it says can be taken.
	isSettled bool

	working int                // pages of the working set
	cold    [oldest + 1]uint32 // of pages in memory that are in no record, by age
}

func (c *context) look(began, ended annex.Moment, p Policy) *look {
	l := &look{c: c, p: p, now: tickOf(ended, p), stamp: stampOf(ended), isSettled: began > c.scans.lastMove}
	l.ran = c.activity.state == active || c.activity.lastWork >= c.scans.lastBegan
	l.ranAt = l.now
	if !c.activity.isAwake() {
		l.ranAt = min(l.now, tickOf(c.activity.lastWork, p))
	}
	return l
}

// update takes the states of an area's pages.
func (l *look) update(a *area, states []annex.State) {
	window := uint8(min(l.p.Working/l.p.Tick, oldest))
	for i, st := range states {
		to := &a.cells[i]
		isNew := l.c.scans.hadRecord && (to.flags == fresh || to.flags&(present|swapped|incore|moving) == 0)
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
			l.working++
		}
	}
	l.c.pages.hasWritten = l.c.pages.hasWritten || a.marked()
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
	if was&moving != 0 || !l.isSettled && was&(present|swapped) != 0 {
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
	stuck := l.c.scans.passedBy && l.isSettled && f&present != 0 && was&(present|incore|swapped) == swapped
	if st.Has(annex.Shared) || stuck || was&pinned != 0 && l.c.scans.count%retryPinned != 0 {
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
				l.c.coldness.promote(to.age(l.now))
			}
		case l.knowsAccess && f&young != 0 && was&young == 0:
			used = true
			l.c.coldness.promote(to.age(l.now))
		case l.ran && (!l.knowsAccess || f&young != 0) && tick(to.age(l.now)) > l.now-l.ranAt:
			to.used = uint8(l.ranAt) // may be; it is no promotion
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
