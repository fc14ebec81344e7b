package data

import (
	"slices"
	"time"
	"unsafe"

	"tare/annex"
)

// Use is how what was brought in was used, in pages.
type Use struct {
	// Hits were touched after they had been brought in, Misses while they were away, and Wasted
	// left without having been touched. Mapped ones are in none of these: their use is not seen.
	Hits, Misses, Wasted int
	Fetched, Mapped      int
	Evicted, Errors      int // errors are those missed at once
}

// Tally is how much was asked for.
type Tally struct{ Requests, Pages int }

// tallies are by reason.
type tallies map[annex.Reason]Tally

func (t tallies) add(why annex.Reason, pages int) {
	n := t[why]
	n.Requests++
	n.Pages += pages
	t[why] = n
}

// account is what was asked for a context, and what came of it.
type account struct {
	use     Use
	asked   tallies
	history history
}

// Decision is something that was asked for, or left off. Like ones that follow each other are one.
type Decision struct {
	First, Last annex.Moment
	Op          annex.Op
	Why         annex.Reason
	Pages       int // 0 is that something was left off
	Moved       int // of them, as far as media have answered
	Says        string
	Problem     string // why some did not move; empty where nothing failed
}

// history is the last decisions on a context.
type history struct {
	ring []Decision
	next int
	made uint64 // how many there ever were: one's number is its place among them
}

// remembered is how many decisions a history holds.
const remembered = 32

// note adds a decision, or adds to the last one, and gives its number.
func (c *account) note(at annex.Moment, op annex.Op, why annex.Reason, pages int, says string) uint64 {
	h := &c.history
	if n := len(h.ring); n > 0 {
		last := &h.ring[(h.next+n-1)%n]
		if last.Op == op && last.Why == why && pages > 0 && last.Pages > 0 && at.Since(last.Last) < time.Second {
			last.Last, last.Pages = at, last.Pages+pages
			return h.made - 1
		}
	}
	d := Decision{First: at, Last: at, Op: op, Why: why, Pages: pages, Says: says}
	if len(h.ring) < remembered {
		h.ring = append(h.ring, d)
	} else {
		h.ring[h.next] = d
		h.next = (h.next + 1) % remembered
	}
	h.made++
	return h.made - 1
}

// came adds what became of a part of a decision, where that is remembered still.
func (h *history) came(number uint64, moved int, why error) {
	if h.made-number > uint64(len(h.ring)) {
		return
	}
	d := &h.ring[number%remembered]
	if d.Moved += moved; why != nil {
		d.Problem = why.Error()
	}
}

func (h *history) all() []Decision {
	return append(slices.Clone(h.ring[h.next:]), h.ring[:h.next]...)
}

func (h *history) size() int64 {
	n := int64(cap(h.ring)) * int64(unsafe.Sizeof(Decision{}))
	for _, d := range h.ring {
		n += int64(len(d.Says) + len(d.Problem))
	}
	return n
}

// cost is what moving one page takes, as measured.
type cost struct{ each time.Duration }

// Of what is measured now an eighth counts; and what moved little says more of the way
// to the medium than of the medium.
const (
	costWeight = 8
	costPages  = 32
)

// costLate is how many times the present cost a result counts as at most of which a call was late: one
// process that stood still says little of the medium, and many of them say more.
const costLate = 4

func (c *cost) saw(r annex.Result, isLate bool) {
	took := r.Ended.Since(r.Began)
	if r.Moved < costPages || took <= 0 {
		return
	}
	each := took / time.Duration(r.Moved)
	if isLate {
		each = min(each, costLate*c.each)
	}
	c.each += (each - c.each) / costWeight
	c.each = max(c.each, 1)
}

func (c cost) of(pages int) time.Duration { return c.each * time.Duration(pages) }
