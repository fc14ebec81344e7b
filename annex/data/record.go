package data

import (
	"tare/annex"
)

// recordUse is how well the record of a container fits what it does: the pages that the predictor
// expects it to touch when it is awake.
type recordUse struct {
	exists bool
	// isWrong is that it has proved wrong since the container woke.
	isWrong bool
	// isUnseen is that the use of pages is not seen until it sleeps: they were mapped, or
	// observations were lost.
	isUnseen bool
	// missed are the faults since it woke on pages that were away, and inside those of them that
	// are in the record.
	missed, inside int
}

// severalFirst is how many times the policy's First faults use a record that misses much else.
const severalFirst = 8

// isUsed tells that a container that woke uses its record: by a few faults in it where it misses
// next to nothing else, and otherwise by several. A probe that finds its own pages gone misses
// many, and some page of the record by chance.
func (r *recordUse) isUsed(p Policy) bool {
	return r.inside >= p.First && 2*r.inside >= r.missed || r.inside >= severalFirst*p.First
}

// isDisproved tells that a container that woke misses much else than its record.
func (r *recordUse) isDisproved(p Policy) bool {
	return r.missed >= p.Judged && r.exists && !r.isUnseen && float64(r.inside) < p.Proof*float64(r.missed)
}

// mark notes which pages the record has, when an activation has ended.
func (c *context) mark(at annex.Moment) {
	drop := recorded
	forget := c.probed.forget(c.activity.count, at)
	if forget {
		drop |= probed
		c.pages.hasWritten = false
	}
	for a := range c.pages.areas() {
		if forget {
			a.written = nil
		}
		if c.activity.count%bornFor == 0 {
			a.born = [2]marks{nil, a.born[0]}
		}
		c.pages.hasWritten = c.pages.hasWritten || a.marked()
		for j := range a.cells {
			if f := a.cells[j].flags; f&drop != 0 {
				c.pages.put(&a.cells[j], f&^drop)
			}
		}
	}
	ranked := c.predictor.Pages()
	c.record.exists = len(ranked) > 0
	for _, r := range ranked {
		c.pages.each(
			[]annex.Run{r.Run},
			func(_ *space, _ *area, _ annex.Page, cell *cell) { c.pages.put(cell, cell.flags|recorded) },
		)
	}
}
