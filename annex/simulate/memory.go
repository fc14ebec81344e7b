package simulate

import (
	"slices"

	"tare/annex"
)

// reclaimBatch is how many pages are reclaimed at a time (SWAP_CLUSTER_MAX).
const reclaimBatch = 32

// The flags of a page. One that has none of resident and out is new.
type flags uint8

const (
	resident flags = 1 << iota // takes memory
	mapped
	dirty    // has no good copy in swap
	accessed // used since it was last looked at
	shared
	coming  // being read
	leaving // being written
	unused  // brought in ahead, and not used yet
)

type page struct {
	prev, next int32
	used       uint64 // when, by uses
	list       int32
	place      int32 // in swap; none where it has none
	left       annex.Moment
	flags      flags
	number     annex.Page
	space      *space
}

const none = -1

// The lists of resident pages.
const (
	others = iota
	criticals
)

// memory is the pages of all containers, by number, and which of them are in memory.
type memory struct {
	// The first two are none: between the next and the prev of each are resident ones, the
	// least recently used first: those of critical containers, and the others. Those that are
	// leaving are in neither: whoever looks for the next to leave passes none of them.
	pages       []page
	clock       uint64 // of uses
	limit, used int
	places      []int32 // of swap: whose page
	taken       int
	cursor      int
	hand        int    // from which place on the next is taken from a page in memory
	barren      uint64 // the clock when there was none to be taken
	ratio       float64
}

func newMemory(h Host) *memory {
	m := &memory{
		pages:  []page{others: {next: others, prev: others}, criticals: {next: criticals, prev: criticals}},
		limit:  int(h.Memory / annex.PageSize),
		places: make([]int32, h.Swap/annex.PageSize),
	}
	for i := range m.places {
		m.places[i] = none
	}
	if h.Medium.Memory {
		m.ratio = h.Medium.Ratio
	}
	return m
}

// pool is how many pages compressed swap takes.
func (m *memory) pool() int {
	if m.ratio == 0 {
		return 0
	}
	return int(float64(m.taken)/m.ratio + 0.5)
}

func (m *memory) free() int { return m.limit - m.used - m.pool() }

// add makes a new page.
func (m *memory) add(critical bool, s *space, number annex.Page) int32 {
	list := int32(others)
	if critical {
		list = criticals
	}
	m.pages = append(m.pages, page{list: list, place: none, space: s, number: number})
	return int32(len(m.pages) - 1)
}

func (m *memory) unlink(i int32) {
	p := &m.pages[i]
	m.pages[p.prev].next, m.pages[p.next].prev = p.next, p.prev
}

// link puts a page at the end of its list.
func (m *memory) link(i int32) {
	p := &m.pages[i]
	last := m.pages[p.list].prev
	p.prev, p.next = last, p.list
	m.pages[last].next, m.pages[p.list].prev = i, i
}

// off takes a page out of its list.
func (m *memory) off(i int32) {
	m.unlink(i)
	m.pages[i].prev, m.pages[i].next = i, i
}

// use notes that a page that is at its list's end is used.
func (m *memory) use(i int32) {
	m.clock++
	m.pages[i].used = m.clock
}

// come has a page take memory, as the most recently used.
func (m *memory) come(i int32) {
	m.pages[i].flags |= resident
	m.used++
	m.link(i)
	m.use(i)
}

// leave has a page give its memory up, at a moment.
func (m *memory) leave(i int32, at annex.Moment) {
	m.unlink(i)
	m.used--
	p := &m.pages[i]
	p.flags &^= resident | mapped | accessed | leaving | coming | unused
	p.left = at
}

func (m *memory) recent(i int32) {
	m.unlink(i)
	m.link(i)
	m.use(i)
}

// leaves begins a page's leaving. If it is used before it has left it is back among the others.
func (m *memory) leaves(i int32) {
	m.pages[i].flags = m.pages[i].flags&^mapped | leaving
	m.off(i)
}

// put finds a place in swap, one after the last: false where there is none.
func (m *memory) put(i int32) bool {
	p := &m.pages[i]
	if p.place != none {
		return true
	}
	if m.taken == len(m.places) && !m.steal() {
		return false
	}
	for m.places[m.cursor] != none {
		m.cursor = (m.cursor + 1) % len(m.places)
	}
	m.places[m.cursor] = i
	p.place = int32(m.cursor)
	m.taken++
	return true
}

// stealBatch is how many places are taken at once from pages in memory.
const stealBatch = 64

// steal frees places of pages that are in memory, which need none, going on where it ended the
// last time.
func (m *memory) steal() bool {
	if m.barren == m.clock && m.clock > 0 {
		return false // nothing was used since there was none
	}
	before := m.taken
	for range m.places {
		i := m.places[m.hand]
		m.hand = (m.hand + 1) % len(m.places)
		if i == none {
			continue
		}
		if p := &m.pages[i]; p.flags&(resident|mapped) == resident|mapped && p.flags&leaving == 0 {
			if m.written(i); before-m.taken == stealBatch {
				return true
			}
		}
	}
	if m.taken == before {
		m.barren = m.clock
	}
	return m.taken < before
}

// written has a page's copy in swap be void.
func (m *memory) written(i int32) {
	p := &m.pages[i]
	p.flags |= dirty
	if p.place != none {
		m.places[p.place] = none
		p.place = none
		m.taken--
	}
}

// drop has a page be no more.
func (m *memory) drop(i int32) {
	if m.pages[i].flags&resident != 0 {
		m.leave(i, 0)
	}
	m.written(i)
	m.pages[i].flags = 0
}

// victims are the least recently used pages that may leave.
func (m *memory) victims(n int, spareCritical bool) []int32 {
	var found []int32
	at := [...]int32{m.pages[others].next, m.pages[criticals].next}
	if spareCritical {
		at[criticals] = criticals
	}
	for len(found) < n {
		for list := range at {
			for int(at[list]) != list && m.pages[at[list]].flags&coming != 0 {
				at[list] = m.pages[at[list]].next
			}
		}
		from := others
		switch {
		case at[others] == others && at[criticals] == criticals:
			return found
		case at[others] == others, at[criticals] != criticals && m.pages[at[criticals]].used < m.pages[at[others]].used:
			from = criticals
		}
		found = append(found, at[from])
		at[from] = m.pages[at[from]].next
	}
	return found
}

// space is an address space, in chunks of pages.
type space struct {
	name   annex.Space
	chunks map[annex.Page]*[chunkPages]int32 // 0 is none
	order  []annex.Page
	last   annex.Page
	lastIn *[chunkPages]int32
}

const chunkPages = 512

func newSpace(name annex.Space) *space {
	return &space{name: name, chunks: map[annex.Page]*[chunkPages]int32{}}
}

func (s *space) chunk(p annex.Page) *[chunkPages]int32 {
	key := p / chunkPages
	if s.lastIn != nil && s.last == key {
		return s.lastIn
	}
	c := s.chunks[key]
	if c != nil {
		s.last, s.lastIn = key, c
	}
	return c
}

// find gives the page's index, 0 where there is none.
func (s *space) find(p annex.Page) int32 {
	if c := s.chunk(p); c != nil {
		return c[p%chunkPages]
	}
	return 0
}

func (s *space) set(p annex.Page, i int32) {
	c := s.chunk(p)
	if c == nil {
		c = &[chunkPages]int32{}
		key := p / chunkPages
		s.chunks[key] = c
		at, _ := slices.BinarySearch(s.order, key)
		s.order = slices.Insert(s.order, at, key)
	}
	c[p%chunkPages] = i
}

// each calls do with the pages, ascending.
func (s *space) each(do func(p annex.Page, i int32)) {
	for _, key := range s.order {
		for k, i := range s.chunks[key] {
			if i != 0 {
				do(key*chunkPages+annex.Page(k), i)
			}
		}
	}
}

// scan is what a look at its page tables would find.
func (s *space) scan(m *memory, id annex.ID, at annex.Moment) annex.Scan {
	scan := annex.Scan{ID: id, Space: s.name, Began: at, Ended: at, KnowsAccess: true}
	next := annex.Page(0)
	s.each(func(p annex.Page, i int32) {
		n := len(scan.Stretches)
		if n == 0 || p != next {
			scan.Stretches = append(scan.Stretches, annex.Stretch{First: p})
			n++
		}
		next = p + 1
		one := &scan.Stretches[n-1]
		one.States = append(one.States, m.pages[i].state())
	})
	return scan
}

func (p *page) state() annex.State {
	if p.flags&mapped == 0 {
		return annex.Swapped
	}
	s := annex.Present
	if p.flags&accessed != 0 {
		s |= annex.Accessed
	}
	if p.flags&dirty != 0 {
		s |= annex.Dirty
	}
	if p.flags&shared != 0 {
		s |= annex.Shared
	}
	return s
}
