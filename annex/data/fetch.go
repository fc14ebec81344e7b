package data

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"tare/annex"
	"tare/annex/predict"
)

// bringing is a record on its way back.
type bringing struct {
	why  annex.Reason
	by   annex.Moment
	rest []predict.Ranked // what has not been asked for
	// expected is when its container is expected to wake: pages of those that wake later may
	// make room for it. 0 is of anyone, since it is awake.
	expected annex.Moment
	// spare is that it comes since there is room, which nobody has to make.
	spare bool
	// mapping has pages that are certain mapped.
	mapping bool
	// sure is that it comes though nothing is free.
	sure bool
	says string
}

// lead is what another container's waking tells.
type lead struct {
	after annex.ID
	by    annex.Moment
}

// expect begins to bring the records of those that are about to wake.
func (m *Manager) expect() {
	if m.errors.over || m.critical() == 0 {
		return
	}
	for _, c := range m.contexts {
		if c.atWork() || c.bring != nil || !c.managed() {
			continue
		}
		if c.offered {
			// It may come the next time that it is expected; but not time after time.
			if m.now < c.waitUntil || c.vain >= mostVain {
				continue
			}
			c.offered, c.look = false, m.now
			c.vain++
		}
		if l := c.lead; l != nil {
			c.lead = nil
			m.foretell(c)
			// A narrow forecast of its own says it more exactly.
			own := c.expects && (m.policy.narrow(c.forecast) || c.forecast.Earliest > l.by)
			if !own && m.now <= l.by && c.count().recordAway > 0 {
				c.offered, c.waitUntil = true, l.by.After(m.policy.Hold/followHold)
				c.bring = &bringing{why: annex.Following, by: c.waitUntil, rest: c.predictor.Pages(), expected: l.by,
					says: fmt.Sprintf("wakes after %s, which woke", l.after)}
			}
			continue
		}
		if m.now >= c.look {
			m.due(c)
		}
	}
	m.fill()
}

// followHold is by how much shorter than for its own forecast a record is waited for that was
// fetched since another container woke: several are fetched at a time, and hold memory.
const followHold = 5

// narrow tells whether a moment is known closely enough for others to make room for it. That a
// beat may be missed makes the end late, and not the moment doubtful.
func (p Policy) narrow(f predict.Forecast) bool {
	return f.Latest.Since(f.Earliest) <= p.Hold || f.Likely.Since(f.Earliest) <= p.Hold/4
}

// mostVain is how often a record is fetched again for a container that did not wake when it was
// expected.
const mostVain = 2

// due looks whether a record is to come now, or else when.
func (m *Manager) due(c *context) {
	p := m.policy
	c.look = never
	c.told = 0
	m.foretell(c)
	away := c.count().recordAway
	if !c.expects || away == 0 {
		return // until it has slept again, or some of it has left
	}
	f := c.forecast
	lead := p.Lead + m.fetchCost.of(away)
	narrow := p.narrow(f)
	if narrow {
		// One in twenty comes before the earliest: half as much again is waited for, which
		// costs little.
		lead += f.Likely.Since(f.Earliest) / 2
	}
	if at := f.Earliest - annex.Moment(lead); m.now < at {
		// What is known only widely is ahead by as much each time that it is looked at.
		c.look = max(at, m.now.After(p.Lead/2))
		return
	}
	c.offered = true
	c.waitUntil = min(f.Latest, max(f.Earliest, m.now).After(p.Hold))
	c.verify++
	c.bring = &bringing{
		why: annex.Expected, by: f.Latest, rest: c.predictor.Pages(), expected: f.Likely,
		spare:   !narrow,
		mapping: c.verify%p.Verify != 0 && c.precise(p.MapPrecision, 0),
		says:    fmt.Sprintf("expected to wake in %v to %v", f.Earliest.Since(m.now).Round(time.Millisecond), f.Latest.Since(m.now).Round(time.Millisecond)),
	}
}

// precise tells whether the record is as precise as that, by so many pages of which it is known.
func (c *context) precise(atLeast float64, told int) bool {
	for _, s := range c.predictor.Scores() {
		if s.Kind == predict.Record {
			return s.On && s.Precision >= atLeast && s.Told >= told
		}
	}
	return false
}

// fill uses room that nobody needs for the record of the container that is likely to be the next.
func (m *Manager) fill() {
	p := m.policy
	spare := m.available() - 2*p.high()
	if spare <= 0 || m.now < m.roomAt {
		return
	}
	m.roomAt = m.now.After(time.Second)
	var best *context
	for _, c := range m.contexts {
		away := c.count().recordAway
		if c.atWork() || c.bring != nil || !c.managed() || away == 0 || away > spare {
			continue
		}
		m.foretell(c)
		if c.expects && c.forecast.Likely <= m.now.After(p.Horizon) && (best == nil || c.forecast.Likely < best.forecast.Likely) {
			best = c
		}
	}
	if best != nil {
		best.bring = &bringing{why: annex.Expected, by: best.forecast.Latest, rest: best.predictor.Pages(), expected: best.forecast.Likely, spare: true,
			says: fmt.Sprintf("there is room, and it is likely to wake in %v", best.forecast.Likely.Since(m.now).Round(time.Millisecond))}
	}
}

// brings are the contexts whose records come back, the awake ones first, then by when they
// are expected, and at last what merely has room.
func (m *Manager) brings() []*context {
	var order []*context
	for _, c := range m.contexts {
		b := c.bring
		switch {
		case b == nil || !c.managed():
		case b.by != 0 && m.now > b.by:
			c.bring = nil // too late
		case b.spare && m.evicting: // the room is gone
			c.bring = nil
			if c.offered {
				c.offered, c.waitUntil, c.look = false, 0, m.now.After(retry)
			}
		default:
			order = append(order, c)
		}
	}
	late := func(c *context) annex.Moment {
		switch {
		case c.bring.why == annex.Awake:
			return c.woke - never
		case c.bring.spare:
			return never
		}
		return c.bring.expected
	}
	slices.SortStableFunc(order, func(a, b *context) int { return cmp.Compare(late(a), late(b)) })
	return order
}

// pieces is how many requests for one container are under way at once: one that is done and one
// that waits, so that media never do, and little has to be stopped.
const pieces = 2

// fetch asks for what is to come.
func (m *Manager) fetch(brings []*context) (requests []annex.Request) {
	p := m.policy
	held := m.critical() == 0
	for _, c := range m.contexts {
		if len(c.following) == 0 {
			continue
		}
		held := held || m.now < c.paused
		n := min(p.Piece, m.ready()-p.reserve(), p.MostComing-m.coming, c.ahead(), c.room(p))
		if !held && n > 0 && c.awake {
			var g collect
			c.each(c.following, func(s *space, _ *area, page annex.Page, cell *cell) {
				if cell.away() && g.pages < n {
					c.put(cell, cell.flags|moving) // it may be named again
					g.add(s.name, page)
				}
			})
			c.strided += g.pages
			requests = append(requests, m.ask(c, annex.Fetch, annex.Striding, g.runs, 0, "follows its last faults")...)
		}
		c.following = c.following[:0]
	}
	hanging := 0
	if len(brings) > 0 {
		hanging = min(m.hanging(), mostHanging*p.Piece)
	}
	for _, c := range brings {
		floor, scant := p.low(), 0
		if c.bring.sure && !m.errors.over {
			// It touches these next whether they are fetched or not, and with nothing free the
			// kernel has to make room for each of them alone. How much is free is not asked for
			// that: of what others took since that was read more is missing than there is.
			scant = pieces*p.Piece + hanging
		}
		switch {
		case c.bring.why == annex.Awake && !held && !m.errors.over:
			floor = p.reserve()
		case c.bring.spare:
			floor = p.high()
		}
		for c.bring != nil && c.requests < pieces && m.now >= c.paused {
			n := min(p.Piece, max(m.ready()-floor, scant-m.coming), p.MostComing+hanging-m.coming, c.room(p))
			if n <= 0 {
				break
			}
			b := c.bring
			mapped, fetched := c.piece(n, !b.spare || m.ready() >= p.high())
			if len(mapped) == 0 && len(fetched) == 0 {
				c.bring = nil
				break
			}
			requests = append(requests, m.ask(c, annex.Map, b.why, mapped, b.by, b.says)...)
			requests = append(requests, m.ask(c, annex.Fetch, b.why, fetched, b.by, b.says)...)
		}
	}
	return requests
}

// sure is the precision from which the record of an awake container is fetched though nothing is
// free.
const sure = 0.75

// room is how many pages may be fetched before a context comes close to its own limit, where
// the kernel would take others of its pages for them. A piece is left for what it takes
// itself until its room is told again.
func (c *context) room(p Policy) int {
	if !c.info.Limited {
		return 1 << 30
	}
	return int(c.info.Room/annex.PageSize) - c.grown - c.coming - p.Piece
}

// ahead is how many pages that follow its faults a context may have fetched: a quarter more
// than it has touched since it woke, so that what was ahead when it sleeps is little.
func (c *context) ahead() int { return c.faults + max(c.faults/4, leastAhead) - c.strided }

const leastAhead = 8

// piece takes the next pages of what is on its way back; those of which only some activations
// made use come where there is room.
func (c *context) piece(most int, all bool) (mapped, fetched []annex.Run) {
	b := c.bring
	var to [2]collect
	for len(b.rest) > 0 && to[0].pages+to[1].pages < most {
		r := &b.rest[0]
		if r.Certain || all {
			g := &to[0]
			if r.Certain && b.mapping {
				g = &to[1]
			}
			s := c.find(r.Run.Space)
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
	p, left, held := m.policy, false, m.critical() == 0
	for _, c := range m.contexts {
		if !c.managed() || c.count().away == 0 {
			continue
		}
		left = true
		n := min(m.ready()-p.low(), p.MostComing-m.coming, c.room(p))
		if n <= 0 || held || m.now < c.paused {
			continue
		}
		var g collect
		c.walk(new(cursor), func(s *space, a *area, i int) bool {
			if a.cells[i].away() {
				g.add(s.name, a.first+annex.Page(i))
			}
			return g.pages < n
		})
		requests = append(requests, m.ask(c, annex.Map, annex.Drained, g.runs, 0, "the operator wants everything back")...)
	}
	if left && m.coming == 0 {
		next = m.now.After(retry)
	}
	return requests, next
}
