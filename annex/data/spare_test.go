package data

import (
	"testing"
	"time"

	"tare/annex"
)

// crowd is a manager of so many awake containers of 64 extents each, all in memory and used just
// now, with nothing free.
func crowd(n int, now annex.Moment) *Manager {
	m := New(Policy{Headroom: Headroom{Low: 200 * annex.PageSize}, Predictor: func() Predictor { return &fakePredictor{} }, Chain: chained{}})
	for i := range n {
		id := annex.ID(rune('a' + i))
		m.Add(ContextInfo{ID: id, Class: annex.Elastic})
		m.Scan(annex.Scan{ID: id, Began: now, Ended: now, KnowsAccess: true, Stretches: []annex.Stretch{{States: states(64<<leastShift, annex.Present|annex.Accessed)}}})
		c := m.byID[id]
		c.activity.state = woken
		for j := range c.pages.spaces[0].areas[0].extents {
			c.pages.spaces[0].areas[0].extents[j].use(stampOf(now), m.policy)
		}
	}
	m.Memory(annex.Memory{At: now, Limit: 1 << 30, SwapSize: 1 << 30, SwapFree: 1 << 30})
	return m
}

// lookAt is one look at who could spare anything, and how much was found and how many extents
// looked at.
func (m *Manager) lookAt(now annex.Moment) (pages, looked int) {
	m.now = now
	e := eviction{m: m, left: 1 << 20, asleep: m.asleep()}
	e.last(&room{pages: 1 << 20, isHeadroom: true})
	for _, r := range e.requests {
		pages += annex.Count(r.Runs)
	}
	return pages, e.looked
}

func TestALookInVainIsNotRepeatedAtOnce(t *testing.T) {
	now := 100 * second
	m := crowd(3, now)
	if pages, looked := m.lookAt(now); pages != 0 || looked != 3*64 {
		t.Fatalf("all was used just now: %d pages leave, %d extents were looked at; want 0 and %d", pages, looked, 3*64)
	}
	for _, after := range []time.Duration{1, exhaustedFor / 2, exhaustedFor - 1} {
		if _, looked := m.lookAt(now.After(after)); looked != 0 {
			t.Errorf("%v later %d extents are looked at again", after, looked)
		}
	}
	if _, looked := m.lookAt(now.After(exhaustedFor)); looked != 3*64 {
		t.Errorf("%v later %d extents are looked at, want all", exhaustedFor, looked)
	}
	// What has grown old is had, late by no more than that.
	if pages, _ := m.lookAt(now.After(m.policy.Recent + 2*exhaustedFor)); pages != 3*64<<leastShift {
		t.Errorf("%d pages leave that have grown old, want all %d", pages, 3*64<<leastShift)
	}
}

func TestPagesThatCameToASleepingContainerAreSeenAtOnce(t *testing.T) {
	now := 100 * second
	m := crowd(1, now)
	c := m.byID["a"]
	c.activity.state = asleep
	cells := c.pages.spaces[0].areas[0].cells
	away(c)
	for i := range 5 {
		c.pages.put(&cells[i], cells[i].flags&^swapped|present)
	}
	if pages, _ := m.lookAt(now); pages != 5 {
		t.Fatalf("%d pages leave, want 5", pages)
	}
	if _, looked := m.lookAt(now + 1); looked != 0 {
		t.Errorf("nothing else is there, and %d extents are looked at", looked)
	}
	for i := 10; i < 13; i++ {
		c.pages.put(&cells[i], cells[i].flags&^swapped|present)
	}
	if pages, _ := m.lookAt(now + 2); pages != 3 {
		t.Errorf("%d pages leave of 3 that came", pages)
	}
}

// One plan takes a bounded time, whatever there is, and the next ones get to everybody.
func TestALookIsBounded(t *testing.T) {
	now := 100 * second
	n := 3 * mostLooked / 64
	m := crowd(n, now)
	all := 0
	for i := range 3 {
		_, looked := m.lookAt(now.After(time.Duration(i) * spareEvery))
		if looked > mostLooked {
			t.Fatalf("%d extents in one plan, want at most %d", looked, mostLooked)
		}
		all += looked
	}
	if all != n*64 {
		t.Errorf("%d extents in three plans, want all %d, each once", all, n*64)
	}
	// However many there are, and though the first may be asked again before the last was.
	n = 30 * mostLooked / 64
	m = crowd(n, now)
	for i := range 30 {
		m.lookAt(now.After(time.Duration(i) * spareEvery))
	}
	for i, c := range m.contexts {
		if c.evict.exhausted[keepRecent].until == 0 {
			t.Fatalf("the container %d of %d was not looked at in 30 plans", i, n)
		}
	}
}
