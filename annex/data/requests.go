package data

import (
	"time"

	"tare/annex"
)

// request is one that media have not answered yet.
type request struct {
	context *context
	op      annex.Op
	why     annex.Reason
	runs    []annex.Run
	pages   int
	asked   annex.Moment
	// unmapped is how many pages it is to free that it does not name.
	unmapped int
	// isUncounted tells that it counts as leaving or coming no more.
	isUncounted bool
	decision    uint64 // the number of the decision that it is part of
	// back are pages of an eviction that left and were missed before its result was reported:
	// that it moved them is no longer so.
	back map[pageOf]bool
}

// pageOf names a page of a context.
type pageOf struct {
	space annex.Space
	page  annex.Page
}

func (r *request) has(f annex.Fault) bool {
	for _, run := range r.runs {
		if run.Space == f.Space && run.First <= f.Page && f.Page < run.End() {
			return true
		}
	}
	return false
}

// ask makes requests of at most a piece each.
func (m *Manager) ask(
	c *context,
	op annex.Op,
	why annex.Reason,
	runs []annex.Run,
	by annex.Moment,
	says string,
) []annex.Request {
	var requests []annex.Request
	for len(runs) > 0 {
		part, rest := split(runs, m.policy.Piece)
		runs = rest
		pages := annex.Count(part)
		c.pages.each(part, func(_ *space, _ *area, _ annex.Page, cell *cell) { c.pages.put(cell, cell.flags|moving) })
		m.lastNumber++
		decision := c.account.note(m.now, op, why, pages, says)
		m.underWay[m.lastNumber] = &request{
			context:  c,
			op:       op,
			why:      why,
			runs:     part,
			pages:    pages,
			asked:    m.now,
			decision: decision,
		}
		if op == annex.Evict {
			m.leaving += pages
			c.evict.leaving += pages
		} else {
			m.coming += pages
			c.fetch.coming += pages
			c.fetch.requests++
		}
		m.asked.add(why, pages)
		c.account.asked.add(why, pages)
		requests = append(
			requests,
			annex.Request{Number: m.lastNumber, ID: c.info.ID, Op: op, Why: why, Runs: part, By: by},
		)
	}
	return requests
}

// returned notes that a page of an eviction under way was missed already.
func (m *Manager) returned(c *context, f annex.Fault) {
	for _, r := range m.underWay {
		if r.context != c || r.op != annex.Evict || !r.has(f) {
			continue
		}
		if r.back == nil {
			r.back = map[pageOf]bool{}
		}
		r.back[pageOf{f.Space, f.Page}] = true
		return // a page is in one request at a time
	}
}

// Done reports what became of a request.
func (m *Manager) Done(r annex.Result) {
	m.see(r.Ended)
	asked := m.underWay[r.Number]
	if asked == nil {
		return
	}
	delete(m.underWay, r.Number)
	isLate := asked.isUncounted
	m.uncount(asked)
	if asked.unmapped > 0 {
		m.released(asked, r)
		return
	}
	if asked.op == annex.Evict {
		m.evictCost.saw(r, isLate)
	} else {
		m.fetchCost.saw(r, isLate)
	}
	moved := asked.context.done(asked, r)
	if c := m.byID[asked.context.info.ID]; c != nil && c != asked.context {
		c.successor(asked, r)
	}
	for _, p := range r.Parts {
		if p.Gone {
			m.Forget(asked.context.info.ID, p.Space)
		}
	}
	if asked.op == annex.Evict {
		m.memory.changed(r.Ended, min(r.Freed, moved+max(r.Cached, 0)))
		m.errors.evicted(r.Ended, moved)
	} else {
		m.memory.changed(r.Ended, -moved)
	}
}

// outcome is what a result says of the pages of a request.
type outcome struct {
	head  []annex.Run // the runs that were gone through
	pages int         // of these
	moved int
	// cached were brought in and not touched: they have no page table entry to be moved by. They
	// are gone as far as they were reclaimed, and stay, till the next looks, where most was not.
	cached      int
	isReclaimed bool
}

// outcomeOf reads a result. Media go through pages in order: where they stopped, the first are done.
func outcomeOf(asked *request, r annex.Result) outcome {
	o := outcome{head: asked.runs, pages: asked.pages}
	if r.Parts != nil {
		o.head = reached(asked.runs, r.Parts)
		o.pages = annex.Count(o.head)
	} else if r.Stopped || r.Err != nil {
		o.pages = min(r.Moved+r.Skipped, asked.pages)
		o.head = first(asked.runs, o.pages)
	}
	o.moved = min(max(r.Moved, 0), o.pages)
	o.cached = min(max(r.Cached, 0), o.pages-o.moved)
	o.isReclaimed = o.cached > 0 && 2*(r.Freed-o.moved) >= o.cached
	return o
}

// done takes what became of a request, and gives how many pages moved.
func (c *context) done(asked *request, r annex.Result) int {
	c.scans.lastMove = max(c.scans.lastMove, r.Ended)
	o := outcomeOf(asked, r)
	if left := c.moved(asked, r, o); left.pages > 0 {
		c.predictor.Left(left.runs)
	}
	gone := o.moved
	if o.isReclaimed {
		gone += o.cached
	}
	c.account.history.came(asked.decision, gone, r.Err)
	if asked.why == annex.Drained {
		c.drained(asked, r, o)
	}
	switch {
	case asked.why == annex.Drained && len(r.Unread) > 0: // a drain ends without waiting for what cannot be read
	case r.Err != nil && !ended(asked.runs, r.Parts):
		c.pausedUntil = r.Ended.After(pauseFailed)
	case o.moved == 0 && (r.Stopped || asked.op != annex.Evict):
		c.pausedUntil = r.Ended.After(retry)
	}
	if asked.op == annex.Evict {
		c.evicted(asked, r, o)
	} else {
		c.fetched(asked, r, o)
	}
	return o.moved
}

// moved has the pages of a request be where they are now, and gives those that left.
func (c *context) moved(asked *request, r annex.Result, o outcome) (left collect) {
	now := stampOf(r.Ended)
	unread := map[pageOf]bool{}
	c.pages.each(r.Unread, func(s *space, _ *area, page annex.Page, _ *cell) { unread[pageOf{s.name, page}] = true })
	c.pages.each(o.head, func(s *space, a *area, page annex.Page, cell *cell) {
		f, some := cell.flags&^moving, o.moved > 0 && movedOf(r.Parts, s.name)
		switch {
		case unread[pageOf{s.name, page}]:
		case asked.back[pageOf{s.name, page}]: // it has come back since
		case asked.op == annex.Evict && f&present == 0 && f&incore != 0:
			if !o.isReclaimed {
				f |= pinned
				break
			}
			c.account.use.Wasted++
			f &^= incore
			left.add(s.name, page)
		case asked.op == annex.Evict && !some && f&present != 0:
			f |= pinned // all of it was passed by
		case asked.op == annex.Evict && f&present != 0:
			f = f&^(present|young) | swapped
			a.extent(page).leave(now)
			a.leave(int(page - a.first))
			left.add(s.name, page)
		case asked.op == annex.Fetch && f&present == 0 && some:
			f |= incore | swapped
		case asked.op == annex.Map && f&present == 0 && some:
			f = f&^(swapped|incore) | present | young
		}
		c.pages.put(cell, f)
	})
	c.pages.each(
		asked.runs,
		func(_ *space, _ *area, _ annex.Page, cell *cell) { c.pages.put(cell, cell.flags&^moving) },
	)
	return left
}

// evicted takes what became of an eviction.
func (c *context) evicted(asked *request, r annex.Result, o outcome) {
	c.account.use.Evicted += o.moved
	c.evict.leaving -= asked.pages
	c.fetch.taken -= min(r.Freed, o.moved+o.cached)
	c.scans.passedBy = c.scans.passedBy || o.moved+o.cached < o.pages
	if !c.activity.isAwake() && !c.fetch.isOffered {
		c.expected.lookAt = min(c.expected.lookAt, r.Ended) // now there is something to fetch
	}
}

// fetched takes what became of a fetch.
func (c *context) fetched(asked *request, r annex.Result, o outcome) {
	c.fetch.coming -= asked.pages
	c.fetch.taken += o.moved
	c.fetch.requests--
	if o.moved == 0 {
		return
	}
	c.fetch.lastArrival = max(c.fetch.lastArrival, r.Ended)
	if asked.op == annex.Map {
		c.account.use.Mapped += o.moved
		c.record.isUnseen, c.fetch.isMapped = true, true
		c.predictor.Mapped(o.head)
	} else {
		c.account.use.Fetched += o.moved
		c.predictor.Brought(o.head, r.Ended)
	}
}

// successor has a container that was removed and added anew take what became of a request for
// the one before.
func (c *context) successor(asked *request, r annex.Result) {
	c.scans.lastMove = max(c.scans.lastMove, r.Ended)
	all := r.Moved == asked.pages
	c.pages.each(asked.runs, func(s *space, _ *area, page annex.Page, cell *cell) {
		f := cell.flags &^ moving
		switch {
		case !all || asked.back[pageOf{s.name, page}]:
		case asked.op == annex.Evict:
			f = f&^(present|incore|young) | swapped
		case asked.op == annex.Map:
			f = f&^(swapped|incore) | present | young
		}
		c.pages.put(cell, f)
	})
}

// pauseFailed is for how long nothing is asked for a context of which a request failed: it may
// have ended, which is reported soon, or swap may be broken.
const pauseFailed = time.Second

// ended tells whether all that was not gone through is of spaces that are no more, as where workers
// come and go: that is no reason to ask for nothing of the others.
func ended(runs []annex.Run, parts []annex.Part) bool {
	asked := map[annex.Space]int{}
	for _, r := range runs {
		asked[r.Space] += r.Pages
	}
	gone := false
	for _, p := range parts {
		if p.Gone {
			gone = true
		} else if p.Done < asked[p.Space] {
			return false
		}
	}
	return gone
}

// reached are the pages of runs that were gone through, as reported of each space.
func reached(runs []annex.Run, parts []annex.Part) (head []annex.Run) {
	left := map[annex.Space]int{}
	for _, p := range parts {
		left[p.Space] = p.Done
	}
	for _, r := range runs {
		if r.Pages = min(r.Pages, left[r.Space]); r.Pages > 0 {
			left[r.Space] -= r.Pages
			head = append(head, r)
		}
	}
	return head
}

// movedOf tells whether any page of a space moved, as far as that is reported of it alone.
func movedOf(parts []annex.Part, s annex.Space) bool {
	for _, p := range parts {
		if p.Space == s {
			return p.Moved > 0
		}
	}
	return true
}
