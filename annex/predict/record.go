package predict

import (
	"cmp"
	"slices"

	"tare/annex"
)

// record judges the record: as a whole, and each pattern.
type record struct {
	meter
	of [patterns]patternMeter
}

// patternMeter counts how often pages of a pattern were touched by the next burst.
type patternMeter struct {
	hits, observed float32
	shut           bool
}

const (
	// burstKeep is what of a burst's weight is left after the next: half after four.
	burstKeep = 0.85
	// expected is the weight of a pattern's expectation, in pages: a burst's pages hang
	// together, so that few of them are little evidence.
	expected = 16
	// certainly is how often pages have to be touched that are called certain.
	certainly = 0.9
	// auditEvery is which part of the certain pages is not called so, in turn: a page that
	// is mapped each time is never reported, and would stay in the record for ever. Pages take
	// turns auditPages at a time.
	auditEvery = 16
	auditPages = 16
)

func (r *record) init() {
	r.enough = 32
	for p := range r.of {
		r.of[p].shut = p == 0 || pattern(p).expectation() < 0.5
	}
}

func (m *patternMeter) likelihood(p pattern) float64 {
	return (float64(m.hits) + expected*p.expectation()) / (float64(m.observed) + expected)
}

// certain tells that nothing measured speaks against it that the next burst touches what all
// the last did.
func (m *patternMeter) certain() bool { return m.observed < expected || m.hits >= certainly*m.observed }

// predicted tells whether pages of a pattern are expected in the next burst.
func (r *record) predicted(p pattern) bool { return !r.of[p].shut }

// tell counts a page of which it is known whether it was touched.
func (r *record) tell(p pattern, touched bool) {
	m := &r.of[p]
	m.observed++
	if touched {
		m.hits++
	}
	if r.predicted(p) {
		r.prediction(1, touched)
	}
}

// turn is between two bursts.
func (r *record) turn(g gate) {
	for p := range r.of {
		if p == 0 {
			continue
		}
		m := &r.of[p]
		m.shut = !g.next(!m.shut, m.likelihood(pattern(p)))
		m.hits *= burstKeep
		m.observed *= burstKeep
	}
	r.judge(g)
	r.age(burstKeep)
}

// touch takes a fault of the open burst.
func (c *Context) touch(f *annex.Fault) {
	if len(c.burst.touches) >= c.options.Pages {
		// One that never sleeps, and goes through ever new addresses.
		c.burst.lost = true
		return
	}
	t := c.place(f.Space, f.Page)
	i := int(uint64(f.Page) % tablePages)
	m := t.marks()
	if m.touched.has(i) {
		t.tells.remove(i)
		return
	}
	m.touched.add(i)
	var flags touchFlags
	if f.Swapped {
		flags |= swapped
	}
	if t.tells.has(i) {
		t.tells.remove(i)
		if !m.gone.has(i) {
			flags |= foreseen
			if c.record.predicted(t.cell(i).pattern()) {
				since := c.burst.began
				if c.brought != 0 {
					since = min(since, c.brought)
				}
				c.record.leads.add(f.At.Since(since))
			}
		}
	}
	c.burst.touches = append(c.burst.touches, touch{table: t.id, page: uint16(i), flags: flags})
}

// learn takes the burst into the record.
func (c *Context) learn() {
	hidden := c.hidden()
	room := c.options.Pages
	if c.members+len(c.burst.touches) > room {
		c.makeRoom()
	}
	before := 0 // how many pages that could not be seen came before
	length := len(c.burst.touches) + hidden[rankCodes-1]
	for n, touch := range c.burst.touches {
		t, i := c.tables[touch.table], int(touch.page)
		if !t.member.has(i) {
			if touch.flags&swapped != 0 {
				c.record.event(false)
			}
			if c.members >= room {
				continue
			}
			t.admit(i, newCell(unknown.then(true, c.options.Bursts), n+before))
			c.members++
			continue
		}
		cell := t.cell(i)
		p := cell.pattern()
		if touch.flags&(foreseen|swapped) != 0 {
			c.record.event(c.record.predicted(p))
		}
		if touch.flags&foreseen != 0 {
			c.record.tell(p, true)
		}
		before = hidden[cell.code()]
		*cell = newCell(p.then(true, c.options.Bursts), towards(cell.rank(), n+before, length))
	}
	for _, t := range c.tables {
		if t == nil {
			continue
		}
		if !c.burst.lost {
			c.contradict(t)
		}
		t.fit()
	}
	c.record.turn(c.gate)
}

// makeRoom drops the tables of which no fault was reported since their pages last came: memory
// that was unmapped without a word, or that has stayed where it is.
func (c *Context) makeRoom() {
	for _, t := range c.tables {
		if t != nil && t.burst == nil && t.tells == (set{}) {
			c.remove(t)
		}
	}
}

// hidden counts, by code of rank, the members of lower rank that may have been touched
// without a fault. The pages that were seen come after them: without that, the ranks of a
// burst that found half of its pages in memory would be half of those of another.
func (c *Context) hidden() *[rankCodes]int {
	var n [rankCodes]int
	for _, t := range c.tables {
		if t == nil {
			continue
		}
		silent := t.member
		for w := range silent {
			seen := t.tells[w]
			if t.burst != nil {
				seen = seen&^t.burst.gone[w] | t.burst.touched[w]
			}
			silent[w] &^= seen
		}
		if silent == (set{}) {
			continue
		}
		k := 0
		for i := range t.member.each {
			if silent.has(i) {
				n[t.cells[k].code()]++
			}
			k++
		}
	}
	sum := 0
	for code, here := range n {
		n[code] = sum
		sum += here
	}
	return &n
}

// towards moves a rank half way to what a burst showed, and by an eighth of the burst at
// most: Huber's estimate of location (1964), in two bytes. One odd burst does not move it
// far, as it would not a median, for which all the last ranks would have to be held.
func towards(rank, seen, length int) int {
	most := max(length/8, 1)
	step := seen - rank
	if step < -1 || step > 1 {
		step /= 2
	}
	return rank + min(max(step, -most), most)
}

// contradict takes it that pages were not touched that would have made a fault.
func (c *Context) contradict(t *table) {
	missed := t.tells
	if t.burst != nil {
		for w := range missed {
			missed[w] &^= t.burst.gone[w] | t.burst.touched[w]
		}
	}
	if missed == (set{}) {
		return
	}
	var over set
	n := 0
	for i := range t.member.each {
		if missed.has(i) {
			cell := &t.cells[n]
			p := cell.pattern()
			c.record.tell(p, false)
			p = p.then(false, c.options.Bursts)
			if p.touched() == 0 {
				over.add(i)
			}
			*cell = newCell(p, cell.rank())
		}
		n++
	}
	if over != (set{}) {
		n := len(t.cells)
		t.drop(over)
		c.members -= n - len(t.cells)
	}
}

// Pages are those that the next activation is expected to touch, in the order in which it
// is expected to touch them first: all whose pattern is likely enough. There are none while
// the record is not listened to.
func (c *Context) Pages() []Ranked {
	if c.record.shut {
		return nil
	}
	var certain [patterns]bool
	for p := range certain {
		p := pattern(p)
		certain[p] = p.bursts() >= min(2, c.options.Bursts) && p.touched() == p.bursts() && c.record.of[p].certain()
	}
	tables := make([]*table, 0, len(c.tables))
	for _, t := range c.tables {
		if t != nil && len(t.cells) > 0 {
			tables = append(tables, t)
		}
	}
	slices.SortFunc(tables, func(a, b *table) int {
		return cmp.Or(
			cmp.Compare(a.space.id.PID, b.space.id.PID),
			cmp.Compare(a.space.id.Started, b.space.id.Started),
			cmp.Compare(a.number, b.number),
		)
	})
	// Sorted by counting, and stable: equal ranks are in the order of their addresses.
	type place struct {
		table uint32
		page  uint16
		p     pattern
		sure  bool
	}
	var at [rankCodes + 1]int
	for _, t := range tables {
		for _, cell := range t.cells {
			if c.record.predicted(cell.pattern()) {
				at[cell.code()+1]++
			}
		}
	}
	for code := range rankCodes {
		at[code+1] += at[code]
	}
	places := make([]place, at[rankCodes])
	for k, t := range tables {
		n := 0
		for i := range t.member.each {
			cell := t.cells[n]
			n++
			if p := cell.pattern(); c.record.predicted(p) {
				places[at[cell.code()]] = place{table: uint32(k), page: uint16(i), p: p}
				at[cell.code()]++
			}
		}
	}
	// Twice over them: there may be as many runs as pages, and growing to as many takes longer
	// than counting them.
	joins := func(a, b place) bool {
		if a.table == b.table {
			return a.page+1 == b.page && a.sure == b.sure
		}
		from, to := tables[a.table], tables[b.table]
		return from.space == to.space && from.number+1 == to.number && a.page == tablePages-1 && b.page == 0 &&
			a.sure == b.sure
	}
	runs := 0
	for n := range places {
		at := &places[n]
		page := tables[at.table].number*tablePages + uint64(at.page)
		at.sure = certain[at.p] && (page/auditPages+uint64(c.bursts))%auditEvery != 0
		if n == 0 || !joins(places[n-1], *at) {
			runs++
		}
	}
	pages := make([]Ranked, 0, runs)
	for n, at := range places {
		if n > 0 && joins(places[n-1], at) {
			pages[len(pages)-1].Run.Pages++
			continue
		}
		t := tables[at.table]
		pages = append(pages, Ranked{annex.Run{Space: t.space.id, First: t.page(int(at.page)), Pages: 1}, at.sure})
	}
	return pages
}
