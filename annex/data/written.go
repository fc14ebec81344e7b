package data

import (
	"cmp"
	"slices"

	"tare/annex"
)

// marks is a bit for each page of an area; empty is none.
type marks []uint64

func (b marks) has(i int) bool { return i>>6 < len(b) && b[i>>6]>>(i&63)&1 != 0 }

func (b *marks) set(i, of int) {
	if *b == nil {
		*b = make(marks, (of+63)>>6)
	}
	(*b)[i>>6] |= 1 << (i & 63)
}

func (b marks) drop(i int) {
	if i>>6 < len(b) {
		b[i>>6] &^= 1 << (i & 63)
	}
}

// writeWeight is how many times sooner a page that its container writes when awake counts
// as wanted. One that is only read keeps its place in swap when it comes back, and leaves
// by being forgotten; one that was written has to be written there first, which wears the
// device and takes from it what others read. 1 would have writes cost nothing.
const writeWeight = 4

// dirty takes from a scan what tells whether a page is written when its container is awake:
// it has left before, and was written since. Of a page that never left that says nothing,
// as it had to be filled once.
func (a *area) dirty(i int, st annex.State) {
	switch {
	case st == 0:
		a.left.drop(i)
		a.written.drop(i)
	case !st.Has(annex.Present):
		a.left.set(i, len(a.cells))
	case st.Has(annex.Dirty) && a.left.has(i):
		a.written.set(i, len(a.cells))
	}
}

// leaver is a sleeping context's record, or the part of it that is written.
type leaver struct {
	*context
	written bool
	at      annex.Moment // when it counts as wanted
}

// part is which of the two.
func (l leaver) part() int {
	if l.written {
		return 1
	}
	return 0
}

// leavers are the parts of the records of sleeping contexts in the order in which they leave:
// what counts as wanted last goes first.
func (m *Manager) leavers(asleep []*context) []leaver {
	order := make([]leaver, 0, 2*len(asleep))
	for _, c := range asleep {
		at := m.wakes(c)
		order = append(order, leaver{c, false, at})
		if c.learned && c.writes {
			order = append(order, leaver{c, true, m.now.After(max(at.Since(m.now), 0) / writeWeight)})
		}
	}
	slices.SortStableFunc(order, func(a, b leaver) int { return cmp.Compare(b.at, a.at) })
	return order
}
