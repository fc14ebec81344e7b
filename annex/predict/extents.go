package predict

import (
	"math/bits"
	"slices"

	"tare/annex"
)

// smallestExtent is the fewest pages of an extent, so that a table has 32 at most.
const smallestExtent = 16

// extentID names an extent of a context: its table's id, and its place there.
type extentID uint32

const extentBits = 5

func (c *Context) extentOf(t *table, page int) extentID {
	return extentID(t.id)<<extentBits | extentID(page/c.options.ExtentPages)
}

func (e extentID) table() uint32 { return uint32(e >> extentBits) }
func (e extentID) place() int    { return int(e & (1<<extentBits - 1)) }

// node is the extents that followed one, and how often.
type node struct {
	next  [successors]extentID
	count [successors]uint8
}

const (
	successors = 3
	// mostCounted is where counts are halved: what was long ago fades.
	mostCounted = 16
	// nodeShare is for how many pages of the record there may be a node: half a byte a page.
	nodeShare = 32
	// firstNodes are had in any case.
	firstNodes = 64
	// soonExtents is within how many changes of extent a predicted one has to be entered.
	soonExtents  = 4
	extentsHalve = 256
)

// extents judges the chain between extents.
type extents struct {
	meter
	kept    int        // nodes
	ahead   []foretold // the earliest first; no more than soonExtents
	entered uint64
}

// foretold is an extent that was predicted.
type foretold struct {
	id    extentID
	at    annex.Moment
	until uint64 // the change after which it has not come
}

// follow counts that an extent followed. One that is not among the successors wears away
// the rarest, and takes its place once nothing is left of it (Misra and Gries, 1982).
func (n *node) follow(id extentID) {
	rarest := 0
	for i, c := range n.count {
		if c > 0 && n.next[i] == id {
			n.count[i]++
			if n.count[i] >= mostCounted {
				for j := range n.count {
					n.count[j] /= 2
				}
			}
			return
		}
		if c < n.count[rarest] {
			rarest = i
		}
	}
	if n.count[rarest] == 0 {
		n.next[rarest], n.count[rarest] = id, 1
		return
	}
	n.count[rarest]--
}

// wear counts that something followed that is not kept.
func (n *node) wear() {
	for i, c := range n.count {
		if c > 0 {
			n.count[i] = c - 1
		}
	}
}

// likely are the successors that followed at least twice, and at least each third time: the
// most frequent first.
func (n *node) likely(yield func(extentID) bool) {
	var sum int
	for _, c := range n.count {
		sum += int(c)
	}
	order := [successors]int{0, 1, 2}
	slices.SortStableFunc(order[:], func(a, b int) int { return int(n.count[b]) - int(n.count[a]) })
	for _, i := range order {
		if c := int(n.count[i]); c >= 2 && 3*c >= sum && !yield(n.next[i]) {
			return
		}
	}
}

// node is the extent's; nil where it has none.
func (t *table) node(place int) *node {
	if t.left&(1<<place) == 0 {
		return nil
	}
	return &t.nodes[bits.OnesCount32(t.left&(1<<place-1))]
}

// entered takes the first touch of a page in a burst.
func (c *Context) entered(t *table, page int, f *annex.Fault) {
	s, e := t.space, &c.extents
	id := c.extentOf(t, page)
	from, any := s.at, s.atAny
	if any && from == id {
		return
	}
	s.at, s.atAny = id, true
	e.entered++
	hit := c.resolve(id, f.At)
	if f.Swapped {
		e.event(hit)
	}
	if any {
		c.learnExtent(c.tables[from.table()], from.place(), id)
	}
	if n := t.node(id.place()); n != nil {
		for next := range n.likely {
			if c.known(next, s) && !c.waiting(next) {
				e.ahead = append(e.ahead, foretold{next, f.At, e.entered + soonExtents})
			}
		}
	}
	e.judge(c.gate)
	e.halve(extentsHalve)
}

// resolve decides what was predicted: what is entered now, and what has not come.
func (c *Context) resolve(id extentID, at annex.Moment) bool {
	e, hit := &c.extents, false
	kept := e.ahead[:0]
	for _, a := range e.ahead {
		switch {
		case a.id == id:
			hit = true
			e.prediction(1, true)
			e.leads.add(at.Since(a.at))
		case e.entered <= a.until:
			kept = append(kept, a)
		case !c.silentExtent(a.id):
			e.prediction(1, false)
		}
	}
	e.ahead = kept
	return hit
}

func (c *Context) waiting(id extentID) bool {
	return slices.ContainsFunc(c.extents.ahead, func(a foretold) bool { return a.id == id })
}

// known tells that an extent still is one of the space: a table's id may have gone to another.
func (c *Context) known(id extentID, s *space) bool {
	t := c.tables[id.table()]
	return t != nil && t.space == s
}

// silentExtent tells of an extent that no page of it that the record knows would fault.
func (c *Context) silentExtent(id extentID) bool {
	t := c.tables[id.table()]
	if t == nil {
		return true
	}
	in := c.extentPages(id)
	for w := range in {
		if in[w]&t.tells[w] != 0 {
			return false
		}
	}
	return true
}

func (c *Context) extentPages(id extentID) set {
	low := id.place() * c.options.ExtentPages
	return span(low, low+c.options.ExtentPages)
}

// learnExtent counts that an extent followed another. The neighbour of it that follows needs
// no memory: the stride tells as much.
func (c *Context) learnExtent(t *table, place int, next extentID) {
	if t == nil {
		return
	}
	n := t.node(place)
	if near := next.place() - place; next.table() == t.id && (near == 1 || near == -1) {
		if n != nil {
			n.wear()
		}
		return
	}
	if n == nil {
		if c.extents.kept >= max(firstNodes, c.members/nodeShare) {
			return
		}
		t.nodes = slices.Insert(t.nodes, bits.OnesCount32(t.left&(1<<place-1)), node{})
		t.left |= 1 << place
		c.extents.kept++
		n = t.node(place)
	}
	n.follow(next)
}

// successors are the pages that are known of the extents that follow a page's.
func (c *Context) successors(s *space, p annex.Page) []annex.Run {
	t := s.tables[uint64(p)/tablePages]
	if t == nil {
		return nil
	}
	n := t.node(c.extentOf(t, int(uint64(p)%tablePages)).place())
	if n == nil {
		return nil
	}
	var runs []annex.Run
	for id := range n.likely {
		if !c.known(id, s) {
			continue
		}
		next := c.tables[id.table()]
		in := c.extentPages(id)
		for w := range in {
			in[w] &= next.member[w]
		}
		for i := range in.each {
			page := next.page(i)
			if k := len(runs); k > 0 && runs[k-1].End() == page {
				runs[k-1].Pages++
				continue
			}
			runs = append(runs, annex.Run{Space: s.id, First: page, Pages: 1})
		}
	}
	return runs
}
