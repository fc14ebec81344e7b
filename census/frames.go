package census

import (
	"slices"

	"tare/probe/pagetable"
)

// A frame's cell says who maps it. Cells lie in a tree over frame numbers, whose
// leaves are made where frames are seen: memory grows with the memory that
// the containers use, and a look-up is three loads.
type cell struct {
	seen uint32 // group+1 of the last one that mapped it, and the two bits below
	file uint32 // file+1 that it was first seen under; 0 is none
}

const (
	again   = 1 << 31 // mapped by a second entry
	abroad  = 1 << 30 // mapped by a second group
	groupOf = abroad - 1

	leafBits   = 14 // 64 MiB of memory
	branchBits = 13
	rootBits   = 40 - leafBits - branchBits // frame numbers have 40 bits
)

type (
	leaf   [1 << leafBits]cell
	branch [1 << branchBits]*leaf
)

type frameTable struct {
	root [1 << rootBits]*branch
	// The leaf that was last used: neighbours in a page table are mostly
	// neighbours in memory.
	at   uint64
	last *leaf
}

// cell finds the frame's cell, and makes it where there is none.
func (t *frameTable) cell(frame uint64) *cell {
	if at := frame >> leafBits; t.last == nil || at != t.at {
		b := &t.root[at>>branchBits]
		if *b == nil {
			*b = new(branch)
		}
		l := &(*b)[at&(1<<branchBits-1)]
		if *l == nil {
			*l = new(leaf)
		}
		t.at, t.last = at, *l
	}
	return &t.last[frame&(1<<leafBits-1)]
}

// readFrames visits all entries, group by group, so that the last group that
// mapped a frame is enough to count each group's frames once.
func (n *counter) readFrames() {
	order := make([]int, len(n.census.Spaces))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return n.census.Spaces[a].Group - n.census.Spaces[b].Group
	})
	for _, i := range order {
		s := &n.census.Spaces[i]
		files := n.files.of(s)
		for r := range s.Runs {
			run := &s.Runs[r]
			file := files[run.Mapping]
			for _, e := range run.Entries {
				if sort(e) == framed {
					n.see(e, s.Group, file)
				}
			}
		}
	}
}

// see notes that the group maps the entry's frame. file is the mapping's, or -1.
func (n *counter) see(e pagetable.Entry, group int, file int) {
	groups := n.count.Groups
	c := n.frames.cell(e.Frame())
	merged := bit(e.Has(pagetable.KSM))
	switch last := int(c.seen & groupOf); last {
	case 0:
		n.count.Frames.Mapped++
		n.count.Frames.KSM += merged
		groups[group].Frames.Mapped++
		groups[group].Frames.KSM += merged
		groups[group].OwnFrames++
		c.seen = uint32(group + 1)
	case group + 1:
		c.seen |= again
	default:
		groups[group].Frames.Mapped++
		groups[group].Frames.KSM += merged
		if c.seen&abroad == 0 {
			groups[last-1].OwnFrames--
		}
		c.seen = uint32(group+1) | again | abroad
	}
	if file < 0 || !isFile(e) {
		return
	}
	switch first := int(c.file); first {
	case 0:
		c.file = uint32(file + 1)
		n.files.all[file].Frames++
	case file + 1:
	default:
		n.files.unite(first-1, file)
	}
}
