package predict

import (
	"slices"
	"unsafe"

	"tare/annex"
)

// Context predicts one container. Its activations are reported by Began, Touched and Ended, in
// the order in which they were; between them, Left and the two that tell what was brought
// back. The predictions are Next and Pages.
type Context struct {
	options Options
	gate    gate

	spaces map[annex.Space]*space
	tables []*table // by id; nil where one was dropped
	free   []uint32 // the ids of those
	last   *space   // of the last fault

	open    bool
	burst   burst
	early   []annex.Fault // while no burst was open
	lost    bool          // faults were, meanwhile
	bursts  int           // that ended
	members int
	brought annex.Moment // the first time since the last burst; 0 is not

	record    record
	intervals intervals
}

// space is what is known of an address space.
type space struct {
	id     annex.Space
	tables map[uint64]*table
	last   *table // of the last fault
}

// burst is an activation that goes on.
type burst struct {
	began   annex.Moment
	touches []touch
	lost    bool
}

// touch is the first one of a page in a burst.
type touch struct {
	table uint32
	page  uint16
	flags touchFlags
}

type touchFlags uint8

const (
	foreseen touchFlags = 1 << iota // a member, of which no fault would have said that it was not touched
	swapped                         // it had left memory, or come back unmapped
)

// earlyFaults is how many faults are kept that come before the activation of which they are
// is reported: the two come from the kernel by different ways.
const earlyFaults = 4096

// New gives a context of which nothing is known. Options that Check refuses are as if none
// were given.
func New(o Options) *Context {
	o = o.complete()
	c := &Context{options: o, gate: gate{o.Threshold, o.Margin}, spaces: map[annex.Space]*space{}}
	c.record.init()
	c.intervals.init(o)
	return c
}

// Began tells that the container woke. One that woke before and was not told to sleep was cut
// short: what it touched counts, and what it did not is not held against the record.
func (c *Context) Began(at annex.Moment) {
	if c.open {
		c.burst.lost = true
		c.finish()
	}
	c.open = true
	c.burst, c.lost = burst{began: at, lost: c.lost}, false
	c.intervals.began(at)
	early := c.early
	c.early = nil
	for i := range early {
		if early[i].At >= at {
			c.touch(&early[i])
		}
	}
}

// Touched tells of faults, in the order in which they happened. Those of a burst are reported
// before its end. It does not keep them.
func (c *Context) Touched(faults []annex.Fault) {
	for i := range faults {
		f := &faults[i]
		if c.open {
			c.touch(f)
		} else if len(c.early) < earlyFaults {
			c.early = append(c.early, *f)
		}
	}
}

// Lost tells that faults of the open burst were lost, or of the next one, which is reported of only
// when it is known to be work: that none was seen says nothing then.
func (c *Context) Lost() {
	if c.open {
		c.burst.lost = true
	} else {
		c.lost = true
	}
}

// Interrupted tells that the container was kept from waking, as one that is frozen is: when it
// wakes next says nothing of when it does so by itself.
func (c *Context) Interrupted() { c.intervals.interrupted = true }

// Ended tells that the container sleeps, and that the activation was work.
func (c *Context) Ended(at annex.Moment) {
	if !c.open {
		return
	}
	c.intervals.ended(at)
	c.finish()
}

func (c *Context) finish() {
	c.learn()
	c.bursts++
	c.close()
}

// close forgets the burst.
func (c *Context) close() {
	c.open = false
	c.burst = burst{}
	c.brought = 0
	for _, t := range c.tables {
		if t != nil {
			t.burst = nil
			if t.member == (set{}) {
				c.remove(t)
			}
		}
	}
}

// Next is when the next activation is expected, as moments of which none is before now;
// false where nothing can be said, or nothing that would hold.
func (c *Context) Next(now annex.Moment) (Forecast, bool) { return c.intervals.next(now) }

// Brought tells which pages came back into memory and were not mapped, so that their touch
// is reported, and when.
func (c *Context) Brought(runs []annex.Run, at annex.Moment) {
	if c.brought == 0 {
		c.brought = at
	}
	for _, r := range runs {
		c.over(r, func(t *table, pages set) {
			for w := range pages {
				t.tells[w] |= pages[w] & t.member[w]
			}
		})
	}
}

// Mapped tells which pages came back and were mapped: whether they are touched is not
// reported, and no predictor is judged by them.
func (c *Context) Mapped(runs []annex.Run) {
	for _, r := range runs {
		c.over(r, func(t *table, pages set) {
			for w := range pages {
				t.tells[w] &^= pages[w]
			}
		})
	}
}

// Left tells which pages have left memory, by whosever doing: their next touch is a fault.
// That of a page of which that was not reported is taken for silent until it is seen to fault.
func (c *Context) Left(runs []annex.Run) {
	for _, r := range runs {
		c.over(r, func(t *table, pages set) {
			for w := range pages {
				now := pages[w] & t.member[w] &^ t.tells[w]
				if c.open && now != 0 {
					t.marks().gone[w] |= now
				}
				t.tells[w] |= pages[w] & t.member[w]
			}
		})
	}
}

// Gone tells which pages are no more: unmapped, or given back. A touch is then of new memory,
// and the record forgets them.
func (c *Context) Gone(runs []annex.Run) {
	undone := false
	for _, r := range runs {
		c.over(r, func(t *table, pages set) {
			had := len(t.cells)
			t.drop(pages)
			t.fit()
			c.members -= had - len(t.cells)
			if t.burst == nil {
				return
			}
			for w := range pages {
				undone = undone || t.burst.touched[w]&pages[w] != 0
				t.burst.touched[w] &^= pages[w]
			}
		})
	}
	if undone {
		c.burst.touches = slices.DeleteFunc(c.burst.touches, func(touch touch) bool {
			return !c.tables[touch.table].burst.touched.has(int(touch.page))
		})
	}
}

// over gives the tables of a run that are known, and its pages in each.
func (c *Context) over(r annex.Run, do func(*table, set)) {
	s := c.spaces[r.Space]
	if s == nil || r.Pages <= 0 {
		return
	}
	first, last := uint64(r.First), uint64(r.First)+uint64(r.Pages)-1
	if last < first {
		last = ^uint64(0)
	}
	in := func(t *table) {
		low, high := 0, tablePages
		if t.number == first/tablePages {
			low = int(first % tablePages)
		}
		if t.number == last/tablePages {
			high = int(last%tablePages) + 1
		}
		do(t, span(low, high))
	}
	if last/tablePages-first/tablePages >= uint64(len(s.tables)) {
		for number, t := range s.tables {
			if number >= first/tablePages && number <= last/tablePages {
				in(t)
			}
		}
		return
	}
	for number := first / tablePages; number <= last/tablePages; number++ {
		if t := s.tables[number]; t != nil {
			in(t)
		}
	}
}

// Forget drops what is known of a space that is no more.
func (c *Context) Forget(id annex.Space) {
	s := c.spaces[id]
	if s == nil {
		return
	}
	kept := c.burst.touches[:0]
	for _, t := range c.burst.touches {
		if c.tables[t.table].space != s {
			kept = append(kept, t)
		}
	}
	c.burst.touches = kept
	for _, t := range c.tables { // by id, so that ids come free in one order
		if t != nil && t.space == s {
			c.remove(t)
		}
	}
	delete(c.spaces, id)
	if c.last == s {
		c.last = nil
	}
}

// Scores are those of its two predictors.
func (c *Context) Scores() []Score {
	return []Score{c.record.score(Record), c.intervals.score(Intervals)}
}

// Size is how much memory it takes, in bytes.
func (c *Context) Size() int64 {
	n := int64(unsafe.Sizeof(*c)) + int64(cap(c.burst.touches))*int64(unsafe.Sizeof(touch{})) +
		int64(cap(c.early))*int64(unsafe.Sizeof(annex.Fault{})) + int64(cap(c.free))*4
	n += int64(cap(c.intervals.shape.weights))*4 + int64(cap(c.intervals.seen))*8
	for _, k := range c.intervals.beat.clocks {
		n += int64(cap(k.off)) * 8
	}
	for _, s := range c.spaces {
		n += int64(unsafe.Sizeof(*s)) + 64 // with its map, and its entry in one
		for _, t := range s.tables {
			n += t.size()
		}
	}
	return n
}

// place is the table of a page, made where there is none.
func (c *Context) place(id annex.Space, p annex.Page) *table {
	s := c.in(id)
	number := uint64(p) / tablePages
	if s.last != nil && s.last.number == number {
		return s.last
	}
	t := s.tables[number]
	if t == nil {
		t = &table{space: s, number: number}
		if n := len(c.free); n > 0 {
			t.id, c.free = c.free[n-1], c.free[:n-1]
			c.tables[t.id] = t
		} else {
			t.id = uint32(len(c.tables))
			c.tables = append(c.tables, t)
		}
		s.tables[number] = t
	}
	s.last = t
	return t
}

// in is what is known of a space.
func (c *Context) in(id annex.Space) *space {
	if c.last != nil && c.last.id == id {
		return c.last
	}
	s := c.spaces[id]
	if s == nil {
		s = &space{id: id, tables: map[uint64]*table{}}
		c.spaces[id] = s
	}
	c.last = s
	return s
}

// remove forgets a table.
func (c *Context) remove(t *table) {
	s := t.space
	delete(s.tables, t.number)
	if s.last == t {
		s.last = nil
	}
	c.members -= len(t.cells)
	c.tables[t.id] = nil
	c.free = append(c.free, t.id)
}
