package data

import (
	"cmp"
	"slices"

	"tare/annex"
	"tare/annex/predict"
)

// asleep are the sleeping contexts of which pages may leave, that first which wakes last;
// of several the one that was seldom awake, and then the larger.
func (m *Manager) asleep() []*context {
	type candidate struct {
		*context
		at annex.Moment
	}
	var order []candidate
	for _, c := range m.contexts {
		if !c.activity.isAwake() && m.isWarm(c) && c.pages.count().movable > 0 {
			order = append(order, candidate{c, m.wakes(c)})
		}
	}
	slices.SortStableFunc(order, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(a.activity.count, b.activity.count),
			cmp.Compare(b.pages.count().resident, a.pages.count().resident))
	})
	contexts := make([]*context, len(order))
	for i, r := range order {
		contexts[i] = r.context
	}
	return contexts
}

// leaver is a sleeping context's record, or the part of it that is written or new.
type leaver struct {
	*context
	isWritten bool
	at        annex.Moment // when it counts as wanted
}

// part is which of the two.
func (l leaver) part() int {
	if l.isWritten {
		return 1
	}
	return 0
}

// writeWeight is how many times sooner a page that its container writes when awake counts
// as wanted. One that is only read keeps its place in swap when it comes back, and leaves
// by being forgotten; one that was written has to be written there first, which wears the
// device and takes from it what others read. 1 would have writes cost nothing.
const writeWeight = 16

// leavers are the parts of the records of sleeping contexts in the order in which they leave:
// what counts as wanted last goes first.
func (m *Manager) leavers(asleep []*context) []leaver {
	order := make([]leaver, 0, 2*len(asleep))
	for _, c := range asleep {
		at := m.wakes(c)
		order = append(order, leaver{c, false, at})
		if c.pages.hasWritten {
			order = append(order, leaver{c, true, m.now.After(max(at.Since(m.now), 0) / writeWeight)})
		}
	}
	slices.SortStableFunc(order, func(a, b leaver) int { return cmp.Compare(b.at, a.at) })
	return order
}

// isAwaited tells that the record of a sleeping context was fetched for a moment that may still
// come.
func (m *Manager) isAwaited(c *context) bool { return m.now < c.fetch.keepUntil || c.fetch.plan != nil }

// isEarly tells that the record would have to come back before its leaving had paid.
func (m *Manager) isEarly(c *context) bool {
	if c.still.isFrozen {
		return false
	}
	sleeps := c.activity.idle(m.now)
	if c.expected.isKnown {
		sleeps = c.expected.Earliest.Since(m.now)
	}
	if at, ok := c.activity.nextBrief(m.now); ok {
		sleeps = min(sleeps, at.Since(m.now))
	}
	pages := c.pages.count().movable
	takes := m.evictCost.of(pages) + m.fetchCost.of(pages)
	return float64(sleeps) < m.policy.BreakEven*float64(takes)
}

// ranked is the record of one sleeping context. A record leaves over several plans, so that of the
// context that was last asked about is kept until that has been awake.
type ranked struct {
	of                  *context
	activations, spaces int
	pages               []predict.Ranked
}

func (m *Manager) ranking(c *context) []predict.Ranked {
	r := ranked{of: c, activations: c.activity.count, spaces: len(c.pages.spaces)}
	if k := m.ranked; k.of != r.of || k.activations != r.activations || k.spaces != r.spaces {
		r.pages = c.predictor.Pages()
		m.ranked = r
	}
	return m.ranked.pages
}
