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
	if _, ok := c.stirs(13 * second); !ok || c.started != 1 || c.blips != 1 || c.spaces[0].area(3).cells[3].flags&probed != 0 {
		t.Fatalf("after a little work: %d activations, %d probes, flags %b", c.started, c.blips, c.spaces[0].area(3).cells[3].flags)
	}
	for _, s := range []struct{ now, at annex.Moment }{{12*second + 2e6, 14 * second}, {15 * second, 15 * second}, {17 * second, 0}} {
		at, ok := c.stirs(s.now)
		if ok != (s.at != 0) || ok && at.Since(s.at).Abs() > 2*time.Millisecond {
			t.Errorf("at %v the next is expected at %v (%v), want %v", time.Duration(s.now), time.Duration(at), ok, time.Duration(s.at))
		}
	}
	wake(18*second, time.Millisecond)
	if _, ok := c.stirs(18*second + 2e6); ok || c.spaces[0].area(3).cells[3].flags&probed == 0 {
		t.Error("a probe counts as work")
	}
	wake(20*second, 40*time.Millisecond)
	if c.started != 2 || c.stirred != 0 {
		t.Errorf("%d activations, the last little work at %v: want 2, and none since", c.started, time.Duration(c.stirred))
	}
}

// A wake counts as use of the record by what it misses of it and of all else.
func TestUsed(t *testing.T) {
	p := Policy{}.withDefaults()
	for _, c := range []struct {
		inside, faults int
		want           bool
	}{{1, 1, false}, {2, 2, true}, {2, 4, true}, {2, 5, false}, {15, 80, false}, {16, 80, true}} {
		if got := (&context{inside: c.inside, faults: c.faults}).used(p); got != c.want {
			t.Errorf("%d of %d: %v", c.inside, c.faults, got)
		}
	}
}
