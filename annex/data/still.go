package data

import "tare/annex"

// still is why nothing is brought for a context, whatever is expected of it.
type still struct {
	isFrozen bool
	// asideUntil is until when nothing at all is asked of it, since calls for it hang.
	asideUntil annex.Moment
}

// isPaused tells that nothing is asked of a context: calls for it hang, or the last request came to
// nothing.
func (c *context) isPaused(now annex.Moment) bool {
	return now < max(c.pausedUntil, c.still.asideUntil)
}

// isStill tells that nothing comes back for a context: nobody else gives way to it.
func (c *context) isStill(now annex.Moment) bool {
	return c.still.isFrozen || now < c.still.asideUntil
}

// Aside has nothing asked of a container until a moment, since calls for it hang. What is under
// way of it counts neither as leaving nor as coming any more, so that nothing else waits for it.
func (m *Manager) Aside(id annex.ID, until annex.Moment) {
	c := m.byID[id]
	if c == nil {
		return
	}
	c.still.asideUntil = until
	if until <= m.now {
		return
	}
	if until < never { // and not only until a call comes back that takes long
		c.unplan()
	}
	for _, u := range m.underWay {
		if u.context == c {
			m.uncount(u)
		}
	}
}

// uncount has a request count no more as leaving or coming, once.
func (m *Manager) uncount(u *request) {
	switch {
	case u.isUncounted:
	case u.op == annex.Evict:
		m.leaving -= u.pages + u.unmapped
	default:
		m.coming -= u.pages
	}
	u.isUncounted = true
}

// Frozen reports whether a container's processes are frozen, as by `docker pause`, or stopped. Nothing
// is fetched for one, its pages are the first to leave, and how long it is frozen says nothing of when
// it wakes by itself.
func (m *Manager) Frozen(id annex.ID, is bool) {
	c := m.byID[id]
	if c == nil || c.still.isFrozen == is {
		return
	}
	c.still.isFrozen = is
	c.expected.askedAt = 0
	if is {
		c.unplan()
		c.fetch.keepUntil = 0
		c.interrupted()
	}
}

// unplan has nothing more fetched.
func (c *context) unplan() { c.fetch.plan, c.fetch.leader = nil, nil }

// interrupted notes that the time up to the next wake says nothing of when the context wakes.
func (c *context) interrupted() {
	c.predictor.Interrupted()
	c.activity.interrupted()
}
