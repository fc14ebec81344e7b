package place

import (
	"testing"
	"time"

	"tare/probe/bursts"
)

// recorded makes a recording of threads that each do the same over and over.
func recorded(span time.Duration, threads ...thread) *bursts.Group {
	g := &bursts.Group{PerCPU: make([]bursts.Counts, 2)}
	for _, th := range threads {
		cycle := th.burst + th.wait + th.blocked
		n := int(span / cycle)
		for range n {
			g.Burst.Add(th.burst)
			g.Wait.Add(th.wait)
			g.Blocked.Add(th.blocked)
		}
		g.CPUTime += time.Duration(n) * th.burst
		g.Bursts += uint64(n)
		g.Wakeups += uint64(n)
		g.Voluntary += uint64(n)
		g.Involuntary += uint64(n) * uint64(th.preempted)
	}
	return g
}

type thread struct {
	burst, wait, blocked time.Duration
	preempted            int // times in each burst
}

func TestBehaviours(t *testing.T) {
	const span = 10 * time.Second
	us, ms := time.Microsecond, time.Millisecond
	endless := &bursts.Group{Unfinished: []time.Duration{span / 3}, Counts: bursts.Counts{CPUTime: span / 3, Involuntary: 900}, Wait: bursts.Histogram{}}
	for range 900 {
		endless.Wait.Add(7 * ms)
	}
	for _, c := range []struct {
		name string
		what *bursts.Group
		cpus int
		want Behaviour
	}{
		{"S4's service: 100 us, 4,000 times a second", recorded(span, thread{100 * us, 5 * us, 150 * us, 0}), 2, Critical},
		{"a service with a busier thread now and then", recorded(span, thread{100 * us, 5 * us, 400 * us, 0}, thread{3 * ms, 5 * us, 500 * ms, 1}), 2, Critical},
		{"a service that is starved by a neighbour", recorded(span, thread{100 * us, 200 * ms, 400 * us, 0}), 2, Critical},
		{"a service at full load on its only CPU", recorded(span, thread{100 * us, 5 * us, 20 * us, 0}), 1, Mixed},
		{"the same with CPUs to spare", recorded(span, thread{100 * us, 5 * us, 20 * us, 0}), 4, Critical},
		{"a computation that never blocks", endless, 1, CPUBound},
		{"a computation that blocks every 50 ms", recorded(span, thread{50 * ms, us, 2 * ms, 12}), 1, CPUBound},
		{"with housekeeping threads beside it", recorded(span, thread{50 * ms, us, 2 * ms, 12}, thread{10 * us, us, 10 * ms, 0}), 1, CPUBound},
		{"requests of 3 ms", recorded(span, thread{3 * ms, us, 20 * ms, 0}), 1, Mixed},
		{"a computation once a second", recorded(span, thread{200 * ms, us, 800 * ms, 50}), 2, Mixed},
		{"asleep", recorded(span, thread{20 * us, us, time.Second, 0}), 2, Idle},
		{"nothing seen", &bursts.Group{}, 2, Idle},
	} {
		e := evidence(c.what, span, Defaults())
		if got, why := Classify(e, c.cpus, Defaults()); got != c.want || why == "" {
			t.Errorf("%s is %s (%s), want %s; %+v", c.name, got, why, c.want, e)
		}
	}
}

func TestEvidence(t *testing.T) {
	const span = time.Second
	e := evidence(recorded(span, thread{time.Millisecond, time.Millisecond, 2 * time.Millisecond, 1}), span, Defaults())
	near := func(got, want float64) bool { return got > want*0.95 && got < want*1.05 }
	if !near(e.Share, 0.25) || !near(e.Wanted, 0.5) || !near(e.Wakeups, 250) || !near(e.Unhindered, 250*4/3.) || !near(e.Switches, 500) || !near(e.Voluntary, 0.5) || e.Waits != 250 {
		t.Errorf("a quarter of a CPU, waiting for another, is %+v", e)
	}
	if e := evidence(&bursts.Group{}, 0, Defaults()); e.Share != 0 {
		t.Errorf("in no time %+v", e)
	}
}
