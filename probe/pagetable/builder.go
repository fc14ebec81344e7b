package pagetable

// builder lays entries down in slabs, so that a census takes little more memory
// than its entries: a run is a slice of one, and no room is left but in the last.
type builder struct {
	slab  []Entry // the one that is being filled
	total uint64  // entries in all
	runs  []Run   // of the process that is being read
	begun int     // where in slab the process began; -1 where in one before
	live  int     // entries in slab that were not abandoned
	was   int     // what live was when the process began
}

const (
	smallestSlab = 1 << 13 // 64 KiB
	largestSlab  = 1 << 17 // 1 MiB
	spareShare   = 16      // at most this part of all is left unused
)

// begin begins a process.
func (b *builder) begin() {
	b.runs = b.runs[:0]
	b.begun, b.was = len(b.slab), b.live
}

// add takes the entries of neighbouring pages, of one mapping; a 0 is a page without one.
func (b *builder) add(page uint64, mapping int, entries []Entry) {
	for i := 0; i < len(entries); {
		if entries[i] == 0 {
			i++
			continue
		}
		end := i + 1
		for end < len(entries) && entries[end] != 0 {
			end++
		}
		b.stretch(page+uint64(i), mapping, entries[i:end])
		i = end
	}
}

// stretch takes entries without a gap.
func (b *builder) stretch(page uint64, mapping int, entries []Entry) {
	b.total += uint64(len(entries))
	for len(entries) > 0 {
		if len(b.slab) == cap(b.slab) {
			b.slab = make([]Entry, 0, min(max(b.total/spareShare, smallestSlab), largestSlab))
			b.begun, b.was, b.live = -1, 0, 0
		}
		at := len(b.slab)
		n := min(len(entries), cap(b.slab)-at)
		b.slab = append(b.slab, entries[:n]...)
		b.live += n
		if last := len(b.runs) - 1; at > 0 && last >= 0 && b.runs[last].Mapping == mapping &&
			b.runs[last].Page+uint64(len(b.runs[last].Entries)) == page {
			// The last run is the last of the slab too, unless that was empty.
			first := at - len(b.runs[last].Entries)
			b.runs[last].Entries = b.slab[first : at+n : at+n]
		} else {
			b.runs = append(b.runs, Run{Page: page, Mapping: mapping, Entries: b.slab[at : at+n : at+n]})
		}
		page += uint64(n)
		entries = entries[n:]
	}
}

// finish gives the runs of the process.
func (b *builder) finish() []Run {
	if len(b.runs) == 0 {
		return nil
	}
	// A copy of the exact size: what append leaves spare would outlive the census.
	runs := make([]Run, len(b.runs))
	copy(runs, b.runs)
	return runs
}

// abandon drops what was taken of the process.
func (b *builder) abandon() {
	for i := range b.runs {
		b.total -= uint64(len(b.runs[i].Entries))
	}
	b.runs = b.runs[:0]
	b.live = b.was
	if b.begun >= 0 {
		b.slab = b.slab[:b.begun]
	}
}

// trim gives back what the last slab has to spare, once all spaces are laid
// down: where the census is small, that would be most of it.
func (b *builder) trim(spaces []Space) {
	if uint64(cap(b.slab)-b.live) <= b.total/(2*spareShare) {
		return
	}
	exact := make([]Entry, b.live)
	// The slab holds what came last, since no run is in two.
	left := b.live
	for i := len(spaces) - 1; i >= 0 && left > 0; i-- {
		for j := len(spaces[i].Runs) - 1; j >= 0 && left > 0; j-- {
			r := &spaces[i].Runs[j]
			moved := exact[left-len(r.Entries) : left : left]
			copy(moved, r.Entries)
			r.Entries = moved
			left -= len(moved)
		}
	}
	b.slab = exact
}
