package data

import (
	"testing"
	"time"

	"tare/annex"
	"tare/annex/predict"
)

// What is set aside is asked for nothing, and what is under way of it keeps nobody from leaving.
func TestAside(t *testing.T) {
	m, _ := edge(ContextInfo{})
	r, _ := m.Plan(10 * second)
	if pages(r) != 100 || m.leaving != 100 {
		t.Fatalf("%d pages asked for, %d leaving", pages(r), m.leaving)
	}
	m.Aside("a", never)
	if m.leaving != 0 {
		t.Errorf("%d pages count as leaving", m.leaving)
	}
	cost := m.evictCost
	m.Done(annex.Result{Number: r[0].Number, ID: "a", Op: annex.Evict, Began: 10 * second, Ended: 20 * second, Asked: 100, Moved: 40, Stopped: true})
	if m.leaving != 0 || m.evictCost.each > 2*cost.each {
		t.Errorf("%d leaving, cost %v: it says little of what moving takes", m.leaving, m.evictCost)
	}
	m.Aside("a", 40*second)
	if again, next := m.Plan(30 * second); len(again) > 0 || next > 40*second {
		t.Errorf("while it is set aside: %+v, and next at %v", again, next)
	}
	if again, _ := m.Plan(41 * second); len(again) == 0 {
		t.Error("it is not tried again")
	}
}

// Nothing is fetched for a container that is frozen, whatever is expected of it, and all of it may
// leave; the time until it wakes next is no interval.
func TestFrozen(t *testing.T) {
	m, d := edge(ContextInfo{})
	d.record = []predict.Ranked{{Run: annex.Run{First: 10, Pages: 20}, Certain: true}}
	d.expects = true
	m.Activity(annex.Activity{ID: "a", What: annex.Woke, At: 8 * second})
	m.Activity(annex.Activity{ID: "a", What: annex.Slept, At: 8 * second, CPU: time.Second})
	m.Frozen("a", true)
	m.Frozen("a", true)
	if d.interrupted != 1 {
		t.Errorf("told of %d interruptions", d.interrupted)
	}
	for at := 10 * second; at < 60*second; at += second {
		m.Scan(annex.Scan{ID: "a", Began: at, Ended: at, KnowsAccess: true, Stretches: []annex.Stretch{{States: states(100, annex.Swapped)}}})
		m.Memory(annex.Memory{At: at, Limit: 1 << 30, Free: 1 << 29, SwapSize: 1 << 30, SwapFree: 1 << 30})
		d.forecast = predict.Forecast{Earliest: at, Likely: at + second, Latest: at + 2*second}
		if r, _ := m.Plan(at); len(r) > 0 {
			t.Fatalf("%+v", r)
		}
	}
	if s := m.Status().Contexts[0]; s.Expected || m.wakes(m.byID["a"]) != never {
		t.Errorf("it is expected: %+v", s.Next)
	}
	m.Activity(annex.Activity{ID: "a", What: annex.Woke, At: 60 * second})
	m.Activity(annex.Activity{ID: "a", What: annex.Slept, At: 60 * second, CPU: time.Second})
	if c := m.byID["a"]; c.still.isFrozen || c.activity.interval != 0 {
		t.Errorf("its pause counts as an interval of %v", c.activity.interval)
	}
}

// Locked pages, of which none leaves, are asked for a few times and not with every look.
func TestLockedPagesAreLeft(t *testing.T) {
	m, _ := edge(ContextInfo{})
	const looks, locked = 100, 40
	asked := 0
	for i := range annex.Moment(looks) {
		at := (10 + 10*i) * second
		requests, _ := m.Plan(at)
		for _, r := range requests {
			n := annex.Count(r.Runs)
			asked += n
			skipped := 0
			for _, run := range r.Runs {
				skipped += max(0, min(int(run.End()), locked)-int(run.First))
			}
			m.Done(annex.Result{Number: r.Number, ID: "a", Op: r.Op, Began: at, Ended: at + 1, Asked: n, Moved: n - skipped, Skipped: skipped, Freed: n - skipped})
		}
		now := append(states(locked, annex.Present|annex.Accessed), states(100-locked, annex.Swapped)...)
		m.Scan(annex.Scan{ID: "a", Began: at + second, Ended: at + second, KnowsAccess: true, Stretches: []annex.Stretch{{States: now}}})
		m.Memory(annex.Memory{At: at + second, Limit: 1 << 30, Free: 60 * annex.PageSize, SwapSize: 1 << 30, SwapFree: 1 << 30})
	}
	if most := 100 + locked*(looks/retryPinned+1); asked < 100 || asked > most {
		t.Errorf("%d pages were asked for in %d looks, want 100 to %d", asked, looks, most)
	}
}
