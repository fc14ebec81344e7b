package data

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"tare/annex"
	"tare/annex/predict"
)

// room is what is needed, and of whom it may be had.
type room struct {
	pages int
	// after is the moment that the next activation of whose pages leave must be later than; 0
	// is any.
	after annex.Moment
	// isHeadroom tells that it is memory itself that is short, and not room for what comes.
	isHeadroom bool
}

// eviction is one plan of what leaves.
type eviction struct {
	m        *Manager
	left     int // pages that may still be asked for
	looked   int // extents, for what awake containers could spare
	asleep   []*context
	requests []annex.Request
}

// needs are what room is wanted, the most urgent first.
func (m *Manager) needs(brings []*context) []room {
	p, available := m.policy, m.available()
	switch {
	case available < p.low():
		m.isEvicting = true
	case available >= p.high():
		m.isEvicting = false
	}
	var needs []room
	spare := available - p.low()
	if m.isEvicting {
		// While some is on its way out it is not topped up page by page.
		if short := p.high() - available; available < p.low() || short >= p.Piece || m.leaving == 0 {
			needs = append(needs, room{pages: short, isHeadroom: true})
		}
		spare = p.high() - p.low()
	}
	for _, c := range brings {
		plan := c.fetch.plan
		if plan == nil || plan.onlySpare || m.errors.over {
			continue
		}
		want := max(0, min(c.pages.count().recordAway, c.room(p)))
		if short := want - spare; short > 0 {
			needs = append(needs, room{pages: short, after: plan.expected})
		}
		spare = max(0, spare-want)
	}
	return needs
}

// evict asks for what is to leave.
func (m *Manager) evict(brings []*context) []annex.Request {
	needs := m.needs(brings)
	if len(needs) == 0 {
		return nil
	}
	brake := m.critical()
	e := eviction{m: m, left: min(m.policy.MostLeaving-m.leaving, m.swapRoom())}
	// As long as there is room for what an awake container waits for, the device is its.
	if len(brings) > 0 && brings[0].fetch.plan != nil && brings[0].fetch.plan.why == annex.Awake &&
		m.ready() > m.policy.reserve()+pieces*m.policy.Piece {
		e.left = min(e.left, m.policy.Piece-m.leaving)
	}
	if brake == 0 || e.left <= 0 || m.leaving > 0 && e.left < m.policy.Piece {
		return nil
	}
	e.asleep = m.asleep()
	for _, n := range needs {
		n.pages = int(float64(n.pages) * brake)
		e.make(n)
	}
	return e.requests
}

// swapRoom is how many pages swap may still take.
func (m *Manager) swapRoom() int { return m.memory.swapRoom(m.policy.SwapReserve) - m.leaving }

// swapRoom is how many more pages of one context may be in swap.
func (c *context) swapRoom() int {
	if c.info.SwapMost == 0 {
		return 1 << 30
	}
	return int(c.info.SwapMost/annex.PageSize) - c.pages.count().swapped - c.evict.leaving
}

// make finds room, in the order of the package's documentation.
func (e *eviction) make(n room) {
	e.leftover(&n)
	e.cold(&n)
	e.loose(&n)
	e.records(&n)
	m := e.m
	if !n.isHeadroom || n.pages <= 0 || e.left <= 0 || m.now < m.nextSpare {
		return
	}
	m.nextSpare = m.now.After(spareEvery)
	e.overShare(&n)
	if short := m.policy.reserve() - m.available(); short > 0 {
		n.pages = min(n.pages, short+m.policy.Piece)
		e.last(&n)
	}
}

// spareEvery is how far apart the looks are at what awake containers could spare: in so short a
// time next to nothing of it grows old.
const spareEvery = 50 * time.Millisecond

// most is how many pages may be had of a context.
func (e *eviction) most(c *context, n *room) int {
	return max(0, min(n.pages, e.left, c.swapRoom()))
}

// take asks for what was collected.
func (e *eviction) take(c *context, n *room, why annex.Reason, g collect, says string) {
	if g.pages == 0 {
		return
	}
	n.pages -= g.pages
	e.left -= g.pages
	e.requests = append(e.requests, e.m.ask(c, annex.Evict, why, g.runs, 0, says)...)
}

// cold takes what has not been used for longer than its container's threshold.
func (e *eviction) cold(n *room) {
	m := e.m
	now := tickOf(m.now, m.policy)
	for _, c := range m.contexts {
		most := int(float64(e.most(c, n)) * c.pressure.brake(m.policy.ElasticLimit))
		if most == 0 || c.coldness.threshold == none || !m.isWarm(c) || c.coldPages(m.now, m.policy) == 0 {
			continue
		}
		var g collect
		// Pages grow old besides.
		if c.pages.cursors[ofCold].at != now {
			c.pages.cursors[ofCold] = cursor{at: now}
		}
		c.pages.walk(&c.pages.cursors[ofCold], func(s *space, a *area, i int) bool {
			if cell := a.cells[i]; cell.movable() && cell.flags&(recorded|probed) == 0 &&
				cell.age(now) >= c.coldness.threshold {
				g.add(s.name, a.first+annex.Page(i))
			}
			return g.pages < most
		})
		if g.pages < most {
			c.coldness.histogram = [oldest + 1]uint32{} // there is no more until the next scan
		}
		threshold := time.Duration(c.coldness.threshold) * m.policy.Tick
		e.take(c, n, annex.Cold, g, fmt.Sprintf("not used for %v, from which age few of its pages are used again", threshold))
	}
}

// coldPages is how many pages may be cold by now, as far as the last scan tells.
func (c *context) coldPages(now annex.Moment, p Policy) int {
	since := int(tickOf(now, p) - tickOf(c.scans.lastBegan, p))
	n := 0
	for _, k := range c.coldness.histogram[min(max(int(c.coldness.threshold)-since-1, 0), oldest):] {
		n += int(k)
	}
	return n
}

// loose takes what sleeping containers have in memory beside their records.
func (e *eviction) loose(n *room) {
	for _, c := range e.asleep {
		most := e.most(c, n)
		if most == 0 || !c.record.exists || c.evict.isTight || c.pages.count().loose == 0 {
			continue
		}
		g := c.pages.unrecorded(most, false)
		c.evict.isTight = g.pages < most
		e.take(c, n, annex.Dormant, g, "sleeps, and its last activations did not touch these")
	}
}

// unrecorded are pages of no record and no health probe: those that are written or new, or the others.
// What is written is kept, and so is in no record, as that is made of what had to come back.
func (t *pageTable) unrecorded(most int, isWritten bool) (g collect) {
	from := &t.cursors[ofLoose]
	if isWritten {
		from = &t.cursors[ofWritten]
	}
	t.walk(from, func(s *space, a *area, i int) bool {
		if g.pages >= most {
			return false
		}
		if cell := a.cells[i]; cell.movable() && cell.flags&(recorded|probed) == 0 && a.wears(i) == isWritten {
			g.add(s.name, a.first+annex.Page(i))
		}
		return true
	})
	return g
}

// records takes the records of sleeping containers, and all of one that has none yet.
func (e *eviction) records(n *room) {
	m := e.m
	var early []leaver
	for _, l := range m.leavers(e.asleep) {
		c := l.context
		if e.most(c, n) == 0 || m.isAwaited(c) || n.after != 0 && l.at <= n.after {
			continue
		}
		if m.isEarly(c) {
			if n.isHeadroom && !l.isWritten {
				early = append(early, l)
			}
			continue
		}
		if l.isWritten && len(early) > 0 && !c.pages.isExhausted[1] {
			// Each of these costs a write besides: rather others that wake sooner than pays, as far
			// as that is worth what is written.
			written := c.pages.written(e.most(c, n))
			if written == 0 {
				c.pages.isExhausted[1] = true
				continue
			}
			instead := *n
			instead.pages = min(n.pages, writeWeight*written)
			n.pages -= instead.pages
			for _, s := range early {
				e.record(s, &instead)
			}
			n.pages += instead.pages
		}
		e.record(l, n)
	}
}

// record takes of one of them, or of the part that is written.
func (e *eviction) record(l leaver, n *room) {
	m, c := e.m, l.context
	isExhausted := &c.pages.isExhausted[l.part()]
	if e.most(c, n) == 0 || *isExhausted || c.record.exists && c.pages.count().recordHere == 0 && !l.isWritten {
		return
	}
	says := fmt.Sprintf("memory is short, and it last worked %v ago", c.activity.idle(m.now).Round(time.Millisecond))
	if c.expected.isKnown {
		says = fmt.Sprintf("memory is short, and it is likely to wake in %v, later than others", c.expected.Likely.Since(m.now).Round(time.Millisecond))
	}
	if !c.record.exists {
		e.take(c, n, annex.Dormant, c.pages.unrecorded(e.most(c, n), l.isWritten), says)
		*isExhausted = e.most(c, n) > 0
		return
	}
	record := m.ranking(c)
	for _, isCertain := range []bool{false, true} {
		e.take(c, n, annex.Headroom, c.pages.tail(record, isCertain, l.isWritten, e.most(c, n)), says)
	}
	if l.isWritten {
		e.take(c, n, annex.Headroom, c.pages.unrecorded(e.most(c, n), true), says)
	}
	*isExhausted = e.most(c, n) > 0
}

// written is how many pages may leave that are written, or new; no more than so many are counted.
func (t *pageTable) written(most int) (pages int) {
	for a := range t.areas() {
		if !a.marked() {
			continue
		}
		for j, cell := range a.cells {
			if pages >= most {
				return pages
			}
			if cell.movable() && cell.flags&probed == 0 && a.wears(j) {
				pages++
			}
		}
	}
	return pages
}

// tail takes pages from the end of the record, in the order of first touch: those of which each
// of the last activations made use, or the others; and of these those that are written, or the
// others.
func (t *pageTable) tail(record []predict.Ranked, isCertain, isWritten bool, most int) collect {
	var back []annex.Run // from the last on
	pages := 0
	var s *space
	var a *area // the last that was found: runs lie together
	for i := len(record) - 1; i >= 0 && pages < most; i-- {
		r := record[i]
		if r.Certain != isCertain {
			continue
		}
		if s == nil || s.name != r.Run.Space {
			if s, a = t.find(r.Run.Space), nil; s == nil {
				continue
			}
		}
		for p := r.Run.End(); p > r.Run.First && pages < most; p-- {
			if a == nil || p-1 < a.first || p-1 >= a.end() {
				if a = s.area(p - 1); a == nil {
					continue
				}
			}
			if cell := a.cells[p-1-a.first]; !cell.movable() || cell.flags&probed != 0 ||
				a.wears(int(p-1-a.first)) != isWritten {
				continue
			}
			pages++
			if n := len(back); n > 0 && back[n-1].Space == s.name && back[n-1].First == p {
				back[n-1].First--
				back[n-1].Pages++
			} else {
				back = append(back, annex.Run{Space: s.name, First: p - 1, Pages: 1})
			}
		}
	}
	slices.Reverse(back)
	return collect{runs: back, pages: pages}
}

// overShare takes of awake containers what they have above their share, where it has not
// been used of late as far as faults and fresh accessed bits tell.
func (e *eviction) overShare(n *room) {
	m := e.m
	if n.pages <= 0 || e.left <= 0 || m.errors.over {
		return
	}
	m.divide()
	var awake []*context
	for _, c := range m.contexts {
		if c.activity.isAwake() && m.isWarm(c) && c.pages.count().resident > c.share {
			awake = append(awake, c)
		}
	}
	slices.SortStableFunc(awake, func(a, b *context) int {
		return cmp.Compare(b.pages.count().resident-b.share, a.pages.count().resident-a.share)
	})
	for _, c := range awake {
		most := min(e.most(c, n), c.pages.count().resident-c.share)
		most = int(float64(most) * c.pressure.brake(m.policy.ElasticLimit))
		e.take(c, n, annex.Share, e.lowest(c, most, keepRecent), fmt.Sprintf("has %d pages in memory, and its share is %d", c.pages.count().resident, c.share))
	}
}

// last is when next to nothing is free, and nothing better to be had.
func (e *eviction) last(n *room) {
	m := e.m
	if m.errors.over {
		return // the kernel's choice is no worse than one that has proved wrong
	}
	// What health probes need comes back within a second or so: it leaves last of all, and not
	// where that was seen of late.
	for _, all := range []bool{false, true} {
		for _, c := range e.asleep {
			kept := keepProbed
			if all && m.now >= c.probed.keptUntil {
				kept = keepNone
			}
			if c.fetch.plan == nil && (all || !m.isAwaited(c) && !m.isEarly(c)) {
				e.take(c, n, annex.Headroom, e.lowest(c, e.most(c, n), kept), "next to nothing is free")
			}
		}
	}
	// Of who is awake nothing that was used just now: it would be back within milliseconds.
	// The look goes on where the last one had to end, so that all have their turn.
	for i := range m.contexts {
		at := (m.spareFrom + i) % len(m.contexts)
		if e.looked >= mostLooked {
			m.spareFrom = at
			return
		}
		if c := m.contexts[at]; c.activity.isAwake() && m.isWarm(c) {
			most := int(float64(e.most(c, n)) * c.pressure.brake(m.policy.ElasticLimit))
			e.take(c, n, annex.Headroom, e.lowest(c, most, keepRecent), "next to nothing is free, and nothing else to be had")
		}
	}
}

// keep is what lowest leaves in memory.
type keep int

const (
	keepNone   keep = iota
	keepProbed      // what wakes need that do no work
	keepRecent      // that, extents that were used of late, and what was brought for the activation that is on
	keeps
)

// evicting is what looking for pages of a context to evict has come to.
type evicting struct {
	leaving int // pages under way
	// isTight tells that nothing is left that no record has and nobody writes, until the context
	// is scanned again, or sleeps.
	isTight   bool
	exhausted [keeps]exhausted
}

// exhausted is until when a context has nothing more to give: a look at it orders all its extents,
// and where everybody is awake on less than they need there are many of them, in vain.
type exhausted struct {
	until   annex.Moment
	movable int // pages that it had
}

// exhaustedFor is short compared with Recent, the time after which an awake container's pages may be
// evicted. A sleeping container has more to give only when pages have arrived.
const exhaustedFor = time.Second

// mostLooked is how many extents one plan orders at most, but for those of one context. That takes
// milliseconds, during which nothing else is decided. The next plan continues with the remaining
// contexts.
const mostLooked = 4096

// lowest takes pages of a context, where it may have any.
func (e *eviction) lowest(c *context, most int, kept keep) collect {
	x, movable := &c.evict.exhausted[kept], c.pages.count().movable
	if most <= 0 || movable == 0 || e.looked >= mostLooked ||
		e.m.now < x.until && (kept == keepRecent || movable <= x.movable) {
		return collect{}
	}
	for a := range c.pages.areas() {
		e.looked += len(a.extents)
	}
	g := c.lowest(most, e.m.now, e.m.policy, kept)
	if g.pages < most {
		*x = exhausted{e.m.now.After(exhaustedFor), movable - g.pages}
	}
	return g
}

// placed is an extent in the order of the multi-queue.
type placed struct {
	space *space
	area  *area
	first annex.Page // of the extent
	level int
	used  stamp
	at    int // where it comes by its address
}

// lowest takes pages of the extents of the lowest levels, of these the least recently used.
func (c *context) lowest(most int, now annex.Moment, p Policy, kept keep) (g collect) {
	if most <= 0 || c.pages.count().movable == 0 {
		return g
	}
	// What was brought is in no extent's uses before it is touched.
	isAwaited := kept == keepRecent && !c.record.isWrong &&
		now < max(c.fetch.lastArrival, c.activity.wokeAt).After(p.Recent)
	order := c.pages.byLevel(now, p, kept)
	// What they write goes after what they only read.
	for _, isWritten := range []bool{false, true} {
		for _, o := range order {
			if g.pages >= most {
				return g
			}
			a := o.area
			for page := max(o.first, a.first); page < min(o.first+1<<a.shift, a.end()) && g.pages < most; page++ {
				cell := a.cells[page-a.first]
				switch {
				case !cell.movable() || a.wears(int(page-a.first)) != isWritten:
				case kept != keepNone && cell.flags&probed != 0:
				case isAwaited && cell.flags&recorded != 0 && (c.fetch.isMapped || cell.flags&incore != 0):
				default:
					g.add(o.space.name, page)
				}
			}
		}
		if !c.pages.hasWritten {
			return g
		}
	}
	return g
}

// byLevel are the extents, the lowest levels first; without those that are kept.
func (t *pageTable) byLevel(now annex.Moment, p Policy, kept keep) (order []placed) {
	at, recent := stampOf(now), stamp(p.Recent/stampStep)
	for a, s := range t.areas() {
		for j := range a.extents {
			x := &a.extents[j]
			if kept == keepRecent && x.uses > 0 && at-min(x.used, at) <= recent {
				continue
			}
			first := (a.first>>a.shift + annex.Page(j)) << a.shift
			order = append(order, placed{s, a, first, x.level(at, p.lifetime()), x.used, len(order)})
		}
	}
	slices.SortFunc(order, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.used, b.used), cmp.Compare(a.at, b.at))
	})
	return order
}
