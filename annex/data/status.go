package data

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"tare/annex"
	"tare/annex/predict"
)

// Status is what all is like. Amounts are in bytes where they are named so.
type Status struct {
	At       annex.Moment
	Memory   annex.Memory
	Contexts []ContextStatus // by ID

	// Evicting tells that free memory fell below the low mark and is not above the high one yet.
	Evicting bool
	// Brake is what of an amount critical pressure lets leave: 1 all, 0 nothing.
	Brake float64
	// Degraded is why less is done than could be; empty where nothing is held back.
	Degraded string
	// Errors is the share of what left lately that was missed at once.
	Errors   float64
	Draining bool

	LeavingBytes, ComingBytes int64 // under way
	EvictCost, FetchCost      time.Duration
	Asked                     map[annex.Reason]Tally
	SizeBytes                 int64 // of what is kept
}

// ContextStatus is what one context is like.
type ContextStatus struct {
	ContextInfo
	Awake bool
	Since annex.Moment // when it woke, or last did work

	ResidentBytes, ExtendedBytes int64 // in memory; and in swap alone
	ShareBytes, RecordBytes      int64
	// Next is when it is expected to wake; Expected tells whether anything is.
	Next     predict.Forecast
	Expected bool

	Use Use
	// HitRate is the share of the pages that came from swap when touched that had been brought
	// into memory before; WasteRate that of what was brought in and left without having been
	// touched.
	HitRate, WasteRate float64
	// Pressure is the share of time that its tasks waited for memory, averaged.
	Pressure float64
	// ColdAfter is the age from which its pages are cold; 0 is that this is not known.
	ColdAfter           time.Duration
	Activations, Probes int
	Scores              []predict.Score
	Asked               map[annex.Reason]Tally
	SizeBytes           int64
}

// Status tells it.
func (m *Manager) Status() Status {
	m.divide()
	s := Status{
		At:           m.now,
		Memory:       m.memory.read,
		Evicting:     m.isEvicting,
		Brake:        m.critical(),
		Errors:       m.errors.share(),
		Draining:     m.isDraining,
		LeavingBytes: int64(m.leaving) * annex.PageSize,
		ComingBytes:  int64(m.coming) * annex.PageSize,
		EvictCost:    m.evictCost.each,
		FetchCost:    m.fetchCost.each,
		Asked:        maps.Clone(m.asked),
		SizeBytes:    m.Size(),
	}
	s.Degraded = m.degraded()
	for _, c := range m.contexts {
		s.Contexts = append(s.Contexts, m.status(c))
	}
	return s
}

// degraded says what is held back, and why.
func (m *Manager) degraded() string {
	switch {
	case m.critical() == 0:
		return "critical containers wait for memory longer than their limit: nothing leaves"
	case m.errors.over:
		return fmt.Sprintf("%.0f %% of what leaves is missed within %v: the working sets are larger than memory, so only what sleeps or is cold leaves, and nothing is fetched ahead", 100*m.errors.share(), m.policy.Quick)
	case m.memory.read.SwapFails:
		return "the swap device fails: nothing can leave"
	case m.memory.read.SwapSize > 0 && m.swapRoom() <= 0:
		return "swap is full: nothing can leave"
	case m.memory.read.At > 0 && m.memory.read.SwapSize == 0:
		return "there is no swap: nothing can leave"
	}
	return ""
}

func (m *Manager) status(c *context) ContextStatus {
	n := c.pages.count()
	s := ContextStatus{
		ContextInfo: c.info, Awake: c.activity.isAwake(), Since: c.activity.lastWork,
		ResidentBytes: int64(n.resident) * annex.PageSize, ExtendedBytes: int64(n.away) * annex.PageSize,
		ShareBytes: int64(c.share) * annex.PageSize, RecordBytes: int64(n.record) * annex.PageSize,
		Use: c.account.use, Pressure: c.pressure.long, Activations: c.activity.count, Probes: c.activity.probeCount,
		Scores: slices.Clone(c.predictor.Scores()), Asked: maps.Clone(c.account.asked), SizeBytes: c.size(),
	}
	if c.activity.isAwake() {
		s.Since = c.activity.wokeAt
	} else if c.managed() {
		m.foretell(c)
		s.Next, s.Expected = c.expected.Forecast, c.expected.isKnown
	}
	if c.coldness.threshold != none {
		s.ColdAfter = time.Duration(c.coldness.threshold) * m.policy.Tick
	}
	if touched := c.account.use.Hits + c.account.use.Misses; touched > 0 {
		s.HitRate = float64(c.account.use.Hits) / float64(touched)
	}
	if judged := c.account.use.Hits + c.account.use.Wasted; judged > 0 {
		s.WasteRate = float64(c.account.use.Wasted) / float64(judged)
	}
	return s
}

// Explanation is why a container's pages are where they are.
type Explanation struct {
	ContextStatus
	// Decisions are the last ones, the oldest first.
	Decisions []Decision
	// Held is what keeps back eviction or fetching now; empty where nothing does.
	Held string
}

// Explain tells it; false where there is no such container.
func (m *Manager) Explain(id annex.ID) (Explanation, bool) {
	c := m.byID[id]
	if c == nil {
		return Explanation{}, false
	}
	m.divide()
	e := Explanation{ContextStatus: m.status(c), Decisions: c.account.history.all(), Held: m.degraded()}
	switch {
	case c.info.Class != annex.Elastic:
		e.Held = fmt.Sprintf("it is %s: nothing of it is moved", c.info.Class)
	case c.info.Fixed != "":
		e.Held = c.info.Fixed
	case e.Held == "" && c.pressure.brake(m.policy.ElasticLimit) == 0:
		e.Held = "it waits for memory longer than its limit: nothing cold of it leaves"
	case e.Held == "" && c.swapRoom() <= 0:
		e.Held = "it has as much in swap as it may have"
	}
	return e, true
}
