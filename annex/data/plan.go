package data

import (
	"cmp"
	"slices"
	"time"

	"tare/annex"
)

// Plan gives what is to be asked of media now, in the order in which it is wanted, and the
// moment at which to plan again if nothing is told before; 0 is none. To plan after whatever was
// told costs little where nothing is to be done.
func (m *Manager) Plan(now annex.Moment) (requests []annex.Request, next annex.Moment) {
	m.see(now)
	for _, c := range m.contexts {
		if !c.managed() {
			continue
		}
		c.sweep(tickOf(m.now, m.policy))
		if c.awake && !c.worked && m.now >= c.woke.After(m.policy.ProbeTime) {
			m.work(c)
		}
	}
	m.errors.judge(m.now, m.policy)
	if m.draining {
		return m.drain()
	}
	m.expect()
	brings := m.brings()
	// What is to come goes first: there is room for it by now, or it is not asked for.
	requests = m.fetch(brings)
	requests = append(requests, m.evict(brings)...)
	return requests, m.next()
}

// Drain has everything come back as far as there is room, and nothing leave; or ends that.
func (m *Manager) Drain(on bool) {
	m.draining = on
	for _, c := range m.contexts {
		c.bring, c.following = nil, nil
		if !on && !c.awake {
			c.look = m.now
		}
	}
}

// warm tells whether pages of a context may leave: it is known for long enough, and media do
// not fail with it.
func (m *Manager) warm(c *context) bool {
	return c.managed() && m.now >= c.info.At.After(m.policy.WarmUp) && m.now >= c.paused
}

// Lost tells that observations were lost: that a page was not seen to be used says nothing
// then of those that were awake.
func (m *Manager) Lost() {
	for _, c := range m.contexts {
		if c.awake && c.managed() {
			c.predictor.Lost()
			c.blind = true
		}
	}
}

func (p Policy) low() int     { return int(p.Low / annex.PageSize) }
func (p Policy) high() int    { return int(p.High / annex.PageSize) }
func (p Policy) reserve() int { return int(p.Reserve / annex.PageSize) }

// available are the pages that will be free when all that is under way is done; ready those
// that are so even if no eviction ends.
func (m *Manager) available() int { return m.free() + m.leaving - m.coming }
func (m *Manager) ready() int     { return m.free() - m.coming }

// hanging are the pages of fetches that take long: of a process that is stuck, say, whose container
// is none of the others' business.
func (m *Manager) hanging() (pages int) {
	for _, u := range m.underWay {
		if u.op != annex.Evict && m.now > u.asked.After(hangs) {
			pages += u.pages
		}
	}
	return pages
}

// hangs is from how long on a fetch hangs: a piece takes milliseconds, and where the device is
// overrun tens of them. That more of them does is the device, or stops whoever moves pages, and
// mostHanging pieces are made up for at most.
const (
	hangs       = time.Second
	mostHanging = 4
)

// retry is after how long it is planned again where what is wanted was not to be had.
const retry = 100 * time.Millisecond

// next is when something is to be done, if nothing is told.
func (m *Manager) next() annex.Moment {
	at := never
	for _, c := range m.contexts {
		if !c.managed() {
			continue
		}
		switch {
		case c.atWork() || c.bring != nil:
		case c.offered && c.vain < mostVain:
			at = min(at, max(c.waitUntil, m.now.After(retry)))
		case !c.offered && c.look > m.now:
			at = min(at, c.look)
		case !c.offered: // held back
			at = min(at, m.now.After(retry))
		}
		if c.awake && !c.worked {
			at = min(at, c.woke.After(m.policy.ProbeTime))
		}
		if c.bring != nil && c.requests == 0 {
			at = min(at, m.now.After(retry))
		}
	}
	if m.evicting && m.leaving == 0 {
		at = min(at, m.now.After(retry))
	}
	if at == never {
		return 0
	}
	return max(at, m.now+1)
}

// ask makes requests of at most a piece each.
func (m *Manager) ask(c *context, op annex.Op, why annex.Reason, runs []annex.Run, by annex.Moment, says string) []annex.Request {
	var requests []annex.Request
	for len(runs) > 0 {
		part, rest := split(runs, m.policy.Piece)
		runs = rest
		pages := annex.Count(part)
		c.each(part, func(_ *space, _ *area, _ annex.Page, cell *cell) { c.put(cell, cell.flags|moving) })
		m.number++
		decided := c.note(m.now, op, why, pages, says)
		m.underWay[m.number] = &underWay{context: c, op: op, why: why, runs: part, pages: pages, asked: m.now, decided: decided}
		if op == annex.Evict {
			m.leaving += pages
			c.leaving += pages
		} else {
			m.coming += pages
			c.coming += pages
			if why != annex.Striding {
				c.requests++
			}
		}
		count(m.asked, why, pages)
		count(c.asked, why, pages)
		requests = append(requests, annex.Request{Number: m.number, ID: c.info.ID, Op: op, Why: why, Runs: part, By: by})
	}
	return requests
}

func count(t map[annex.Reason]Tally, why annex.Reason, pages int) {
	n := t[why]
	n.Requests++
	n.Pages += pages
	t[why] = n
}

// split parts runs after so many pages.
func split(runs []annex.Run, pages int) (head, rest []annex.Run) {
	for i, r := range runs {
		if r.Pages < pages {
			pages -= r.Pages
			continue
		}
		if r.Pages == pages {
			return runs[: i+1 : i+1], runs[i+1:]
		}
		head = append(runs[:i:i], annex.Run{Space: r.Space, First: r.First, Pages: pages})
		rest = slices.Clone(runs[i:])
		rest[0].First += annex.Page(pages)
		rest[0].Pages -= pages
		return head, rest
	}
	return runs, nil
}

// collect gathers pages into runs.
type collect struct {
	runs  []annex.Run
	pages int
}

func (g *collect) add(s annex.Space, p annex.Page) {
	g.pages++
	if n := len(g.runs); n > 0 {
		if r := &g.runs[n-1]; r.Space == s && r.End() == p {
			r.Pages++
			return
		}
	}
	g.runs = append(g.runs, annex.Run{Space: s, First: p, Pages: 1})
}

// foretell asks what is expected of a sleeping context, where that was not done just now.
func (m *Manager) foretell(c *context) {
	if c.told != 0 && m.now < c.told.After(retry) {
		return
	}
	c.told = m.now
	c.forecast, c.expects = c.predictor.Next(m.now)
}

// wakes is when a sleeping context is likely to wake: as it is predicted, or sooner where it does
// a little work every while, or else as long after its last activation as that was after the one before, or else as far from now as it has slept
// already.
func (m *Manager) wakes(c *context) annex.Moment {
	m.foretell(c)
	at, stirs := c.stirs(m.now)
	switch {
	case c.expects && (!stirs || c.forecast.Likely < at):
		return c.forecast.Likely
	case stirs:
		return at
	}
	if at := c.began.After(c.usual); at > m.now {
		return at
	}
	return m.now.After(c.idle(m.now))
}

// asleep are the sleeping contexts of which pages may leave, that first which wakes last;
// of several the one that was seldom awake, and then the larger.
func (m *Manager) asleep() []*context {
	type ranked struct {
		*context
		at annex.Moment
	}
	var order []ranked
	for _, c := range m.contexts {
		if !c.awake && m.warm(c) && c.count().movable > 0 {
			order = append(order, ranked{c, m.wakes(c)})
		}
	}
	slices.SortStableFunc(order, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(a.started, b.started), cmp.Compare(b.count().resident, a.count().resident))
	})
	contexts := make([]*context, len(order))
	for i, r := range order {
		contexts[i] = r.context
	}
	return contexts
}
