package data

import "tare/annex"

// Faults reports the faults of containers, in their order.
func (m *Manager) Faults(faults []annex.Fault) {
	for i := 0; i < len(faults); {
		j := i + 1
		for j < len(faults) && faults[j].ID == faults[i].ID {
			j++
		}
		if c := m.byID[faults[i].ID]; c != nil && c.managed() {
			m.see(faults[j-1].At)
			m.faulted(c, faults[i:j])
		}
		i = j
	}
}

// faulted takes faults of one container.
func (m *Manager) faulted(c *context, faults []annex.Fault) {
	before := c.record
	m.note(c, faults)
	switch {
	case c.activity.isAwake():
		m.take(c, faults)
	case faults[len(faults)-1].At <= c.activity.lastWork: // of the activation that is over
		c.record.inside, c.record.missed = before.inside, before.missed
	default:
		c.activity.early = append(c.activity.early, faults...)
		// That it woke was not reported, or will be later than all this.
		if len(c.activity.early) >= m.policy.ProbePages {
			m.wake(c, c.activity.early[0].At)
		}
	}
}

// note takes what faults say of pages.
func (m *Manager) note(c *context, faults []annex.Fault) {
	taken, last := 0, faults[len(faults)-1].At
	c.pages.sweep(tickOf(last, m.policy))
	for _, f := range faults {
		cell, e := c.cell(f)
		switch {
		case !f.Swapped:
			taken++
		case cell != nil && m.missed(c, f, cell, e):
			taken++
		}
		if cell == nil {
			continue
		}
		c.pages.put(cell, cell.flags&^(incore|swapped|pinned)|present|young)
		cell.used = uint8(tickOf(f.At, m.policy))
		e.use(stampOf(f.At), m.policy)
	}
	m.memory.changed(last, -taken)
	c.fetch.taken += taken
}

// missed takes a fault on a page that was away, and tells whether it takes memory anew.
func (m *Manager) missed(c *context, f annex.Fault, cell *cell, e *extent) bool {
	if f.Write {
		c.wrote(f)
	}
	c.record.missed++
	isProbed := cell.flags&probed != 0
	if cell.flags&recorded != 0 && !isProbed {
		c.record.inside++
	}
	c.coldness.promote(cell.age(tickOf(f.At, m.policy)))
	atOnce := false
	switch {
	case cell.flags&incore != 0:
		c.account.use.Hits++
		return false
	case cell.flags&(present|moving) == present|moving: // it left, and was missed before that was reported
		m.returned(c, f)
		atOnce = true
	case cell.flags&present == 0:
		atOnce = e.returns(stampOf(f.At), m.policy)
	default:
		return false
	}
	c.account.use.Misses++
	if atOnce {
		c.account.use.Errors++
		m.errors.missed(f.At)
		if isProbed {
			c.probed.missedAtOnce(f.At, m.policy)
		}
	}
	return true
}

// wrote notes that a page was written as soon as it came back. Of one that was read first only a
// scan tells.
func (c *context) wrote(f annex.Fault) {
	if a := c.pages.find(f.Space).area(f.Page); a != nil {
		a.written.set(int(f.Page-a.first), len(a.cells))
		c.pages.hasWritten = true
	}
}

// take takes faults as those of a wake.
func (m *Manager) take(c *context, faults []annex.Fault) {
	if len(faults) == 0 {
		return
	}
	if c.activity.state == active {
		c.predictor.Touched(faults)
	} else if c.activity.early = append(c.activity.early, faults...); len(c.activity.early) >= m.policy.ProbePages {
		m.begin(c)
	}
	p, plan := m.policy, c.fetch.plan
	switch {
	case c.record.isWrong:
	case c.record.isDisproved(p):
		c.record.isWrong = true
		if plan != nil {
			c.account.note(m.now, annex.Fetch, annex.Awake, 0, "the record proved wrong: fetching ended")
			c.fetch.plan = nil
		}
	case c.record.isUsed(p) && (plan == nil || plan.why != annex.Awake) && c.pages.count().recordAway > 0:
		c.fetch.plan = &recordFetch{
			why:    annex.Awake,
			rest:   c.predictor.Pages(),
			isSure: c.precise(surePrecision, p.Judged),
			says:   "woke and used its record: the rest is wanted at once",
		}
	}
}
