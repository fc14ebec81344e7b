package data

import (
	"testing"
	"time"

	"tare/annex"
)

// Of what nobody maps a sleeping container's goes before any page, and counts as room from when it
// is asked for; an awake one's stays, and so does that for which something was brought.
func TestLeftoverGoesFirst(t *testing.T) {
	const spare = 1000
	for _, c := range []struct {
		name string
		set  func(m *Manager, c *context)
		want bool
	}{
		{"asleep", func(*Manager, *context) {}, true},
		{"awake", func(m *Manager, _ *context) {
			m.Activity(annex.Activity{ID: "a", What: annex.Woke, At: 9 * second})
		}, false},
		{"expected", func(_ *Manager, c *context) { c.fetch.keepUntil = 11 * second }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, _ := edge(ContextInfo{})
			m.Unmapped("a", (leftoverKept+spare)*annex.PageSize)
			c.set(m, m.byID["a"])
			r, _ := m.Plan(10 * second)
			if !c.want {
				for _, r := range r {
					if r.Unmapped > 0 {
						t.Errorf("%+v", r)
					}
				}
				return
			}
			if len(r) != 1 || r[0].Op != annex.Evict || r[0].Why != annex.Leftover || r[0].Unmapped != spare || len(r[0].Runs) > 0 {
				t.Fatalf("%+v, want %d pages that nobody maps, and no others", r, spare)
			}
			if again, _ := m.Plan(10*second + 1); len(again) > 0 {
				t.Errorf("while it is under way: %+v", again)
			}
			cell := &m.byID["a"].pages.spaces[0].areas[0].cells[3]
			m.byID["a"].pages.put(cell, swapped|incore)
			m.Done(annex.Result{Number: r[0].Number, ID: "a", Op: annex.Evict, Began: 10 * second, Ended: 10*second + 2, Asked: spare, Freed: spare})
			if free := m.memory.pages(); free != 60+spare || m.leaving != 0 {
				t.Errorf("%d pages are free and %d leaving, want %d and none", free, m.leaving, 60+spare)
			}
			if e, _ := m.Explain("a"); cell.flags&incore != 0 || e.Use.Wasted != 1 {
				t.Errorf("what was brought and not used is in memory yet, or not counted as wasted: %+v", e.Use)
			}
		})
	}
}

// What the kernel did not give is left for a while.
func TestLeftoverThatStays(t *testing.T) {
	m, _ := edge(ContextInfo{})
	at := 10 * second
	ask := func() int {
		m.Memory(annex.Memory{At: at, Limit: 1 << 30, Free: 60 * annex.PageSize, SwapSize: 1 << 30, SwapFree: 1 << 30})
		m.Unmapped("a", (leftoverKept+1000)*annex.PageSize)
		r, _ := m.Plan(at)
		asked := 0
		for _, r := range r {
			if asked += r.Unmapped; r.Unmapped > 0 {
				m.Done(annex.Result{Number: r.Number, ID: "a", Op: annex.Evict, Began: at, Ended: at, Asked: r.Unmapped})
			}
		}
		at = at.After(time.Second)
		return asked
	}
	if ask() == 0 {
		t.Fatal("nothing was asked for")
	}
	if n := ask(); n > 0 {
		t.Errorf("%d pages are asked for a second after none were given", n)
	}
	at = at.After(retryRelease)
	if ask() == 0 {
		t.Error("nothing is asked for any more")
	}
}
