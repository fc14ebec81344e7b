package daemon

import (
	"context"
	"fmt"
	"time"

	"tare/annex"
	"tare/annex/config"
	"tare/annex/control"
	"tare/annex/monitor"
)

// soonestPlan is the least time between two plans. Faults come in thousands a second, and
// are handed on in batches; what a container that wakes needs is planned at once.
const soonestPlan = 2 * time.Millisecond

// step does what is due, and tells after how long the next is.
func (d *Daemon) step(ctx context.Context) time.Duration {
	d.parts.giveWay()
	now := d.now()
	if now >= d.memoryAt {
		d.readMemory(now)
	}
	if now >= d.pressureAt {
		d.pressure(now)
	}
	d.scan(ctx, now)
	if d.state == control.Starting && d.adopted() {
		d.begin()
	}
	if now >= d.planAt && now >= d.soonest {
		d.plan(now)
	}
	d.movers.start()
	if now >= d.weighAt {
		d.weight.sample(now)
		d.weighAt = now.After(weighEvery)
	}
	next := min(d.memoryAt, d.pressureAt, max(d.planAt, d.soonest), d.weighAt)
	if d.movers.rated() {
		next = min(next, d.drain.next)
	}
	if at, ok := d.schedule.Next(); ok && d.mayScan() {
		next = min(next, at)
	}
	return max(next.Since(d.now()), 0)
}

// readMemory looks at what is defended.
func (d *Daemon) readMemory(now annex.Moment) {
	m, err := d.parts.Bound.Memory()
	if err != nil {
		d.fail("reading how much memory is free", err)
		d.memoryAt = now.After(latestLook)
		d.blind = true
		d.brake()
		return
	}
	d.blind = false
	d.brake()
	m.SwapFails = d.swapFails
	d.memory = m
	if d.settings.Mode == config.Observe {
		m = d.shadow.memory(m)
	}
	d.memoryAt = now.After(d.pace.read(m, d.settings.Policy.Low, d.movers.leaving()))
	d.parts.Data.Memory(m)
	if m.Free < d.settings.Policy.Low {
		d.planAt = now
	}
}

// pressure looks at how long tasks wait: at critical containers often while pages leave,
// at all of them seldom.
func (d *Daemon) pressure(now annex.Moment) {
	all := now >= d.calmAt
	for _, id := range d.ids() {
		h := d.held[id]
		if h.class != annex.Critical && !all {
			continue
		}
		p, err := d.parts.Bound.Pressure(h.container)
		if err != nil {
			h.unknown = err.Error()
			// A stall that nobody can see end does not stop eviction for ever.
			d.stalls.forget(id)
			d.parts.Data.NoPressure(id)
			continue
		}
		h.unknown = ""
		d.parts.Data.Pressure(id, p)
		if all {
			d.unmapped(id)
		}
		if h.class == annex.Critical {
			d.stalls.read(id, p, d.settings.CriticalLimit)
		}
	}
	if all {
		d.lookAtSwap()
		d.lookAtDoing(now)
		d.calmAt = now.After(calmLook)
	}
	d.brake()
	d.pressureAt = d.calmAt
	if d.movers.leaving() || d.stop.Load() {
		d.pressureAt = min(d.calmAt, now.After(d.settings.StopWithin/2))
	}
}

// braked is when and why eviction was stopped.
type braked struct {
	why   string
	since time.Time
	stops int64
	from  annex.Moment  // a stop that an eviction under way has not heeded yet; 0 is none
	worst time.Duration // from the stop to the end of the eviction under way
}

// brake stops all eviction, or lets it go on.
func (d *Daemon) brake() {
	why := ""
	switch {
	case d.blind:
		why = "nothing is known of free memory"
	case d.stalls.any() || d.parts.Alarm != nil && d.parts.Alarm.Over():
		why = "critical containers wait for memory for longer than their limit"
	}
	stop := why != "" || d.state == control.Off || d.state == control.Ending
	if d.stop.Swap(stop) == stop {
		if why == "" {
			d.braked.why = "" // where it stays stopped that is since all is off, which is no brake
		}
		return
	}
	d.planAt = 0
	if !stop {
		d.braked.why = ""
		d.log(Decision{What: "go"})
		return
	}
	if why == "" {
		d.movers.halt() // the end of managing, which is no brake
		return
	}
	d.braked.why, d.braked.since = why, time.Now()
	if d.movers.turn != nil && d.braked.from == 0 {
		d.braked.from = d.now()
		if d.parts.Alarm != nil && d.parts.Alarm.Over() {
			d.braked.from = min(d.braked.from, d.parts.Alarm.Since()) // this goroutine may hear of it late
		}
	}
	d.braked.stops++
	d.movers.halt()
	d.log(Decision{What: "stop", Why: why})
}

// take hands on what the monitor saw, in the order in which it was.
func (d *Daemon) take(b monitor.Batch) {
	now := d.now()
	if b.Lost > 0 {
		d.lost += b.Lost
		d.parts.Data.Lost()
	}
	faults := b.Faults
	for _, a := range b.Activity {
		n := 0
		for n < len(faults) && faults[n].At < a.At {
			n++
		}
		if n > 0 {
			d.parts.Data.Faults(faults[:n])
			faults = faults[n:]
		}
		d.parts.Data.Activity(a)
		d.active(a, now)
	}
	if len(faults) > 0 {
		d.parts.Data.Faults(faults)
	}
	for _, p := range b.Processes {
		if p.What == monitor.Ended || p.What == monitor.Executed {
			d.parts.Data.Forget(p.ID, p.Space)
			d.parts.Mover.Forget(p.Space)
			d.shadow.forget(p.ID, p.Space)
		}
	}
	d.planAt = min(d.planAt, now)
}

// active notes that a container began or ceased to run.
func (d *Daemon) active(a annex.Activity, now annex.Moment) {
	if d.held[a.ID] == nil {
		return
	}
	d.schedule.Note(a)
	if d.settings.Mode == config.Observe {
		d.shadow.ran(a.ID, a.At)
	}
	if a.What != annex.Woke {
		return
	}
	// It will take memory, and wants its pages at once.
	d.memoryAt = min(d.memoryAt, now.After(soonestLook))
	d.soonest = 0
}

// plan asks what is to be done.
func (d *Daemon) plan(now annex.Moment) {
	d.soonest = now.After(soonestPlan)
	if !d.plans() {
		d.planAt = now.After(latestLook)
		return
	}
	requests, next := d.parts.Data.Plan(now)
	d.planAt = now.After(latestLook)
	if next > now {
		d.planAt = min(d.planAt, next)
	}
	for _, r := range requests {
		d.request(r, now)
	}
	if d.state == control.Draining {
		d.drained(now, len(requests))
	}
}

// plans tells whether anything is asked for in this state.
func (d *Daemon) plans() bool {
	return d.state == control.Managing || d.state == control.Observing || d.state == control.Draining
}

// request has one request done.
func (d *Daemon) request(r annex.Request, now annex.Moment) {
	h := d.held[r.ID]
	// Data asks for nothing of others; should it ever, nothing comes of it.
	if h == nil || h.class != annex.Elastic || r.Op == annex.Evict && h.fixed != "" {
		d.fail("a request", fmt.Errorf("%s of %d pages of %s, which is not to be moved: left undone", r.Op, annex.Count(r.Runs), r.ID))
		d.movers.answer(r)
		return
	}
	d.asked[r.Number] = r.Why
	if d.settings.Mode == config.Observe {
		d.done(d.shadow.do(r, now))
		return
	}
	if r.Op == annex.Evict {
		d.pressureAt = min(d.pressureAt, now.After(d.settings.StopWithin/2))
	}
	d.movers.take(r)
}

// stopTook notes how long a stop took that is heeded now, though the pressure may be over.
func (d *Daemon) stopTook(now annex.Moment) {
	if d.movers.turn == nil && d.braked.from != 0 {
		d.braked.worst, d.braked.from = max(d.braked.worst, now.Since(d.braked.from)), 0
	}
}

// done hands on what became of a request.
func (d *Daemon) done(r annex.Result) {
	_, moved := d.movers.under[r.Number]
	if moved {
		d.movers.over(r)
		d.stopTook(r.Ended)
		if h := d.held[r.ID]; h != nil && h.class != annex.Elastic && !d.movers.leaves(r.ID) {
			d.look() // it can be protected now
		}
	}
	why := d.asked[r.Number]
	delete(d.asked, r.Number)
	d.parts.Data.Done(r)
	d.hangs(r)
	d.planAt = 0
	h := d.held[r.ID]
	if h == nil {
		return
	}
	one := Decision{
		What: r.Op.String(), Container: h.container.Name, Why: string(why),
		Pages: r.Asked, Moved: r.Moved, Skipped: r.Skipped, Stopped: r.Stopped,
		Took: r.Ended.Since(r.Began).Microseconds(), Error: reason(r.Err),
		Observed: !moved, // whatever the mode is by now: what was under way when it became observe has moved
	}
	d.noteUnread(h, r)
	d.last[r.ID] = &one
	d.log(one)
	if one.Observed {
		return // the shadow keeps its own account
	}
	d.all.add(r, why)
	of := d.moved[r.ID]
	if of == nil {
		of = &tally{}
		d.moved[r.ID] = of
	}
	of.add(r, why)
}
