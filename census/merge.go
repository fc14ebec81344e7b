package census

import (
	"container/heap"
	"math/bits"

	"tare/probe/pagetable"
)

// cursor goes through the runs of one process in ascending pages.
type cursor struct {
	space int
	run   int
	at    int // entries of the run that are behind
	page  uint64
	files []int
	// tally is the run's, until its end.
	tally Tally
}

// front holds the cursors, the lowest page at the top.
type front []*cursor

func (f front) Len() int           { return len(f) }
func (f front) Less(i, j int) bool { return f[i].page < f[j].page }
func (f front) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *front) Push(x any)        { *f = append(*f, x.(*cursor)) }
func (f *front) Pop() any {
	last := len(*f) - 1
	c := (*f)[last]
	*f = (*f)[:last]
	return c
}

// classify sweeps over all address spaces at once, from the lowest page to the
// highest. Between two pages where a run of any process begins or ends, the same
// processes have entries: such a block is compared page by page. What only one
// process maps, which under address randomisation is nearly all, is not compared.
func (n *counter) classify() {
	waiting := make(front, 0, len(n.census.Spaces))
	for i := range n.census.Spaces {
		c := &cursor{space: i, run: -1, files: n.files.of(&n.census.Spaces[i])}
		if n.next(c) {
			waiting = append(waiting, c)
		}
	}
	heap.Init(&waiting)
	matches := newMatcher(len(waiting))
	var here []*cursor
	for len(waiting) > 0 {
		here = append(here[:0], heap.Pop(&waiting).(*cursor))
		from, to := here[0].page, n.end(here[0])
		for len(waiting) > 0 && waiting[0].page == from {
			c := heap.Pop(&waiting).(*cursor)
			to = min(to, n.end(c))
			here = append(here, c)
		}
		if len(waiting) > 0 {
			to = min(to, waiting[0].page)
		}
		if len(here) == 1 {
			n.alone(here[0], int(to-from))
		} else {
			n.together(here, int(to-from), matches)
		}
		for _, c := range here {
			c.at += int(to - from)
			c.page = to
			if c.at < len(n.runOf(c).Entries) || n.next(c) {
				heap.Push(&waiting, c)
			}
		}
	}
}

func (n *counter) runOf(c *cursor) *pagetable.Run { return &n.census.Spaces[c.space].Runs[c.run] }

// end is the first page after the cursor's run.
func (n *counter) end(c *cursor) uint64 {
	r := n.runOf(c)
	return r.Page + uint64(len(r.Entries))
}

// next books the run that is over and goes to the next one with entries.
func (n *counter) next(c *cursor) bool {
	s := &n.census.Spaces[c.space]
	if c.run >= 0 {
		mapping := s.Runs[c.run].Mapping
		n.count.Processes[c.space].Tally.Add(&c.tally)
		n.count.Groups[s.Group].Kinds[s.Mappings[mapping].Kind].Add(&c.tally)
		if file := c.files[mapping]; file >= 0 {
			n.files.all[file].Tally.Add(&c.tally)
		}
		c.tally = Tally{}
	}
	for c.run++; c.run < len(s.Runs); c.run++ {
		if r := &s.Runs[c.run]; len(r.Entries) > 0 {
			c.at, c.page = 0, r.Page
			return true
		}
	}
	return false
}

// alone counts entries at pages where no other process has any.
func (n *counter) alone(c *cursor, pages int) {
	for _, e := range n.runOf(c).Entries[c.at : c.at+pages] {
		if sort(e) != none {
			c.tally.enter(e, n.mapped(e), n.census.Flags)
		}
	}
}

// mapped adds to an entry what its frame's cell knows.
func (n *counter) mapped(e pagetable.Entry) sharing {
	if sort(e) != framed {
		return sharing{}
	}
	seen := n.frames.cell(e.Frame()).seen
	return sharing{mapped: seen&again != 0, mappedThere: seen&abroad != 0}
}

// together counts entries at pages where several processes have one.
func (n *counter) together(here []*cursor, pages int, m *matcher) {
	for i := range pages {
		m.clear()
		for k, c := range here {
			e := n.runOf(c).Entries[c.at+i]
			s := n.mapped(e)
			m.known[k] = s
			if s.mapped || sort(e) == zero {
				m.add(e, n.census.Spaces[c.space].Group)
			}
		}
		for k, c := range here {
			e := n.runOf(c).Entries[c.at+i]
			if sort(e) == none {
				continue
			}
			s := m.known[k]
			if s.mapped || sort(e) == zero {
				at := m.slot(matchKey(e))
				s.groupable, s.across = at.again, at.abroad
				n.pair(e, at)
			}
			c.tally.enter(e, s, n.census.Flags)
		}
	}
}

// pair counts what last-level tables hold of a groupable pair. A huge page may be
// mapped whole in one process and by base pages in another: so the pair counts
// where the first of its base entries is met.
func (n *counter) pair(e pagetable.Entry, at *slot) {
	if !at.again || !inTable(e) {
		return
	}
	n.entries++
	n.entriesAcross += bit(at.abroad)
	if !at.counted {
		at.counted = true
		n.sets++
		n.setsAcross += bit(at.abroad)
	}
}

// inTable selects entries of last-level tables that have a frame of memory.
func inTable(e pagetable.Entry) bool { return sort(e) == framed && !e.Has(pagetable.Huge) }

// matcher finds which of the entries at one virtual page have a frame in
// common: a hash table that is emptied by counting on.
type matcher struct {
	slots []slot
	shift int
	round uint64
	// known is, for each entry at the page, what its frame's cell says.
	known []sharing
}

// fibonacci is 2^64 over the golden ratio, made odd: multiplied by it, neighbours
// spread over the upper bits (Knuth, The Art of Computer Programming 3, 6.4).
const fibonacci = 0x9e3779b97f4a7c15

type slot struct {
	round   uint64
	key     pagetable.Entry
	group   int
	again   bool // added twice
	abroad  bool // by two groups
	counted bool // as a pair
}

// newMatcher makes one for at most so many entries at a page.
func newMatcher(most int) *matcher {
	size := bits.Len(uint(2 * most))
	return &matcher{slots: make([]slot, 1<<size), shift: 64 - size, known: make([]sharing, most)}
}

func (m *matcher) clear() { m.round++ }

// slot is the entry's, or the free one where it belongs. More than half of all
// are free.
func (m *matcher) slot(key pagetable.Entry) *slot {
	at := uint64(key) * fibonacci >> m.shift
	for {
		s := &m.slots[at]
		if s.round != m.round || s.key == key {
			return s
		}
		at = (at + 1) & uint64(len(m.slots)-1)
	}
}

// matchKey is what two entries agree in: the frame, and whether it is the page of zeros.
func matchKey(e pagetable.Entry) pagetable.Entry { return e & (pagetable.Frames | pagetable.Zero) }

func (m *matcher) add(e pagetable.Entry, group int) {
	key := matchKey(e)
	s := m.slot(key)
	if s.round != m.round {
		*s = slot{round: m.round, key: key, group: group}
		return
	}
	s.again = true
	s.abroad = s.abroad || s.group != group
}
