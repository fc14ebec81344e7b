package data

import (
	"time"

	"tare/annex"
)

// Plan gives what is to be asked of media now, in the order in which it is wanted, and the
// moment at which to plan again if nothing is reported before; 0 is none. To plan after whatever
// was reported costs little where nothing is to be done.
func (m *Manager) Plan(now annex.Moment) (requests []annex.Request, next annex.Moment) {
	m.see(now)
	for _, c := range m.contexts {
		if !c.managed() {
			continue
		}
		c.pages.sweep(tickOf(m.now, m.policy))
		if c.activity.state == woken && m.now >= c.activity.wokeAt.After(m.policy.ProbeTime) {
			m.begin(c)
		}
	}
	m.errors.judge(m.now, m.policy)
	if m.isDraining {
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
	m.isDraining = on
	for _, c := range m.contexts {
		c.fetch.plan, c.fetch.drain = nil, draining{}
		if !on && !c.activity.isAwake() {
			c.expected.lookAt = m.now
		}
	}
}

// isWarm tells whether pages of a context may leave: it is known for long enough, and media do
// not fail with it.
func (m *Manager) isWarm(c *context) bool {
	return c.managed() && m.now >= c.info.At.After(m.policy.WarmUp) && !c.isPaused(m.now)
}

// Lost reports that observations were lost: that a page was not seen to be used says nothing
// then of those that were awake.
func (m *Manager) Lost() {
	for _, c := range m.contexts {
		if c.activity.isAwake() && c.managed() {
			c.predictor.Lost()
			c.record.isUnseen = true
		}
	}
}

// available are the pages that will be free when all that is under way is done; ready those
// that are so even if no eviction ends.
func (m *Manager) available() int { return m.memory.pages() + m.leaving - m.coming }
func (m *Manager) ready() int     { return m.memory.pages() - m.coming }

// hanging are the pages of fetches that take long: of a process that is stuck, say, whose container
// is none of the others' business.
func (m *Manager) hanging() (pages int) {
	for _, u := range m.underWay {
		if u.op != annex.Evict && !u.isUncounted && m.now > u.asked.After(hangs) {
			pages += u.pages
		}
	}
	return pages
}

// hangs is from how long on a fetch hangs: a piece takes milliseconds, and where the device is
// overrun tens of them. If more fetches hang, the device is at fault, or whoever moves pages is
// blocked. So at most mostHanging pieces are compensated for.
const (
	hangs       = time.Second
	mostHanging = 4
)

// retry is after how long it is planned again where what is wanted was not to be had.
const retry = 100 * time.Millisecond

// next is when something is to be done, if nothing is reported.
func (m *Manager) next() annex.Moment {
	at := never
	for _, c := range m.contexts {
		if !c.managed() {
			continue
		}
		if c.still.asideUntil > m.now {
			at = min(at, c.still.asideUntil)
		}
		switch {
		case c.isStill(m.now):
		case c.activity.state == active || c.fetch.plan != nil:
		case c.fetch.isOffered && c.fetch.unused < mostUnused:
			at = min(at, max(c.fetch.keepUntil, m.now.After(retry)))
		case !c.fetch.isOffered && c.expected.lookAt > m.now:
			at = min(at, c.expected.lookAt)
		case !c.fetch.isOffered: // held back
			at = min(at, m.now.After(retry))
		}
		if c.activity.state == woken {
			at = min(at, c.activity.wokeAt.After(m.policy.ProbeTime))
		}
		if c.fetch.plan != nil && c.fetch.requests == 0 {
			at = min(at, m.now.After(retry))
		}
	}
	if m.isEvicting && m.leaving == 0 {
		at = min(at, m.now.After(retry))
	}
	if at == never {
		return 0
	}
	return max(at, m.now+1)
}
