package data

import (
	"math"
	"time"

	"tare/annex"
)

// gauge is the share of time in which tasks wait for memory.
type gauge struct {
	last    annex.Pressure
	isKnown bool
	short   float64 // in the last reading
	long    float64 // averaged over the window
}

// read takes the pressure up to a moment. Between two readings there must be some time:
// the kernel counts a stall in steps.
func (g *gauge) read(p annex.Pressure, window time.Duration) {
	if !g.isKnown {
		g.last, g.isKnown = p, true
		return
	}
	took := p.At.Since(g.last.At)
	if took < shortestReading {
		return
	}
	share := float64(p.Some-g.last.Some) / float64(took)
	g.short = min(max(share, 0), 1)
	weight := 1 - math.Exp(-float64(took)/float64(window))
	g.long += (g.short - g.long) * weight
	g.last = p
}

// shortestReading is the time over which pressure is measured at least.
const shortestReading = 10 * time.Millisecond

// brake is what of an amount may be done under a limit: one less the pressure over the
// limit (TMO, section 3.3). At the limit, in the average or in the last reading, it is 0.
func (g *gauge) brake(limit float64) float64 {
	if g == nil {
		return 1
	}
	return max(0, 1-max(g.long, g.short)/limit)
}

// Pressure reports for how long a container's tasks have waited.
func (m *Manager) Pressure(id annex.ID, p annex.Pressure) {
	m.see(p.At)
	if c := m.byID[id]; c != nil {
		c.pressure.read(p, m.policy.Window)
	}
}

// NoPressure reports that nothing is known of a container's pressure any more: what was known last
// neither stops nor allows anything from then on.
func (m *Manager) NoPressure(id annex.ID) {
	if c := m.byID[id]; c != nil {
		c.pressure = gauge{}
	}
}

// ClassPressure reports it of all containers of a class together, where they have a control
// group in common.
func (m *Manager) ClassPressure(class annex.Class, p annex.Pressure) {
	m.see(p.At)
	g := m.classes[class]
	if g == nil {
		g = &gauge{}
		m.classes[class] = g
	}
	g.read(p, m.policy.Window)
}

// critical is the brake that critical containers put on all eviction.
func (m *Manager) critical() float64 {
	b := m.classes[annex.Critical].brake(m.policy.CriticalLimit)
	for _, c := range m.contexts {
		if c.info.Class == annex.Critical {
			b = min(b, c.pressure.brake(m.policy.CriticalLimit))
		}
	}
	return b
}

// errorRate is how many of the pages that left were missed at once, lately.
type errorRate struct {
	halfLife   time.Duration
	at         annex.Moment
	left, miss float64
	over       bool
}

func (e *errorRate) fade(at annex.Moment) {
	if at <= e.at {
		return
	}
	f := math.Exp2(-float64(at-e.at) / float64(e.halfLife))
	e.left, e.miss, e.at = e.left*f, e.miss*f, at
}

func (e *errorRate) evicted(at annex.Moment, pages int) { e.fade(at); e.left += float64(pages) }
func (e *errorRate) missed(at annex.Moment)             { e.fade(at); e.miss++ }

// share is the part that was missed.
func (e *errorRate) share() float64 {
	if e.left == 0 {
		return 0
	}
	return min(e.miss/e.left, 1)
}

// judge tells whether the working sets are larger than memory, so that whatever leaves is
// missed: nothing helps then, and the less is done the better.
func (e *errorRate) judge(at annex.Moment, p Policy) bool {
	e.fade(at)
	switch {
	case e.left < float64(p.ErrorLeast)/2:
		e.over = false
	case e.over:
		e.over = e.share() > p.ErrorLimit/2
	default:
		e.over = e.left >= float64(p.ErrorLeast) && e.share() > p.ErrorLimit
	}
	return e.over
}
