package data

import "tare/annex"

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

// bornFor is for how many activations at least, and twice as many at most, a page counts as
// written that came into being in one. Much of that is what a program takes for the moment: it is
// freed a little later, or taken again and written anew, and to write it out between is in vain.
// Whether a page that stays in memory is used again nobody sees; so what is not freed by then
// leaves like any other, and is known for written where it comes back so.
const bornFor = 2

// dirty takes from a scan what tells whether a page is written when its container is awake:
// it has left before, and was written since. Of a page that never left that says nothing,
// as it had to be filled once; but one that is new counts as written for a while.
func (a *area) dirty(i int, st annex.State, isNew bool) {
	switch {
	case st == 0:
		a.left.drop(i)
		a.written.drop(i)
		a.grown(i)
	case !st.Has(annex.Present):
		a.leave(i)
	case st.Has(annex.Dirty) && a.left.has(i):
		a.written.set(i, len(a.cells))
	case isNew:
		a.born[0].set(i, len(a.cells))
	}
}

// leave notes that a page left.
func (a *area) leave(i int) {
	a.left.set(i, len(a.cells))
	a.grown(i)
}

// grown has a page be new no more.
func (a *area) grown(i int) {
	a.born[0].drop(i)
	a.born[1].drop(i)
}

// wears tells whether a page that leaves had better not: it is written, or new.
func (a *area) wears(i int) bool {
	return a.written.has(i) || a.born[0].has(i) || a.born[1].has(i)
}

// marked tells whether any may be so.
func (a *area) marked() bool { return a.written != nil || a.born[0] != nil || a.born[1] != nil }

// inherit takes what is marked of a page of another area.
func (a *area) inherit(i int, of *area, j int) {
	for _, m := range []struct {
		to   *marks
		from marks
	}{{&a.left, of.left}, {&a.written, of.written}, {&a.born[0], of.born[0]}, {&a.born[1], of.born[1]}} {
		if m.from.has(j) {
			m.to.set(i, len(a.cells))
		}
	}
}

// markBytes is what the marks take.
func (a *area) markBytes() int64 {
	return 8 * int64(cap(a.left)+cap(a.written)+cap(a.born[0])+cap(a.born[1]))
}
