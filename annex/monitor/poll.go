package monitor

import (
	"fmt"
	"os"
	"sync"
	"time"

	"tare/annex"
	"tare/kernel/cgroup"
	"tare/kernel/clock"
	"tare/probe"
)

// poll tells activity without BPF: by the CPU time of the groups, asked for once each
// dormancy. So that a container woke is reported up to a dormancy late, and what it
// faults on is not reported.
type poll struct {
	m    *Monitor
	done chan struct{}

	mu     sync.Mutex
	polled map[uint32]*polled
}

// polled is a container as it was when it was last asked for.
type polled struct {
	id     annex.ID
	group  cgroup.Group // where its CPU time is reported
	cpu    time.Duration
	before time.Duration // what it had taken when it woke
	last   annex.Moment  // it ran
	awake  bool
}

func openPoll(m *Monitor) *poll {
	p := &poll{m: m, done: make(chan struct{}), polled: map[uint32]*polled{}}
	go p.run()
	return p
}

func (p *poll) watch(c *container) error {
	if c.first {
		return nil // who waits for a CPU is not seen
	}
	group, err := accounted(p.m.layout, c.place)
	if err != nil {
		return err
	}
	use, err := group.Use()
	if err != nil {
		return fmt.Errorf("read the CPU time of %s: %w", group, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.polled[c.number] = &polled{
		id:     c.id,
		group:  group,
		cpu:    use.CPU,
		before: use.CPU,
		last:   annex.Moment(clock.Monotonic()),
	}
	return nil
}

// accounted is where the CPU time of a group is reported: version 2 tells it in every group,
// version 1 in a hierarchy of its own, in which engines name groups alike.
func accounted(layout cgroup.Layout, place cgroup.Place) (cgroup.Group, error) {
	if place.Version == 2 {
		return cgroup.Group{Places: []cgroup.Place{place}}, nil
	}
	if h, ok := layout.For("cpuacct"); ok {
		other := cgroup.Place{Hierarchy: h, Path: place.Path}
		if _, err := os.Stat(other.Dir()); err == nil {
			return cgroup.Group{Places: []cgroup.Place{other}}, nil
		}
	}
	return cgroup.Group{}, &probe.Missing{Probe: "activity of " + place.Dir(), What: "the host's controller cpuacct has no group " + place.Path + ", and BPF is not used", Mend: "make that group too, as engines do, or allow BPF"}
}

func (p *poll) unwatch(c *container) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.polled, c.number)
	return nil
}

func (p *poll) counts() (Counts, error) { return Counts{}, nil }

func (p *poll) run() {
	defer close(p.done)
	ticks := time.NewTicker(p.m.options.Dormancy)
	defer ticks.Stop()
	for {
		select {
		case <-p.m.closing:
			p.m.ended(nil)
			return
		case <-ticks.C:
		}
		var out batches
		p.look(&out)
		if !out.send(p.m.events, p.m.closing) {
			p.m.ended(nil)
			return
		}
	}
}

// look asks for all once.
func (p *poll) look(out *batches) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.polled {
		use, err := c.group.Use()
		if err != nil {
			continue // it goes, which Scan reports
		}
		c.step(use.CPU, annex.Moment(clock.Monotonic()), p.m.options.Murmur, out)
	}
}

// step takes what a container has used by now.
func (c *polled) step(cpu time.Duration, now annex.Moment, murmur time.Duration, out *batches) {
	ran := cpu - c.cpu
	switch {
	case ran > murmur && !c.awake:
		c.awake, c.before = true, c.cpu
		out.activity(annex.Activity{ID: c.id, What: annex.Woke, At: now})
	case ran <= murmur && c.awake:
		c.awake = false
		out.activity(annex.Activity{ID: c.id, What: annex.Slept, At: c.last, CPU: cpu - c.before})
	}
	if ran > 0 {
		c.last = now
	}
	c.cpu = cpu
}

func (p *poll) close() error {
	<-p.done
	return nil
}
