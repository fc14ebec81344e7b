package data

import (
	"time"

	"tare/annex"
)

// A program that misses a page has the kernel read what lies beside it in swap, too. What of that
// is not touched stays in memory, mapped by nobody, where no request for pages finds it: it takes
// the kernel's own reclaim. So does what was brought for a container that did not use it.
//
// Only as much of it as is told is known of, and not which pages they are.

const (
	// leftoverKept is what reclaim leaves of each container in any case, in pages; leftoverLeast
	// is what asking for it is worth.
	leftoverKept  = 256
	leftoverLeast = 256
	// vainRelease is for how long nothing is asked for after the kernel did not give it.
	vainRelease = 30 * time.Second
)

// Unmapped tells how much of a container is in memory and mapped by nobody, in bytes.
func (m *Manager) Unmapped(id annex.ID, bytes int64) {
	if c := m.byID[id]; c != nil && c.managed() && m.now >= c.stays {
		c.unmapped = int(bytes / annex.PageSize)
	}
}

// leftover has what nobody maps freed first: of containers that sleep, and for which nothing was
// brought that they may still come for.
func (e *eviction) leftover(n *room) {
	m := e.m
	for _, c := range m.contexts {
		spare := c.unmapped - leftoverKept
		if n.pages <= 0 || spare < leftoverLeast || c.awake || c.releasing || c.bring != nil || m.now < c.waitUntil || !m.warm(c) {
			continue
		}
		n.pages -= spare
		e.requests = append(e.requests, m.release(c, spare))
	}
}

// release asks for so many.
func (m *Manager) release(c *context, pages int) annex.Request {
	m.number++
	decided := c.note(m.now, annex.Evict, annex.Leftover, pages, "read ahead or brought in vain: nobody maps these")
	m.underWay[m.number] = &underWay{context: c, op: annex.Evict, why: annex.Leftover, unmapped: pages, decided: decided}
	m.leaving += pages
	c.releasing = true
	count(m.asked, annex.Leftover, pages)
	count(c.asked, annex.Leftover, pages)
	return annex.Request{Number: m.number, ID: c.info.ID, Op: annex.Evict, Why: annex.Leftover, Unmapped: pages}
}

// released takes what became of that.
func (m *Manager) released(u *underWay, r annex.Result) {
	c := u.context
	freed := min(max(r.Freed, 0), u.unmapped)
	m.leaving -= u.unmapped
	m.changed(r.Ended, freed)
	c.releasing, c.unmapped = false, 0 // what is left is told with the next look
	c.history.came(u.decided, freed, r.Err)
	if r.Err != nil {
		c.paused = r.Ended.After(pauseFailed)
	}
	if !r.Stopped && freed < u.unmapped/4 {
		c.stays = r.Ended.After(vainRelease)
	}
	c.grown -= freed
	// Which pages they were is not told: of most of them, those that were brought are among them.
	if freed < u.unmapped-u.unmapped/4 || c.awake {
		return
	}
	wasted := 0
	for _, s := range c.spaces {
		for i := range s.areas {
			cells := s.areas[i].cells
			for j := range cells {
				if f := cells[j].flags; f&incore != 0 && f&moving == 0 {
					wasted++
					c.put(&cells[j], f&^incore)
				}
			}
		}
	}
	c.use.Wasted += min(wasted, freed)
}
