package monitor

import (
	"tare/annex"
	"tare/probe/pagetable"
)

// gap is how many pages without an entry a stretch takes along: as many bytes as another
// stretch's own description takes.
const gap = 32

// ours tells whether a mapping is of private anonymous memory.
func ours(m *pagetable.Mapping) bool {
	switch m.Kind {
	case pagetable.Anonymous, pagetable.Heap, pagetable.Stack:
		return !m.Shared
	}
	return false
}

// stretches gives the states of a space's private anonymous memory, and how many of its
// pages have an entry.
func stretches(space *pagetable.Space, shared *frames) ([]annex.Stretch, int) {
	// Once through for the room that it takes, so that it is taken in one piece.
	var count, states, pages int
	each(space, func(run *pagetable.Run, follows int) {
		if follows < 0 {
			count++
		} else {
			states += follows
		}
		states += len(run.Entries)
		pages += len(run.Entries)
	})
	all, room := make([]annex.Stretch, 0, count), make([]annex.State, 0, states)
	begins := 0
	each(space, func(run *pagetable.Run, follows int) {
		if follows < 0 {
			begins = len(room)
			all = append(all, annex.Stretch{First: annex.Page(run.Page)})
		} else {
			room = room[:len(room)+follows] // never touched: zero
		}
		for _, e := range run.Entries {
			room = append(room, stateOf(e, shared))
		}
		all[len(all)-1].States = room[begins:len(room):len(room)]
	})
	return all, pages
}

// each visits the runs of private anonymous memory. follows is how many pages lie between
// one and the one before it, where both are of one stretch; else it is -1.
func each(space *pagetable.Space, visit func(run *pagetable.Run, follows int)) {
	var last *pagetable.Run
	for i := range space.Runs {
		run := &space.Runs[i]
		if !ours(&space.Mappings[run.Mapping]) {
			continue
		}
		follows := -1
		if last != nil && last.Mapping == run.Mapping {
			if d := run.Page - last.Page - uint64(len(last.Entries)); d <= gap {
				follows = int(d)
			}
		}
		visit(run, follows)
		last = run
	}
}

// meanings are the states for the bits of an entry from Present to FileFrame: a look-up for
// each page, of which there are many, in place of half a dozen tests. The page of zeros,
// which stands where memory was only read, is no page that could leave.
var meanings = func() (all [256]annex.State) {
	for i := range all {
		e := pagetable.Entry(i) * pagetable.Present
		if e.Has(pagetable.Swapped) {
			all[i] = annex.Swapped
			continue
		}
		if !e.Has(pagetable.Present) || e.Has(pagetable.Zero) {
			continue
		}
		all[i] = annex.Present
		for _, m := range []struct {
			of pagetable.Entry
			is annex.State
		}{{pagetable.Accessed, annex.Accessed}, {pagetable.Dirty, annex.Dirty}, {pagetable.Huge, annex.Huge}} {
			if e.Has(m.of) {
				all[i] |= m.is
			}
		}
	}
	return all
}()

// stateOf is what an entry says.
func stateOf(e pagetable.Entry, shared *frames) annex.State {
	s := meanings[uint8(e/pagetable.Present)]
	if s&annex.Present != 0 && (e.Has(pagetable.SharedFrame) || shared.used && shared.several(e)) {
		s |= annex.Shared
	}
	return s
}

// frames finds which frames several spaces map, as children that were forked do with
// their parent until one of them writes.
type frames struct {
	blocks map[uint64]*block
	used   bool
}

// block is neighbouring frames: mapped once, and again.
type block struct{ once, again [blockFrames / 64]uint64 }

const blockFrames = 1 << 13

// find looks at the entries of all spaces; of one alone there is nothing to find.
func (f *frames) find(spaces []pagetable.Space) {
	if f.used = len(spaces) > 1; !f.used {
		return
	}
	f.blocks = map[uint64]*block{}
	for i := range spaces {
		each(&spaces[i], func(run *pagetable.Run, _ int) {
			for _, e := range run.Entries {
				if !shareable(e) {
					continue
				}
				n := e.Frame()
				b := f.blocks[n/blockFrames]
				if b == nil {
					b = new(block)
					f.blocks[n/blockFrames] = b
				}
				word, bit := n%blockFrames/64, uint64(1)<<(n%64)
				b.again[word] |= b.once[word] & bit
				b.once[word] |= bit
			}
		})
	}
}

// forget gives the memory back.
func (f *frames) forget() { f.blocks, f.used = nil, false }

// shareable tells whether a page could be mapped by several: one that may be written, or
// that is swapped out, is no such. (Without BPF it is not known what may be written.)
func shareable(e pagetable.Entry) bool {
	return e&(pagetable.Present|pagetable.Writable|pagetable.Zero) == pagetable.Present
}

// several tells whether the frame of an entry is mapped by more than one space.
func (f *frames) several(e pagetable.Entry) bool {
	if !shareable(e) {
		return false
	}
	n := e.Frame()
	b := f.blocks[n/blockFrames]
	return b != nil && b.again[n%blockFrames/64]&(1<<(n%64)) != 0
}
