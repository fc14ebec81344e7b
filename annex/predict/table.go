package predict

import (
	"math/bits"
	"slices"
	"unsafe"

	"tare/annex"
)

// tablePages is how many pages a table is of: those of one of the kernel's page tables.
const tablePages = 512

const tableWords = tablePages / 64

// set is a set of a table's pages.
type set [tableWords]uint64

func (s *set) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }
func (s *set) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s *set) remove(i int)   { s[i/64] &^= 1 << (i % 64) }

// below is how many of the set's pages come before i.
func (s *set) below(i int) int {
	n := 0
	for w := range i / 64 {
		n += bits.OnesCount64(s[w])
	}
	return n + bits.OnesCount64(s[i/64]&(1<<(i%64)-1))
}

// each gives the pages in ascending order.
func (s *set) each(yield func(i int) bool) {
	for w, word := range s {
		for ; word != 0; word &= word - 1 {
			if !yield(w*64 + bits.TrailingZeros64(word)) {
				return
			}
		}
	}
}

// span is the pages from low up to high, which is not among them.
func span(low, high int) set {
	var s set
	for w := low / 64; w < tableWords && w*64 < high; w++ {
		word := ^uint64(0)
		if w*64 < low {
			word &= ^uint64(0) << (low % 64)
		}
		if high < (w+1)*64 {
			word &= 1<<(high%64) - 1
		}
		s[w] = word
	}
	return s
}

// table is what is known of consecutive pages of a space.
type table struct {
	id     uint32 // its place in the context
	space  *space
	number uint64 // the first page over tablePages
	member set    // pages of the record
	tells  set    // those of them of which a touch would be a fault
	cells  []cell // of the members, ascending
	burst  *marks // nil where the open burst did not come here
}

// marks are what an open burst did in a table.
type marks struct {
	touched set
	gone    set // left memory meanwhile: they were there for a part of it, and tell nothing
}

func (t *table) marks() *marks {
	if t.burst == nil {
		t.burst = new(marks)
	}
	return t.burst
}

func (t *table) page(i int) annex.Page { return annex.Page(t.number*tablePages + uint64(i)) }

// cell is the member's.
func (t *table) cell(i int) *cell { return &t.cells[t.member.below(i)] }

// admit makes a page a member.
func (t *table) admit(i int, c cell) {
	t.cells = slices.Insert(t.cells, t.member.below(i), c)
	t.member.add(i)
}

// drop removes pages from the record, and gives back what they took.
func (t *table) drop(pages set) {
	kept, n := t.cells[:0], 0
	for i := range t.member.each {
		if !pages.has(i) {
			kept = append(kept, t.cells[n])
		}
		n++
	}
	t.cells = kept
	for w := range t.member {
		t.member[w] &^= pages[w]
		t.tells[w] &= t.member[w]
	}
}

// fit gives back room that growing has left.
func (t *table) fit() {
	if spare := cap(t.cells) - len(t.cells); spare > 16 && spare > len(t.cells)/8 {
		t.cells = slices.Clone(t.cells)
	}
}

// size is the bytes that it takes, with its entries in the map and the list.
func (t *table) size() int64 {
	const entries = 8 + 8 + 8 + 8 // key, pointer and the map's own share; the list's pointer
	n := int64(unsafe.Sizeof(*t)) + entries + int64(cap(t.cells))*int64(unsafe.Sizeof(cell(0)))
	if t.burst != nil {
		n += int64(unsafe.Sizeof(*t.burst))
	}
	return n
}
