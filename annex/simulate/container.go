package simulate

import (
	"fmt"
	"time"

	"tare/annex"
	"tare/annex/trace"
)

// container is one, doing one thing after another.
type container struct {
	world  *world
	id     annex.ID
	name   string
	class  annex.Class
	spaces map[annex.Space]*space
	names  []annex.Space // in the order in which they came

	steps   []trace.Event // to be done, the first of them under way
	running bool
	next    int           // page of the step
	began   annex.Moment  // the step
	lag     time.Duration // of the burst
	ended   annex.Moment  // the last step
	intends annex.Moment  // the burst was to begin
	inBurst bool
	runs    int // ever more, so that an old look for dormancy knows itself

	isManaged, awake bool
	cpu              time.Duration
	stall            time.Duration // in all
	stallSince       annex.Moment
	stalling         bool

	requests, bursts, delays []time.Duration
	demand                   int
}

// take has an event of the trace be done after those before it.
func (c *container) take(e trace.Event) {
	if c.steps = append(c.steps, e); len(c.steps) == 1 {
		c.world.busy++
		c.world.at(c.world.now, c.advance)
	}
}

// advance begins the first step when its time is.
func (c *container) advance() {
	if len(c.steps) == 0 {
		c.world.busy--
		c.rest()
		return
	}
	w, e := c.world, &c.steps[0]
	at := e.At
	if c.inBurst && e.Kind != trace.Woke && e.Kind != trace.Requested {
		at = at.After(c.lag)
	}
	if at > w.now {
		w.at(at, c.begin)
		c.rest()
		return
	}
	c.begin()
}

func (c *container) begin() {
	w, e := c.world, &c.steps[0]
	c.next, c.began = 0, w.now
	switch e.Kind {
	case trace.Started:
		if w.manager != nil {
			w.manager.start(c)
		}
	case trace.Ended:
		c.end()
	case trace.Woke:
		c.inBurst, c.intends, c.lag = true, e.At, w.now.Since(e.At)
		c.run()
	case trace.Slept:
		c.slept(e)
	case trace.Scanned:
		c.scanned(e)
	case trace.Touched, trace.Requested:
		c.run()
		c.touch()
		return
	}
	c.done()
}

func (c *container) done() {
	c.ended = c.world.now
	c.steps = c.steps[1:]
	c.advance()
}

// run notes that it runs.
func (c *container) run() {
	c.runs++
	if m := c.world.manager; m != nil && !c.awake {
		c.awake, c.cpu = true, 0
		m.woke(c)
	}
}

// rest looks after the dormancy whether it has slept that long.
func (c *container) rest() {
	w := c.world
	if w.manager == nil || !c.awake {
		return
	}
	runs, ended := c.runs, c.ended
	w.at(w.now.After(w.host.Dormancy), func() {
		if c.awake && c.runs == runs && ended == c.ended && !c.running {
			c.awake = false
			w.manager.slept(c, ended)
		}
	})
}

func (c *container) slept(e *trace.Event) {
	c.cpu = max(c.cpu, e.CPU)
	if c.inBurst && c.world.counted(c.intends) {
		took := c.world.now.Since(c.intends)
		c.bursts = append(c.bursts, took)
		c.delays = append(c.delays, took-e.At.Since(c.intends))
		if c.class != annex.Critical {
			c.world.took(false, took-e.At.Since(c.intends))
		}
	}
	c.inBurst = false
}

// mostScanned bounds the pages of a scan: 256 GiB.
const mostScanned = 1 << 26

// scanned takes from a scan which pages are shared, and which there are that were not seen
// to be touched: those are in memory as far as there is room, and else in swap.
func (c *container) scanned(e *trace.Event) {
	m := c.world.memory
	s := c.space(e.Space)
	left := uint64(mostScanned)
	for _, stretch := range e.Stretches {
		page := stretch.First
		for _, r := range stretch.Runs {
			if r.Pages > left {
				c.world.err = fmt.Errorf("a scan of %s has more than %d pages", c.name, mostScanned)
				return
			}
			left -= r.Pages
			for end := page + annex.Page(r.Pages); page < end; page++ {
				if r.State&(annex.Present|annex.Swapped) == 0 {
					continue
				}
				i := s.find(page)
				if i == 0 {
					i = c.found(s, page)
				}
				if r.State.Has(annex.Shared) {
					m.pages[i].flags |= shared
				}
			}
		}
	}
}

// found is a page that was there before the trace.
func (c *container) found(s *space, number annex.Page) int32 {
	m := c.world.memory
	i := m.add(c.class == annex.Critical, s, number)
	s.set(number, i)
	switch {
	case m.free() > 0:
		m.come(i)
		m.pages[i].flags |= mapped | dirty
	case !m.put(i):
		c.world.err = &Full{At: c.world.now, Swap: true}
	}
	return i
}

// space is one of its address spaces.
func (c *container) space(name annex.Space) *space {
	s := c.spaces[name]
	if s == nil {
		s = newSpace(name)
		c.spaces[name] = s
		c.names = append(c.names, name)
	}
	return s
}

// end has all of its memory be free.
func (c *container) end() {
	for _, name := range c.names {
		c.spaces[name].each(func(_ annex.Page, i int32) { c.world.memory.drop(i) })
	}
	c.spaces, c.names, c.inBurst, c.awake = map[annex.Space]*space{}, nil, false, false
	if m := c.world.manager; m != nil {
		m.end(c)
	}
}

// touch goes on with the pages of a step, until something else comes first or it has to wait.
func (c *container) touch() {
	w, e := c.world, &c.steps[0]
	c.running = true
	s := c.space(e.Space)
	total := e.Took
	if e.Kind == trace.Requested {
		total = e.CPU
	}
	for c.next < len(e.Pages) {
		took, wait := c.page(s, e.Pages[c.next], e.Write)
		if wait || w.err != nil {
			return
		}
		c.stopStall()
		n := len(e.Pages)
		each := total*time.Duration(c.next+1)/time.Duration(n) - total*time.Duration(c.next)/time.Duration(n)
		c.cpu += each
		c.next++
		if c.sleep(took+each, c.touch) {
			return
		}
	}
	if len(e.Pages) == 0 && total > 0 {
		c.next, e.Pages = 1, []annex.Page{}
		c.cpu += total
		e.Took, e.CPU = 0, 0
		if c.sleep(total, c.touch) {
			return
		}
	}
	c.running = false
	switch {
	case e.Kind == trace.Requested:
		if w.counted(e.At) {
			c.requests = append(c.requests, w.now.Since(e.At))
			w.took(c.class == annex.Critical, w.now.Since(e.At))
		}
	case c.inBurst:
		c.lag = max(0, w.now.Since(e.At)-e.Took)
	}
	c.done()
}

// sleep has time pass: false where it has passed, since nothing came before.
func (c *container) sleep(d time.Duration, then func()) bool {
	w := c.world
	until := w.now.After(d)
	if len(w.queue) > 0 && w.queue[0].at < until {
		w.at(until, then)
		return true
	}
	w.now = until
	return false
}

func (c *container) startStall() {
	if !c.stalling {
		c.stalling, c.stallSince = true, c.world.now
	}
}

func (c *container) stopStall() {
	if c.stalling {
		c.stalling = false
		d := c.world.now.Since(c.stallSince)
		c.stall += d
		if c.class == annex.Critical && c.world.counted(c.stallSince) {
			c.world.stalled += d
		}
	}
}

// waiting tells for how long it has waited for memory up to now.
func (c *container) waiting() time.Duration {
	if c.stalling {
		return c.stall + c.world.now.Since(c.stallSince)
	}
	return c.stall
}

// page touches one: how long that took, or that it has to be waited for, after which it is touched again.
func (c *container) page(s *space, number annex.Page, write bool) (took time.Duration, wait bool) {
	w, m := c.world, c.world.memory
	i := s.find(number)
	if i == 0 {
		i = m.add(c.class == annex.Critical, s, number)
		s.set(number, i)
	}
	p := &m.pages[i]
	counts := w.counted(w.now)
	switch {
	case p.flags&mapped != 0:
	case p.flags&coming != 0: // the read under way tries again when it is done
		if !c.stalling {
			c.fault(s, number, write)
			if counts {
				w.late++
			}
		}
		c.startStall()
		w.wait(i, c.resume)
		return 0, true
	case p.flags&resident != 0:
		if !c.stalling {
			c.fault(s, number, write)
			if counts {
				w.minor++
			}
		}
		took = micros(w.host.Medium.Minor)
	case p.place == none:
		if !c.room(1) {
			return 0, true
		}
		p = &m.pages[i]
		m.come(i)
		p.flags |= dirty
		if counts {
			w.fresh++
		}
	default:
		if !c.room(1 << w.policy.Kernel.Cluster) {
			return 0, true
		}
		c.fault(s, number, write)
		if counts {
			w.demand++
			c.demand++
			if p.left > 0 && w.now.Since(p.left) < quick {
				w.errors++
			}
		}
		c.startStall()
		w.read(i, c)
		return 0, true
	}
	p.flags = p.flags&^(unused|leaving) | mapped | accessed
	if write {
		m.written(i)
	}
	m.recent(i)
	if counts {
		w.touches++
	}
	return took, false
}

// quick is how soon after it left a page is missed if that was an error, as data has it.
const quick = 2 * time.Second

// fault has a fault on what is in swap, or was, be reported.
func (c *container) fault(s *space, number annex.Page, write bool) {
	if m := c.world.manager; m != nil {
		m.fault(annex.Fault{ID: c.id, Space: s.name, Page: number, At: c.world.now, Write: write, Swapped: true})
	}
}

// room has so many pages be free: false where that has to be waited for, after which touch
// goes on.
func (c *container) room(n int) bool {
	w := c.world
	if w.memory.free() >= n {
		w.headroom()
		return true
	}
	c.startStall()
	if w.counted(w.now) {
		w.reclaims++
	}
	switch {
	case w.reclaim(max(n, reclaimBatch), w.policy.Kernel.Protected, true, c.resume) > 0:
	case w.moving > 0: // all there is is on its way already
		w.at(w.now.After(micros(w.host.Medium.Write)), c.touch)
	default:
		w.err = &Full{At: w.now, Swap: w.noSwap}
	}
	return false
}

// resume has it go on with what it touches, as a thing of its own: time passes in it.
func (c *container) resume() { c.world.at(c.world.now, c.touch) }
