package data

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"tare/annex"
	"tare/annex/predict"
)

// recordFetch is a record on its way back.
type recordFetch struct {
	why  annex.Reason
	by   annex.Moment
	rest []predict.Ranked // what has not been asked for
	// expected is when its container is expected to wake: pages of those that wake later may
	// make room for it. 0 is of anyone, since it is awake.
	expected annex.Moment
	// onlySpare is that it comes since there is room, which nobody has to make.
	onlySpare bool
	// maps has pages that are certain mapped.
	maps bool
	// isSure is that it comes though nothing is free.
	isSure bool
	says   string
}

// fetching is what comes back of a context.
type fetching struct {
	plan        *recordFetch // nil: its record does not come
	requests    int          // of the plan, under way
	coming      int          // pages under way
	taken       int          // pages that the context took since its room was reported
	lastArrival annex.Moment // when pages of its record came last
	isMapped    bool         // its record was mapped, and not only fetched, since it slept

	isOffered bool         // its record was fetched since it slept
	unused    int          // how often in a row it was fetched and did not wake
	keepUntil annex.Moment // what was fetched for it stays until then
	forecasts int          // how often it was fetched for a forecast
	leader    *leader      // the container after which this one wakes has woken

	drain draining
}

// slept resets it when an activation has ended.
func (f *fetching) slept() {
	f.plan, f.leader, f.isMapped = nil, nil, false
	f.isOffered, f.unused, f.keepUntil = false, 0, 0
}

// leader is another container whose waking announces this one's.
type leader struct {
	id annex.ID
	by annex.Moment // it wakes until then, if it does
}

// expect begins to bring the records of those that are about to wake.
func (m *Manager) expect() {
	if m.errors.over || m.critical() == 0 {
		return
	}
	for _, c := range m.contexts {
		f := &c.fetch
		if c.activity.state == active || f.plan != nil || !c.managed() || c.isStill(m.now) {
			continue
		}
		if f.isOffered {
			// It may come the next time that it is expected; but not time after time.
			if m.now < f.keepUntil || f.unused >= mostUnused {
				continue
			}
			f.isOffered, c.expected.lookAt = false, m.now
			f.unused++
		}
		if f.leader != nil {
			m.followLeader(c)
		} else if m.now >= c.expected.lookAt {
			m.due(c)
		}
	}
	m.fill()
}

// followLeader brings the record of a container after whose leader it is likely to wake.
func (m *Manager) followLeader(c *context) {
	l := c.fetch.leader
	c.fetch.leader = nil
	m.foretell(c)
	// A narrow forecast of its own says it more exactly.
	hasOwn := c.expected.isKnown && (m.policy.isNarrow(c.expected.Forecast) || c.expected.Earliest > l.by)
	if hasOwn || m.now > l.by || c.pages.count().recordAway == 0 {
		return
	}
	c.fetch.isOffered, c.fetch.keepUntil = true, l.by.After(m.policy.Hold/followHold)
	c.fetch.plan = &recordFetch{why: annex.Following, by: c.fetch.keepUntil, rest: c.predictor.Pages(), expected: l.by,
		says: fmt.Sprintf("wakes after %s, which woke", l.id)}
}

// followHold is by how much shorter than for its own forecast a record is waited for that was
// fetched since another container woke: several are fetched at a time, and hold memory.
const followHold = 5

// mostUnused is how often a record is fetched again for a container that did not wake when it was
// expected.
const mostUnused = 2

// due looks whether a record is to come now, or else when.
func (m *Manager) due(c *context) {
	p, e := m.policy, &c.expected
	e.lookAt, e.askedAt = never, 0
	m.foretell(c)
	away := c.pages.count().recordAway
	if !e.isKnown || away == 0 {
		return // until it has slept again, or some of it has left
	}
	lead := p.Lead + m.fetchCost.of(away)
	isNarrow := p.isNarrow(e.Forecast)
	if isNarrow {
		// One in twenty comes before the earliest: half as much again is waited for, which
		// costs little.
		lead += e.Likely.Since(e.Earliest) / 2
	}
	if at := e.Earliest - annex.Moment(lead); m.now < at {
		// What is known only widely is ahead by as much each time that it is looked at.
		e.lookAt = max(at, m.now.After(p.Lead/2))
		return
	}
	f := &c.fetch
	f.isOffered = true
	f.keepUntil = min(e.Latest, max(e.Earliest, m.now).After(p.Hold))
	f.forecasts++
	f.plan = &recordFetch{
		why: annex.Expected, by: e.Latest, rest: c.predictor.Pages(), expected: e.Likely,
		onlySpare: !isNarrow,
		maps:      f.forecasts%p.Verify != 0 && c.precise(p.MapPrecision, 0),
		says: fmt.Sprintf(
			"expected to wake in %v to %v",
			e.Earliest.Since(m.now).Round(time.Millisecond),
			e.Latest.Since(m.now).Round(time.Millisecond),
		),
	}
}

// precise tells whether the record is as precise as that, by so many pages of which it is known.
func (c *context) precise(atLeast float64, judged int) bool {
	for _, s := range c.predictor.Scores() {
		if s.Kind == predict.Record {
			return s.On && s.Precision >= atLeast && s.Predictions >= judged
		}
	}
	return false
}

// fill uses room that nobody needs for the record of the container that is likely to be the next.
func (m *Manager) fill() {
	p := m.policy
	spare := m.available() - 2*p.high()
	if spare <= 0 || m.now < m.nextFill {
		return
	}
	m.nextFill = m.now.After(time.Second)
	var best *context
	for _, c := range m.contexts {
		away := c.pages.count().recordAway
		if c.activity.state == active || c.fetch.plan != nil || !c.managed() || c.isStill(m.now) || away == 0 ||
			away > spare {
			continue
		}
		m.foretell(c)
		if c.expected.isKnown && c.expected.Forecast.Likely <= m.now.After(p.Horizon) &&
			(best == nil || c.expected.Forecast.Likely < best.expected.Forecast.Likely) {
			best = c
		}
	}
	if best == nil {
		return
	}
	e := best.expected
	best.fetch.plan = &recordFetch{
		why:       annex.Expected,
		by:        e.Latest,
		rest:      best.predictor.Pages(),
		expected:  e.Likely,
		onlySpare: true,
		says:      fmt.Sprintf("there is room, and it is likely to wake in %v", e.Likely.Since(m.now).Round(time.Millisecond)),
	}
}

// brings are the contexts whose records come back, the awake ones first, then by when they
// are expected, and at last what merely has room.
func (m *Manager) brings() []*context {
	var order []*context
	for _, c := range m.contexts {
		f := &c.fetch
		switch {
		case f.plan == nil || !c.managed():
		case f.plan.by != 0 && m.now > f.plan.by:
			f.plan = nil // too late
		case m.now < c.still.asideUntil:
		case f.plan.onlySpare && m.isEvicting: // the room is gone
			f.plan = nil
			if f.isOffered {
				f.isOffered, f.keepUntil, c.expected.lookAt = false, 0, m.now.After(retry)
			}
		default:
			order = append(order, c)
		}
	}
	rank := func(c *context) annex.Moment {
		switch {
		case c.fetch.plan.why == annex.Awake:
			return c.activity.wokeAt - never
		case c.fetch.plan.onlySpare:
			return never
		}
		return c.fetch.plan.expected
	}
	slices.SortStableFunc(order, func(a, b *context) int { return cmp.Compare(rank(a), rank(b)) })
	return order
}

// pieces is how many requests for one container are under way at once: one that is done and one
// that waits, so that media never do, and little has to be stopped.
const pieces = 2

// fetch asks for what is to come.
func (m *Manager) fetch(brings []*context) (requests []annex.Request) {
	isHeld := m.critical() == 0
	hanging := 0
	if len(brings) > 0 {
		hanging = min(m.hanging(), mostHanging*m.policy.Piece)
	}
	for _, c := range brings {
		requests = append(requests, m.fetchRecord(c, isHeld, hanging)...)
	}
	return requests
}

// fetchRecord asks for the next pieces of a record that is on its way back.
func (m *Manager) fetchRecord(c *context, isHeld bool, hanging int) (requests []annex.Request) {
	p, f := m.policy, &c.fetch
	keepFree, regardless := p.low(), 0
	if f.plan.isSure && !m.errors.over {
		// It touches these next whether they are fetched or not, and with nothing free the
		// kernel has to make room for each of them alone. How much is free is not asked for
		// that: of what others took since that was read more is missing than there is.
		regardless = pieces*p.Piece + hanging
	}
	switch {
	case f.plan.why == annex.Awake && !isHeld && !m.errors.over:
		keepFree = p.reserve()
	case f.plan.onlySpare:
		keepFree = p.high()
	}
	for f.plan != nil && f.requests < pieces && !c.isPaused(m.now) {
		n := min(p.Piece, max(m.ready()-keepFree, regardless-m.coming), p.MostComing+hanging-m.coming, c.room(p))
		if n <= 0 {
			break
		}
		plan := f.plan
		mapped, fetched := c.piece(n, !plan.onlySpare || m.ready() >= p.high())
		if len(mapped) == 0 && len(fetched) == 0 {
			f.plan = nil
			break
		}
		requests = append(requests, m.ask(c, annex.Map, plan.why, mapped, plan.by, plan.says)...)
		requests = append(requests, m.ask(c, annex.Fetch, plan.why, fetched, plan.by, plan.says)...)
	}
	return requests
}

// surePrecision is that from which the record of an awake container is fetched though nothing is
// free.
const surePrecision = 0.75

// room is how many pages may be fetched before a context comes close to its own limit, where
// the kernel would take others of its pages for them. A piece is left for what it takes
// itself until its room is reported again.
func (c *context) room(p Policy) int {
	if !c.info.Limited {
		return 1 << 30
	}
	return int(c.info.Room/annex.PageSize) - c.fetch.taken - c.fetch.coming - p.Piece
}

// piece takes the next pages of what is on its way back; those of which only some activations
// made use come where there is room.
func (c *context) piece(most int, all bool) (mapped, fetched []annex.Run) {
	b := c.fetch.plan
	var to [2]collect
	for len(b.rest) > 0 && to[0].pages+to[1].pages < most {
		r := &b.rest[0]
		if r.Certain || all {
			g := &to[0]
			if r.Certain && b.maps {
				g = &to[1]
			}
			s := c.pages.find(r.Run.Space)
			for s != nil && r.Run.Pages > 0 && to[0].pages+to[1].pages < most {
				if a := s.area(r.Run.First); a != nil && a.cells[r.Run.First-a.first].away() {
					g.add(s.name, r.Run.First)
				}
				r.Run.First++
				r.Run.Pages--
			}
			if s != nil && r.Run.Pages > 0 {
				break
			}
		}
		b.rest = b.rest[1:]
	}
	return to[1].runs, to[0].runs
}

// drain asks for everything that is away, as far as it fits, and for nothing while critical
// containers wait for memory.
func (m *Manager) drain() (requests []annex.Request, next annex.Moment) {
	p, left, isHeld := m.policy, false, m.critical() == 0
	for _, c := range m.contexts {
		if !c.managed() || c.pages.count().away == 0 || c.fetch.drain.isOver {
			continue
		}
		left = true
		n := min(m.ready()-p.low(), p.MostComing-m.coming, c.room(p))
		if n <= 0 || isHeld || c.isPaused(m.now) {
			continue
		}
		g := c.undrained(n)
		if g.pages == 0 && c.fetch.coming == 0 {
			c.fetch.drain.again()
		}
		requests = append(requests, m.ask(c, annex.Map, annex.Drained, g.runs, 0, "the operator wants everything back")...)
	}
	if left && m.coming == 0 {
		next = m.now.After(retry)
	}
	return requests, next
}

// draining is how far a drain has come with a context. It tries every page, and all of them again for
// as long as any comes: what cannot be read keeps nothing else away, and is not tried for ever. After a
// request that was stopped it goes on with the first page that was not gone through.
type draining struct {
	next   *pageOf // to be asked for; nil before the first
	moved  int     // since the first was
	isOver bool
}

// drained takes what became of a request of a drain.
func (c *context) drained(asked *request, r annex.Result, o outcome) {
	d := &c.fetch.drain
	d.moved += o.moved
	if !r.Stopped && (r.Err == nil || len(r.Unread) > 0) {
		return
	}
	// Others were asked for after this one, and may be over.
	if first, some := untried(asked.runs, o.head); some && d.next != nil && c.pages.before(first, *d.next) {
		d.next = &first
	}
}

// untried is the first page of some runs that is not in the head of them that was gone through.
func untried(runs, head []annex.Run) (first pageOf, some bool) {
	for _, r := range runs {
		switch {
		case len(head) == 0 || head[0].Space != r.Space || head[0].First != r.First:
			return pageOf{r.Space, r.First}, true
		case head[0].Pages < r.Pages:
			return pageOf{r.Space, head[0].End()}, true
		}
		head = head[1:]
	}
	return first, false
}

// again begins anew after the last page.
func (d *draining) again() { *d = draining{isOver: d.moved == 0} }

// undrained gives the next pages that a drain has not tried.
func (c *context) undrained(most int) (g collect) {
	next := c.fetch.drain.next
	isPast := next == nil || c.pages.find(next.space) == nil
	isFound := false // the space of the next
	c.pages.walk(new(cursor), func(s *space, a *area, i int) bool {
		page := a.first + annex.Page(i)
		if !isPast {
			isFound = isFound || s.name == next.space
			isPast = isFound && (s.name != next.space || page >= next.page)
		}
		if isPast && a.cells[i].away() {
			g.add(s.name, page)
			c.fetch.drain.next = &pageOf{s.name, page + 1}
		}
		return g.pages < most
	})
	return g
}
