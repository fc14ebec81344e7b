package data

import (
	"tare/annex"
	"tare/annex/predict"
)

// expectation is when a sleeping context is expected to wake, as its predictor last said.
type expectation struct {
	predict.Forecast
	isKnown bool
	askedAt annex.Moment // 0: not since it slept
	lookAt  annex.Moment // when its record may have to be fetched; never: not before it has slept again
}

// isNarrow tells whether a moment is known closely enough for others to make room for it. That a
// beat may be missed makes the end late, and not the moment doubtful.
func (p Policy) isNarrow(f predict.Forecast) bool {
	return f.Latest.Since(f.Earliest) <= p.Hold || f.Likely.Since(f.Earliest) <= p.Hold/4
}

// foretell asks what is expected of a sleeping context, where that was not done just now.
func (m *Manager) foretell(c *context) {
	e := &c.expected
	if e.askedAt != 0 && m.now < e.askedAt.After(retry) {
		return
	}
	e.askedAt = m.now
	e.Forecast, e.isKnown = c.predictor.Next(m.now)
	e.isKnown = e.isKnown && !c.still.isFrozen
}

// wakes is when a sleeping context is likely to wake; one that is frozen, never. It is the first of these that
// is known:
//
//   - what its predictor expects, or its next brief work where that comes before;
//   - as long after its last activation as that was after the one before;
//   - as far from now as it has slept already.
func (m *Manager) wakes(c *context) annex.Moment {
	if c.still.isFrozen {
		return never
	}
	m.foretell(c)
	at, isBrief := c.activity.nextBrief(m.now)
	switch {
	case c.expected.isKnown && (!isBrief || c.expected.Likely < at):
		return c.expected.Likely
	case isBrief:
		return at
	}
	if at := c.activity.beganAt.After(c.activity.interval); at > m.now {
		return at
	}
	return m.now.After(c.activity.idle(m.now))
}
