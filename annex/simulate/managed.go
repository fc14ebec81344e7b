package simulate

import (
	"time"

	"tare/annex"
	"tare/annex/data"
	"tare/annex/monitor"
)

// managed is the manager above a world, told as the daemon tells it.
type managed struct {
	Manager
	world    *world
	schedule *monitor.Schedule
	scanAt   annex.Moment // of the look that is planned; 0 is none
	faults   []annex.Fault
	planAt   annex.Moment // of the plan that is planned; 0 is none
	soonest  annex.Moment
	evicts   lane
	fetches  lane
}

const (
	// streamDelay is how long faults may wait to be reported together: monitor's.
	streamDelay = time.Millisecond
	// soonestPlan is the least time between two plans: the daemon's.
	soonestPlan = 2 * time.Millisecond
	// pressureEvery is how often it is looked how long tasks wait.
	pressureEvery = 100 * time.Millisecond
)

func (m *managed) start(c *container) {
	m.Add(data.ContextInfo{ID: c.id, Name: c.name, Class: c.class, At: m.world.now})
	c.isManaged = true
	if c.class == annex.Elastic {
		m.schedule.Add(c.id, m.world.now)
		m.scan()
	}
}

func (m *managed) end(c *container) {
	m.tell()
	m.Remove(c.id)
	m.schedule.Remove(c.id)
	c.isManaged = false
}

func (m *managed) woke(c *container) {
	if !c.isManaged {
		m.start(c) // it ran when the trace began
	}
	if c.class != annex.Elastic {
		return
	}
	m.tell()
	a := annex.Activity{ID: c.id, What: annex.Woke, At: m.world.now}
	m.schedule.Note(a)
	m.Activity(a)
	m.soonest = 0
	m.plan(m.world.now)
	m.scan()
}

func (m *managed) slept(c *container, at annex.Moment) {
	if c.class != annex.Elastic {
		return
	}
	m.tell()
	a := annex.Activity{ID: c.id, What: annex.Slept, At: at, CPU: c.cpu}
	m.schedule.Note(a)
	m.Activity(a)
	m.plan(m.world.now)
}

func (m *managed) fault(f annex.Fault) {
	if m.world.byID[f.ID].class != annex.Elastic {
		return
	}
	if m.faults = append(m.faults, f); len(m.faults) == 1 {
		m.world.at(m.world.now.After(streamDelay), m.tell)
	}
}

// tell hands the faults on that have gathered.
func (m *managed) tell() {
	if len(m.faults) == 0 {
		return
	}
	faults := m.faults
	m.faults = nil
	m.Manager.Faults(faults)
	m.plan(m.world.now)
}

// plan has it be planned at a moment, or as soon as may be.
func (m *managed) plan(at annex.Moment) {
	at = max(at, m.soonest, m.world.now)
	if m.planAt != 0 && m.planAt <= at && m.planAt >= m.world.now {
		return
	}
	m.planAt = at
	m.world.at(at, func() {
		if m.planAt == at {
			m.planAt = 0
			m.planNow()
		}
	})
}

func (m *managed) planNow() {
	w := m.world
	m.soonest = w.now.After(soonestPlan)
	mem := w.memory
	m.Manager.Memory(
		annex.Memory{
			At:       w.now,
			Limit:    int64(mem.limit) * annex.PageSize,
			Free:     int64(max(mem.free(), 0)) * annex.PageSize,
			SwapSize: int64(len(mem.places)) * annex.PageSize,
			SwapFree: int64(len(mem.places)-mem.taken) * annex.PageSize,
			Pool:     int64(mem.pool()) * annex.PageSize,
		},
	)
	requests, next := m.Plan(w.now)
	for _, r := range requests {
		lane := &m.fetches
		if r.Op == annex.Evict {
			lane = &m.evicts
		}
		lane.queue = append(lane.queue, r)
		m.move(lane)
	}
	if next > 0 {
		m.plan(next)
	}
}

// latestLook is how long free memory goes unlooked at.
const latestLook = 100 * time.Millisecond

func (m *managed) pressure() {
	w := m.world
	for _, c := range w.containers {
		if c.isManaged && (c.class == annex.Critical || c.awake) {
			m.Manager.Pressure(c.id, annex.Pressure{At: w.now, Some: c.waiting(), Full: c.waiting()})
		}
	}
	w.at(w.now.After(pressureEvery), m.pressure)
	m.plan(w.now.After(min(latestLook, pressureEvery)))
}

// scan looks at page tables when that is due.
func (m *managed) scan() {
	w := m.world
	for {
		id, due := m.schedule.Due(w.now)
		if !due {
			break
		}
		c := w.byID[id]
		var scans []annex.Scan
		for _, name := range c.names {
			scans = append(scans, c.spaces[name].scan(w.memory, id, w.now))
		}
		m.tell()
		m.Look(id, scans)
		m.schedule.Scanned(id, w.now, scans, monitor.Cost{At: w.now})
	}
	if at, ok := m.schedule.Next(); ok && (m.scanAt <= w.now || at < m.scanAt) {
		m.scanAt = max(at, w.now+1)
		w.at(m.scanAt, m.scan)
	}
}
