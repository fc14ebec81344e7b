package data

import (
	"testing"
	"time"

	"tare/annex"
)

// A wake that takes a tenth of what an activation does is a little work: the next is expected as
// long after it, for as long again, and nothing of it teaches which pages are a probe's.
func TestLittleWork(t *testing.T) {
	m, _ := edge(ContextInfo{})
	c := m.byID["a"]
	wake := func(at annex.Moment, cpu time.Duration) {
		m.Activity(annex.Activity{ID: "a", What: annex.Woke, At: at})
		m.Faults([]annex.Fault{{ID: "a", Page: 3, At: at, Swapped: true}})
		m.Activity(annex.Activity{ID: "a", What: annex.Slept, At: at.After(time.Millisecond), CPU: cpu})
	}
	wake(10*second, 50*time.Millisecond)
	wake(12*second, 6*time.Millisecond)
	if _, ok := c.activity.nextBrief(13 * second); !ok || c.activity.count != 1 || c.activity.probeCount != 1 || c.pages.spaces[0].area(3).cells[3].flags&probed != 0 {
		t.Fatalf("after a little work: %d activations, %d probes, flags %b", c.activity.count, c.activity.probeCount, c.pages.spaces[0].area(3).cells[3].flags)
	}
	for _, s := range []struct{ now, at annex.Moment }{{12*second + 2e6, 14 * second}, {15 * second, 15 * second}, {17 * second, 0}} {
		at, ok := c.activity.nextBrief(s.now)
		if ok != (s.at != 0) || ok && at.Since(s.at).Abs() > 2*time.Millisecond {
			t.Errorf("at %v the next is expected at %v (%v), want %v", time.Duration(s.now), time.Duration(at), ok, time.Duration(s.at))
		}
	}
	wake(18*second, time.Millisecond)
	if _, ok := c.activity.nextBrief(18*second + 2e6); ok || c.pages.spaces[0].area(3).cells[3].flags&probed == 0 {
		t.Error("a probe counts as work")
	}
	wake(20*second, 40*time.Millisecond)
	if c.activity.count != 2 || c.activity.lastBrief != 0 {
		t.Errorf("%d activations, the last little work at %v: want 2, and none since", c.activity.count, time.Duration(c.activity.lastBrief))
	}
}

// A wake counts as use of the record by what it misses of it and of all else.
func TestUsed(t *testing.T) {
	p := Policy{}.withDefaults()
	for _, c := range []struct {
		inside, missed int
		want           bool
	}{{1, 1, false}, {2, 2, true}, {2, 4, true}, {2, 5, false}, {15, 80, false}, {16, 80, true}} {
		if got := (&recordUse{inside: c.inside, missed: c.missed}).isUsed(p); got != c.want {
			t.Errorf("%d of %d: %v", c.inside, c.missed, got)
		}
	}
}

// A container goes through its states by what is reported of it.
func TestActivity(t *testing.T) {
	fault := func(at annex.Moment) annex.Fault { return annex.Fault{ID: "a", At: at, Swapped: true} }
	for _, c := range []struct {
		name   string
		worked bool
		cpu    time.Duration
		before time.Duration // CPU time of an activation before
		want   wake
		count  int
	}{
		{"a health probe", false, time.Millisecond, 0, healthProbe, 0},
		{"an activation", true, 50 * time.Millisecond, 0, activation, 1},
		{"a tenth of an activation", false, 5 * time.Millisecond, 50 * time.Millisecond, briefWork, 1},
		{"less than a tenth", false, 4 * time.Millisecond, 50 * time.Millisecond, healthProbe, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := activity{early: []annex.Fault{fault(second), fault(9*second + 1)}}
			if c.before > 0 {
				a.count, a.typicalCPU = 1, c.before
			}
			early := a.wake(10*second, 2*time.Second)
			if a.state != woken || len(early) != 1 || early[0].At != 9*second+1 {
				t.Fatalf("woken: state %d, faults %+v: want the one of the last two seconds", a.state, early)
			}
			a.early = early
			if c.worked {
				if early := a.begin(1); a.state != active || len(early) != 1 || a.beganAt != 10*second {
					t.Fatalf("at work: state %d since %v, faults %+v", a.state, time.Duration(a.beganAt), early)
				}
			}
			was, early := a.sleep(11*second, c.cpu)
			if was != c.want || a.state != asleep || a.count != c.count || (len(early) == 0) != c.worked {
				t.Errorf("%d after %d activations, state %d, faults %+v: want %d", was, a.count, a.state, early, c.want)
			}
			if a.count+a.probeCount != 1+min(1, int(c.before)) {
				t.Errorf("%d activations and %d probes", a.count, a.probeCount)
			}
		})
	}
}

// The mean of the last activations counts, the first one whole.
func TestTypicalCPU(t *testing.T) {
	var a activity
	for i, want := range []time.Duration{40, 50, 57} {
		a.wake(annex.Moment(i)*second, time.Second)
		a.begin(1)
		a.sleep(annex.Moment(i)*second+1, []time.Duration{40, 80, 80}[i]*time.Millisecond)
		if got := a.typicalCPU / time.Millisecond; got != want {
			t.Errorf("after %d activations: %d ms, want %d", i+1, got, want)
		}
	}
}

// Pages that health probes need stay twice as long each time that they were missed at once.
func TestProbedPagesAreKept(t *testing.T) {
	p := Policy{}.withDefaults()
	var k probedPages
	at := second
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 32} {
		k.missedAtOnce(at, p)
		k.missedAtOnce(at+1, p) // one of the same time
		if k.keptFor != want*p.Recent || k.keptUntil != at.After(k.keptFor) {
			t.Errorf("missed at %v: kept for %v, want %v", time.Duration(at), k.keptFor, want*p.Recent)
		}
		at = k.keptUntil
	}
	if k.missedAtOnce(at.After(mostKept*p.Recent)+1, p); k.keptFor != p.Recent {
		t.Errorf("long after: kept for %v, want %v again", k.keptFor, p.Recent)
	}
}
