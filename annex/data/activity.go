package data

import (
	"time"

	"tare/annex"
)

// state is what a container does.
type state uint8

const (
	asleep state = iota
	woken        // awake; whether it works, or only answers a health probe, is not known yet
	active       // awake, and at work
)

// activity follows one container through its states:
//
//	asleep -> woken   it is reported to have woken, or has as many faults as an activation
//	woken  -> active  it used enough CPU time, missed enough pages, or is awake for long
//	woken  -> asleep  it slept before: that was a health probe, or brief work
//	active -> asleep  the end of an activation
type activity struct {
	state    state
	wokeAt   annex.Moment
	lastWork annex.Moment
	// early are faults of a wake that is not known to be an activation, or not reported yet.
	early []annex.Fault

	count      int           // activations so far
	beganAt    annex.Moment  // the last one
	interval   time.Duration // between the beginnings of the last two
	isBroken   bool          // the time since the last one is no such interval
	typicalCPU time.Duration // that an activation uses, recent ones counting most

	probeCount int // wakes that were no activation
	// Brief work is too short for an activation and too long for a probe: the container works
	// on pages that are in memory, which takes a part of the time of having them brought in.
	lastBrief     annex.Moment // 0: none since the last activation
	briefInterval time.Duration
}

// wake is what a wake turned out to be.
type wake uint8

const (
	healthProbe wake = iota
	briefWork
	activation
)

const (
	// briefPart is by how much less CPU time than an activation brief work uses at most.
	briefPart = 10
	// typicalWeight is of how many activations typicalCPU is a mean.
	typicalWeight = 4
)

func (a *activity) isAwake() bool { return a.state != asleep }

// idle is for how long it has slept.
func (a *activity) idle(now annex.Moment) time.Duration { return max(0, now.Since(a.lastWork)) }

// wake begins a wake, and gives the faults that belong to it. Faults may be reported before the
// waking that they belong to; older ones are of a wake that was not reported.
func (a *activity) wake(at annex.Moment, probeTime time.Duration) (early []annex.Fault) {
	a.state, a.wokeAt = woken, at
	early, a.early = a.early, nil
	for len(early) > 0 && early[0].At.After(probeTime) < at {
		early = early[1:]
	}
	return early
}

// begin is the moment at which a wake is known to be an activation. It gives the faults so far.
func (a *activity) begin(probePages int) (early []annex.Fault) {
	// What it woke for may have been a timer, and work have come while it was awake.
	began := a.wokeAt
	if n := len(a.early) - probePages; n >= 0 {
		began = max(began, a.early[n].At)
	}
	if a.beganAt != 0 && !a.isBroken {
		a.interval = began.Since(a.beganAt)
	}
	a.isBroken = false
	a.state, a.beganAt = active, began
	a.count++
	early, a.early = a.early, nil
	return early
}

// sleep ends a wake, and gives the faults of one that was no activation.
func (a *activity) sleep(at annex.Moment, cpu time.Duration) (was wake, early []annex.Fault) {
	worked := a.state == active
	a.state = asleep
	early, a.early = a.early, nil
	switch {
	case worked:
		a.typicalCPU += (cpu - a.typicalCPU) / typicalWeight
		if a.count == 1 {
			a.typicalCPU = cpu
		}
		a.lastWork, a.lastBrief, a.briefInterval = at, 0, 0
		return activation, nil
	case a.typicalCPU > 0 && cpu >= a.typicalCPU/briefPart:
		a.probeCount++
		a.brief(at)
		return briefWork, early
	}
	a.probeCount++
	return healthProbe, early
}

// interrupted notes that the context stood still, which is no sleep of its own.
func (a *activity) interrupted() { a.isBroken, a.lastBrief, a.briefInterval = true, 0, 0 }

// brief notes brief work: when the next is to be expected.
func (a *activity) brief(at annex.Moment) {
	gap := at.Since(max(a.lastWork, a.lastBrief))
	if a.briefInterval == 0 || gap < a.briefInterval/4 {
		a.briefInterval = gap
	} else {
		a.briefInterval = (a.briefInterval + gap) / 2
	}
	a.lastBrief = at
}

// nextBrief is when a container that does brief work is likely to do so next; not ok is that it
// does so no more.
func (a *activity) nextBrief(now annex.Moment) (at annex.Moment, ok bool) {
	if a.lastBrief == 0 || now >= a.lastBrief.After(2*a.briefInterval) {
		return 0, false
	}
	return max(a.lastBrief.After(a.briefInterval), now), true
}

// Activity reports that a container woke or slept.
func (m *Manager) Activity(a annex.Activity) {
	m.see(a.At)
	c := m.byID[a.ID]
	if c == nil || !c.managed() {
		return
	}
	switch a.What {
	case annex.Woke:
		m.wake(c, a.At)
	case annex.Slept:
		m.sleep(c, a)
	}
}

// wake begins a wake of a container that is not awake.
func (m *Manager) wake(c *context, at annex.Moment) {
	if c.activity.isAwake() {
		return
	}
	c.still.isFrozen = false // which is reported later
	early := c.activity.wake(at, m.policy.ProbeTime)
	c.record.isWrong = false
	m.take(c, early)
}

// begin has a wake be an activation.
func (m *Manager) begin(c *context) {
	early := c.activity.begin(m.policy.ProbePages)
	began := c.activity.beganAt
	c.predictor.Began(began)
	if len(early) > 0 {
		c.predictor.Touched(early)
	}
	m.chain.Began(c.info.ID, began)
	for _, f := range m.chain.Followers(c.info.ID) {
		o := m.byID[f.ID]
		if f.Probability < m.policy.FollowProbability || o == nil || o == c || o.activity.isAwake() || !o.managed() {
			continue
		}
		o.fetch.leader = &leader{id: c.info.ID, by: began.After(f.Within)}
	}
}

// sleep ends a wake.
func (m *Manager) sleep(c *context, a annex.Activity) {
	defer func() { c.record.missed, c.record.inside = 0, 0 }()
	if !c.activity.isAwake() {
		c.activity.early = nil
		return
	}
	if c.activity.state == woken && a.CPU >= m.policy.ProbeCPU {
		m.begin(c)
	}
	was, early := c.activity.sleep(a.At, a.CPU)
	if was == activation {
		c.predictor.Ended(a.At)
		c.fetch.slept()
		c.expected.lookAt, c.expected.askedAt = a.At, 0
		c.record.isUnseen, c.evict.isTight = false, false
		c.pages.restart()
		c.mark(a.At)
		return
	}
	// It teaches nothing of the record. The pages that a probe needs are better left where they are.
	if was == healthProbe {
		for _, f := range early {
			if cell, _ := c.cell(f); cell != nil {
				c.pages.put(cell, cell.flags|probed)
			}
		}
	}
	if c.fetch.plan != nil && c.fetch.plan.why == annex.Awake {
		c.fetch.plan = nil
	}
}

// probedPages is for how long pages stay that health probes need, or a timer each second.
type probedPages struct {
	// While they stay nothing tells whether they are still needed. So they are evicted again to
	// see, each time that they were missed at once after twice as long.
	keptUntil annex.Moment
	keptFor   time.Duration

	forgottenAt    annex.Moment // when all of them were forgotten last
	forgottenAfter int          // the activations until then
}

// mostKept bounds keptFor, in the policy's Recent.
const mostKept = 32

// missedAtOnce notes that one of them left and was missed at once.
func (k *probedPages) missedAtOnce(at annex.Moment, p Policy) {
	if at < k.keptUntil {
		return // one of the same time
	}
	if at > k.keptUntil.After(mostKept*p.Recent) {
		k.keptFor = 0 // long ago
	}
	k.keptFor = min(max(2*k.keptFor, p.Recent), mostKept*p.Recent)
	k.keptUntil = at.After(k.keptFor)
}

// forgetProbes is after how many activations, and forgetAfter after what time at least, pages that
// health probes touched count as others do, until probes touch them again.
//
// So do those that were written: of a container that wakes several times a second it would else
// be forgotten before a few looks at its page tables could tell of them.
const (
	forgetProbes = 64
	forgetAfter  = 5 * time.Minute
)

// forget tells whether it is time to, and notes that it is done.
func (k *probedPages) forget(activations int, at annex.Moment) bool {
	if activations < k.forgottenAfter+forgetProbes || at < k.forgottenAt.After(forgetAfter) {
		return false
	}
	k.forgottenAfter, k.forgottenAt = activations, at
	return true
}
