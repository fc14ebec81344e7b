package data

import (
	"time"

	"tare/annex"
)

// A program that misses a page has the kernel read what lies beside it in swap, too. What of that
// is not touched stays in memory, mapped by nobody, where no request for pages finds it: it takes
// the kernel's own reclaim. So does what was brought for a container that did not use it.
//
// Only how much of it there is is known, and not which pages they are.

// unmappedPages are those of a context that are in memory and mapped by nobody.
type unmappedPages struct {
	pages       int          // as last reported
	isReleasing bool         // they are being freed
	retryAt     annex.Moment // until then they are left: the kernel did not free them
}

const (
	// leftoverKept is what reclaim leaves of each container in any case, in pages; leftoverLeast
	// is what asking for it is worth.
	leftoverKept  = 256
	leftoverLeast = 256
	// retryRelease is for how long nothing is asked for after the kernel did not give it.
	retryRelease = 30 * time.Second
)

// Unmapped reports how much of a container is in memory and mapped by nobody, in bytes.
func (m *Manager) Unmapped(id annex.ID, bytes int64) {
	if c := m.byID[id]; c != nil && c.managed() && m.now >= c.unmapped.retryAt {
		c.unmapped.pages = int(bytes / annex.PageSize)
	}
}

// leftover has what nobody maps freed first: of containers that sleep, and for which nothing was
// brought that they may still come for.
func (e *eviction) leftover(n *room) {
	m := e.m
	for _, c := range m.contexts {
		spare := c.unmapped.pages - leftoverKept
		if n.pages <= 0 || spare < leftoverLeast || c.activity.isAwake() || c.unmapped.isReleasing ||
			c.fetch.plan != nil ||
			m.now < c.fetch.keepUntil ||
			!m.isWarm(c) {
			continue
		}
		n.pages -= spare
		e.requests = append(e.requests, m.release(c, spare))
	}
}

// release asks for so many.
func (m *Manager) release(c *context, pages int) annex.Request {
	m.lastNumber++
	decision := c.account.note(m.now, annex.Evict, annex.Leftover, pages, "read ahead or brought in vain: nobody maps these")
	m.underWay[m.lastNumber] = &request{
		context:  c,
		op:       annex.Evict,
		why:      annex.Leftover,
		unmapped: pages,
		decision: decision,
	}
	m.leaving += pages
	c.unmapped.isReleasing = true
	m.asked.add(annex.Leftover, pages)
	c.account.asked.add(annex.Leftover, pages)
	return annex.Request{Number: m.lastNumber, ID: c.info.ID, Op: annex.Evict, Why: annex.Leftover, Unmapped: pages}
}

// released takes what became of that.
func (m *Manager) released(u *request, r annex.Result) {
	c := u.context
	freed := min(max(r.Freed, 0), u.unmapped)
	m.memory.changed(r.Ended, freed)
	c.unmapped.isReleasing, c.unmapped.pages = false, 0 // the next look says what is left
	c.account.history.came(u.decision, freed, r.Err)
	if r.Err != nil {
		c.pausedUntil = r.Ended.After(pauseFailed)
	}
	if !r.Stopped && freed < u.unmapped/4 {
		c.unmapped.retryAt = r.Ended.After(retryRelease)
	}
	c.fetch.taken -= freed
	// Which pages they were is not known: of most of them, those that were brought are among them.
	if freed < u.unmapped-u.unmapped/4 || c.activity.isAwake() {
		return
	}
	wasted := 0
	for a := range c.pages.areas() {
		for j := range a.cells {
			if f := a.cells[j].flags; f&incore != 0 && f&moving == 0 {
				wasted++
				c.pages.put(&a.cells[j], f&^incore)
			}
		}
	}
	c.account.use.Wasted += min(wasted, freed)
}
