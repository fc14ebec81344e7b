package data

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/annex"
	"tare/annex/predict"
)

// edge is a manager of one container of 100 pages, all in memory, and with nothing free.
func edge(info ContextInfo) (*Manager, *fakePredictor) {
	d := &fakePredictor{}
	m := New(Policy{Headroom: Headroom{Low: 200 * annex.PageSize}, Predictor: func() Predictor { return d }, Chain: chained{}})
	info.ID, info.Class = "a", annex.Elastic
	m.Add(info)
	m.Scan(annex.Scan{ID: "a", Began: second, Ended: second, KnowsAccess: true, Stretches: []annex.Stretch{{States: states(100, annex.Present|annex.Accessed)}}})
	m.Memory(annex.Memory{At: second, Limit: 1 << 30, Free: 60 * annex.PageSize, SwapSize: 1 << 30, SwapFree: 1 << 30})
	return m, d
}

const second = annex.Moment(time.Second)

func states(n int, s annex.State) []annex.State {
	all := make([]annex.State, n)
	for i := range all {
		all[i] = s
	}
	return all
}

func pages(requests []annex.Request) (n int) {
	for _, r := range requests {
		n += annex.Count(r.Runs)
	}
	return n
}

// away has all pages of a context leave memory.
func away(c *context) {
	cells := c.pages.spaces[0].areas[0].cells
	for i := range cells {
		c.pages.put(&cells[i], cells[i].flags&^(incore|present)|swapped)
	}
}

func TestNothingLeavesBeforeItIsKnown(t *testing.T) {
	m, _ := edge(ContextInfo{})
	if r, _ := m.Plan(4 * second); len(r) > 0 {
		t.Errorf("after 4 s of 5: %+v", r)
	}
	if r, _ := m.Plan(5 * second); pages(r) != 100 {
		t.Errorf("after 5 s: %+v, want all", r)
	}
}

func TestSwapAllowance(t *testing.T) {
	m, _ := edge(ContextInfo{SwapMost: 30 * annex.PageSize})
	r, _ := m.Plan(10 * second)
	if pages(r) != 30 {
		t.Fatalf("%d pages are to leave: want the 30 that it may have in swap", pages(r))
	}
	m.Done(annex.Result{Number: r[0].Number, ID: "a", Op: annex.Evict, Began: 10 * second, Ended: 10*second + 1, Asked: 30, Moved: 30, Freed: 30})
	if r, _ := m.Plan(11 * second); len(r) > 0 {
		t.Errorf("it has 30 pages in swap, which is all that it may: %+v", r)
	}
	if e, _ := m.Explain("a"); e.Held == "" {
		t.Error("why no more of it leaves is not explained")
	}
}

func TestFixedContextsStay(t *testing.T) {
	m, _ := edge(ContextInfo{Fixed: "memory.swap.max is 0"})
	if r, _ := m.Plan(10 * second); len(r) > 0 {
		t.Errorf("it cannot be extended: %+v", r)
	}
	if e, _ := m.Explain("a"); e.Held != "memory.swap.max is 0" {
		t.Errorf("explained by %q", e.Held)
	}
}

// TestNoPressure has a critical container's pressure become unknown while it is above its limit:
// what was known last stops nothing for ever.
func TestNoPressure(t *testing.T) {
	m, _ := edge(ContextInfo{})
	m.Add(ContextInfo{ID: "db", Class: annex.Critical})
	m.Pressure("db", annex.Pressure{At: second})
	m.Pressure("db", annex.Pressure{At: 2 * second, Some: time.Second})
	if r, _ := m.Plan(10 * second); len(r) > 0 {
		t.Errorf("a critical container waits for memory all of the time: %+v", r)
	}
	m.NoPressure("db")
	m.NoPressure("nobody")
	if r, _ := m.Plan(11 * second); pages(r) != 100 {
		t.Errorf("of its pressure nothing is known: %+v, want all", r)
	}
}

// TestARareLookKeepsAges has a container be looked at after more ticks than an age has room for:
// of its pages, whose bits were set before, none is young again.
func TestARareLookKeepsAges(t *testing.T) {
	m, _ := edge(ContextInfo{})
	m.Activity(annex.Activity{ID: "a", What: annex.Woke, At: 2 * second})
	m.Activity(annex.Activity{ID: "a", What: annex.Slept, At: 3 * second, CPU: time.Second})
	for _, ticks := range []time.Duration{oldest - 8, 257, 300, 500} {
		at := annex.Moment(time.Duration(second) + ticks*m.policy.Tick)
		m.Scan(annex.Scan{ID: "a", Began: at, Ended: at, KnowsAccess: true, Stretches: []annex.Stretch{{States: states(100, annex.Present|annex.Accessed)}}})
		for i, c := range m.byID["a"].pages.spaces[0].areas[0].cells {
			if age := c.age(tickOf(at, m.policy)); int(age) < oldest-16 {
				t.Fatalf("after %d ticks page %d is %d old", ticks, i, age)
			}
		}
		// It ran again right after that look, and then slept.
		m.byID["a"].activity.lastWork, m.byID["a"].scans.lastBegan = 3*second, 3*second
	}
}

// TestFailuresPause has media fail: what failed is not asked for again at once, and again later.
func TestFailuresPause(t *testing.T) {
	m, _ := edge(ContextInfo{})
	r, _ := m.Plan(10 * second)
	m.Done(annex.Result{Number: r[0].Number, ID: "a", Op: annex.Evict, Began: 10 * second, Ended: 10 * second, Asked: 100, Err: errors.New("no such process")})
	again, next := m.Plan(10*second + 1)
	if len(again) > 0 || next <= 10*second+1 {
		t.Fatalf("asked again at once: %+v, then at %v", again, next)
	}
	if again, _ = m.Plan(12 * second); pages(again) != 100 {
		t.Errorf("two seconds later: %+v, want all", again)
	}
}

// TestForgottenSpaces has a process end: nothing is asked of it, and a result that comes late
// does no harm.
func TestForgottenSpaces(t *testing.T) {
	m, d := edge(ContextInfo{})
	r, _ := m.Plan(10 * second)
	m.Forget("a", annex.Space{})
	m.Done(annex.Result{Number: r[0].Number, ID: "a", Op: annex.Evict, Began: 10 * second, Ended: 10*second + 1, Asked: 100, Moved: 100, Freed: 100})
	m.Done(annex.Result{Number: r[0].Number, ID: "a", Op: annex.Evict, Began: 10 * second, Ended: 10*second + 1, Asked: 100, Moved: 100, Freed: 100})
	if r, _ := m.Plan(11 * second); len(r) > 0 {
		t.Errorf("of a process that has ended: %+v", r)
	}
	check(t, m.byID["a"])
	if s := m.Status(); s.LeavingBytes != 0 || s.Contexts[0].ResidentBytes != 0 || len(d.forgot) != 1 {
		t.Errorf("%+v", s)
	}
	m.Remove("a")
	if _, ok := m.Explain("a"); ok || len(m.Status().Contexts) != 0 {
		t.Error("it was removed, and is there")
	}
}

// TestFetchedPagesLeaveUnused has pages that were brought in and not touched leave: they are not
// mapped, so that nothing of them is moved, and are gone as far as they were reclaimed. Where they
// were not they are in memory still, are not asked for again until looks have had the time to tell
// otherwise, and count as hits when they are used.
func TestFetchedPagesLeaveUnused(t *testing.T) {
	for _, freed := range []int{100, 0} {
		m, _ := edge(ContextInfo{})
		c := m.byID["a"]
		a := c.pages.spaces[0].area(0)
		for i := range a.cells {
			c.pages.put(&a.cells[i], swapped|incore)
		}
		r, _ := m.Plan(10 * second)
		if pages(r) != 100 {
			t.Fatalf("%+v, want all", r)
		}
		free := m.memory.pages()
		m.Done(annex.Result{Number: r[0].Number, ID: "a", Op: annex.Evict, Began: 10 * second, Ended: 10*second + 1, Asked: 100, Skipped: 100, Cached: 100, Freed: freed})
		e, _ := m.Explain("a")
		if e.ResidentBytes != int64(100-freed)*annex.PageSize || e.ExtendedBytes != int64(freed)*annex.PageSize || e.Use.Wasted != freed || m.memory.pages() != free+freed {
			t.Errorf("of 100 pages %d were reclaimed: %+v, %d and %d pages free", freed, e, free, m.memory.pages())
		}
		if r, _ := m.Plan(10*second + 2); pages(r) > 0 {
			t.Errorf("what was passed by is asked for again: %+v", r)
		}
		m.Activity(annex.Activity{ID: "a", What: annex.Woke, At: 11 * second})
		var faults []annex.Fault
		for i := range 100 {
			faults = append(faults, annex.Fault{ID: "a", Page: annex.Page(i), At: 11*second + annex.Moment(i), Swapped: true})
		}
		m.Faults(faults)
		e, _ = m.Explain("a")
		if e.Use.Hits != 100-freed || e.Use.Misses != freed {
			t.Errorf("of 100 pages %d were reclaimed, and used: %+v", freed, e.Use)
		}
	}
}

// TestShortEvictions has two requests for one container, the first of which is passed by in part:
// what a look then finds there has not come back by itself.
func TestShortEvictions(t *testing.T) {
	m, _ := edge(ContextInfo{})
	c := m.byID["a"]
	at := 10 * second
	for i, moved := range []int{40, 50} {
		u := &request{context: c, op: annex.Evict, pages: 50, runs: []annex.Run{{First: annex.Page(50 * i), Pages: 50}}}
		u.decision = c.account.note(at, u.op, annex.Cold, u.pages, "")
		c.done(u, annex.Result{Op: annex.Evict, Ended: at, Asked: 50, Moved: moved, Skipped: 50 - moved})
	}
	now := states(100, annex.Swapped)
	for i := range 10 {
		now[i] = annex.Present
	}
	m.Scan(annex.Scan{ID: "a", Began: at + 2, Ended: at + 2, Stretches: []annex.Stretch{{States: now}}})
	for i := range 10 {
		if cell := c.pages.spaces[0].area(0).cells[i]; cell.flags&pinned == 0 {
			t.Fatalf("page %d was passed by, and counts as used: %08b", i, cell.flags)
		}
	}
	if c.scans.passedBy {
		t.Error("of the next look it would be said too")
	}
}

// TestMappedRecords has a record that is precise mapped where it is certain, but each fourth time.
func TestMappedRecords(t *testing.T) {
	m, d := edge(ContextInfo{})
	d.record = []predict.Ranked{{Run: annex.Run{First: 10, Pages: 20}, Certain: true}, {Run: annex.Run{First: 40, Pages: 5}}}
	d.scores = []predict.Score{{Kind: predict.Record, Precision: 0.95, On: true}}
	d.expects = true
	maps, at := 0, 10*second
	for range 8 {
		m.Activity(annex.Activity{ID: "a", What: annex.Woke, At: at})
		m.Activity(annex.Activity{ID: "a", What: annex.Slept, At: at, CPU: time.Second})
		m.Scan(annex.Scan{ID: "a", Began: at + 2, Ended: at + 2, KnowsAccess: true, Stretches: []annex.Stretch{{States: states(100, annex.Swapped)}}})
		away(m.byID["a"])
		d.forecast = predict.Forecast{Earliest: at + 5*second, Likely: at + 6*second, Latest: at + 7*second}
		at += 5 * second
		m.Memory(annex.Memory{At: at, Limit: 1 << 30, Free: 1 << 29, SwapSize: 1 << 30, SwapFree: 1 << 30})
		requests, _ := m.Plan(at)
		if pages(requests) != 25 {
			t.Fatalf("%+v: want the record", requests)
		}
		for _, r := range requests {
			n := annex.Count(r.Runs)
			if r.Op == annex.Map {
				if maps++; n != 20 {
					t.Errorf("%+v is mapped: want what is certain", r)
				}
			}
			m.Done(annex.Result{Number: r.Number, ID: "a", Op: r.Op, Began: at, Ended: at + 1, Asked: n, Moved: n, Freed: n})
		}
	}
	if maps != 6 || d.mapped != 6*20 || d.brought != 6*5+2*25 {
		t.Errorf("mapped %d times of 8, %d pages, and %d fetched: want 6, 120 and 80", maps, d.mapped, d.brought)
	}
}

// TestVainForecasts has a container not wake when it is expected: its record comes twice more,
// and then not until it has woken.
func TestVainForecasts(t *testing.T) {
	m, d := edge(ContextInfo{})
	d.record = []predict.Ranked{{Run: annex.Run{First: 10, Pages: 20}, Certain: true}}
	d.expects = true
	m.Activity(annex.Activity{ID: "a", What: annex.Woke, At: 8 * second})
	m.Activity(annex.Activity{ID: "a", What: annex.Slept, At: 8 * second, CPU: time.Second})
	times := 0
	for at := 10 * second; at < 200*second; at += second {
		m.Scan(annex.Scan{ID: "a", Began: at, Ended: at, KnowsAccess: true, Stretches: []annex.Stretch{{States: states(100, annex.Swapped)}}})
		m.Memory(annex.Memory{At: at, Limit: 1 << 30, Free: 250 * annex.PageSize, SwapSize: 1 << 30, SwapFree: 1 << 30})
		d.forecast = predict.Forecast{Earliest: at, Likely: at + second, Latest: at + 2*second}
		requests, _ := m.Plan(at)
		for _, r := range requests {
			times++
			n := annex.Count(r.Runs)
			m.Done(annex.Result{Number: r.Number, ID: "a", Op: r.Op, Began: at, Ended: at + 1, Asked: n, Moved: n, Freed: n})
		}
		if len(requests) > 0 { // it leaves again
			away(m.byID["a"])
		}
	}
	if times != 1+mostUnused {
		t.Errorf("fetched %d times: want %d", times, 1+mostUnused)
	}
}

func TestLostObservations(t *testing.T) {
	m, d := edge(ContextInfo{})
	m.Lost()
	m.Activity(annex.Activity{ID: "a", What: annex.Woke, At: 8 * second})
	m.Lost()
	if d.lost != 1 {
		t.Errorf("reported %d times: want once, while it was awake", d.lost)
	}
}

func TestHistoryKeepsTheLast(t *testing.T) {
	c := newContext(ContextInfo{}, New(Policy{}).policy)
	for i := range 100 {
		at := annex.Moment(i) * 2 * second
		c.account.note(at, annex.Op(i%2), annex.Cold, i+1, "")
		c.account.note(at+1, annex.Op(i%2), annex.Cold, 1, "")
	}
	all := c.account.history.all()
	if len(all) != remembered {
		t.Fatalf("%d decisions, want %d", len(all), remembered)
	}
	for i, d := range all {
		if want := 100 - remembered + i; d.First != annex.Moment(want)*2*second || d.Pages != want+2 {
			t.Errorf("decision %d is %+v, want number %d, and what followed it at once", i, d, want)
		}
	}
}

// What became of each part of a decision is added up, as long as it is remembered.
func TestDecisionTellsWhatMoved(t *testing.T) {
	m, _ := edge(ContextInfo{})
	m.policy.Piece = 32
	requests, _ := m.Plan(10 * second)
	if len(requests) < 3 {
		t.Fatalf("%d requests, want some of 32 pages each", len(requests))
	}
	failed := errors.New("no such process")
	for i, r := range requests {
		result := annex.Result{Number: r.Number, ID: "a", Op: r.Op, Ended: 11 * second}
		if result.Asked = annex.Count(r.Runs); i == 1 {
			result.Moved, result.Err = 7, failed
		} else {
			result.Moved = result.Asked
		}
		m.Done(result)
	}
	e, _ := m.Explain("a")
	want := pages(requests) - 32 + 7
	if len(e.Decisions) != 1 || e.Decisions[0].Moved != want || e.Decisions[0].Problem != failed.Error() {
		t.Errorf("%+v, want one of which %d moved, with what failed", e.Decisions, want)
	}
	c := m.byID["a"]
	old := c.account.note(12*second, annex.Evict, annex.Cold, 1, "")
	for i := range annex.Moment(remembered) {
		c.account.note((20+2*i)*second, annex.Evict, annex.Cold, 1, "")
	}
	c.account.history.came(old, 1, nil)
	for _, d := range c.account.history.all() {
		if d.Moved != 0 {
			t.Errorf("%+v has what became of one that is forgotten", d)
		}
	}
}

func TestMissedBeforeItsEvictionIsDone(t *testing.T) {
	m, _ := edge(ContextInfo{})
	r, _ := m.Plan(10 * second)
	if len(r) == 0 {
		t.Fatal("nothing leaves")
	}
	pages := annex.Count(r[0].Runs)
	first := r[0].Runs[0].First
	m.Faults([]annex.Fault{{ID: "a", Space: r[0].Runs[0].Space, Page: first, At: 10*second + 1, Swapped: true}})
	m.Done(annex.Result{Number: r[0].Number, ID: "a", Op: annex.Evict, Began: 10 * second, Ended: 10*second + 2, Asked: pages, Moved: pages, Freed: pages})
	e, _ := m.Explain("a")
	if e.Use.Errors != 1 || e.Use.Misses != 1 || e.ExtendedBytes != int64(pages-1)*annex.PageSize {
		t.Errorf("%d errors, %d misses, %d pages away of %d that left: want the one that was missed to be back", e.Use.Errors, e.Use.Misses, e.ExtendedBytes/annex.PageSize, pages)
	}
}

func TestEvictionThatFreesNothingMakesNoRoom(t *testing.T) {
	m, _ := edge(ContextInfo{})
	r, _ := m.Plan(10 * second)
	before := m.memory.pages()
	for _, q := range r {
		n := annex.Count(q.Runs)
		m.Done(annex.Result{Number: q.Number, ID: "a", Op: q.Op, Began: 10 * second, Ended: 10*second + 1, Asked: n, Moved: n})
	}
	if len(r) == 0 || m.memory.pages() != before {
		t.Errorf("%d requests that freed nothing made %d pages of room", len(r), m.memory.pages()-before)
	}
}

// emptied is a manager of one container all of whose 100 pages are in swap, with much free.
func emptied(info ContextInfo) *Manager {
	m, _ := edge(info)
	m.Scan(annex.Scan{ID: "a", Began: 2 * second, Ended: 2 * second, KnowsAccess: true, Stretches: []annex.Stretch{{States: states(100, annex.Swapped)}}})
	m.Memory(annex.Memory{At: 2 * second, Limit: 1 << 30, Free: 1 << 29, SwapSize: 1 << 30, SwapFree: 1 << 29})
	m.Drain(true)
	return m
}

func drains(m *Manager, at annex.Moment) (pages int) {
	r, _ := m.Plan(at)
	for _, q := range r {
		pages += annex.Count(q.Runs)
	}
	return pages
}

func TestDrainKeepsWithinTheContainersLimit(t *testing.T) {
	piece := int64(Policy{}.withDefaults().Piece)
	for room, want := range map[int64]int{0: 0, piece: 0, piece + 30: 30, piece + 500: 100} {
		m := emptied(ContextInfo{Limited: true, Room: room * annex.PageSize})
		if got := drains(m, 3*second); got != want {
			t.Errorf("room for %d pages: %d are fetched, want %d", room, got, want)
		}
		if got := drains(m, 4*second); got != 0 && want < 100 {
			t.Errorf("room for %d pages: %d more while those are under way", room, got)
		}
	}
	if got := drains(emptied(ContextInfo{}), 3*second); got != 100 {
		t.Errorf("without a limit: %d pages, want all", got)
	}
}

// Pages that cannot be read keep no others from coming back, stay counted as away, and are not tried
// for ever.
func TestDrainPassesByWhatCannotBeRead(t *testing.T) {
	m := emptied(ContextInfo{})
	m.policy.MostComing = 40
	unreadable := annex.Run{First: 0, Pages: 60}
	tried, came := 0, 0
	for at := 3 * second; at < 60*second; at = at.After(500 * time.Millisecond) {
		requests, _ := m.Plan(at)
		for _, q := range requests {
			r := annex.Result{Number: q.Number, ID: q.ID, Op: q.Op, Began: at, Ended: at, Asked: annex.Count(q.Runs)}
			for _, run := range q.Runs {
				if fails := min(run.End(), unreadable.End()); fails > run.First {
					r.Unread = append(r.Unread, annex.Run{First: run.First, Pages: int(fails - run.First)})
				}
			}
			unread := annex.Count(r.Unread)
			if r.Moved = r.Asked - unread; unread > 0 {
				r.Err = errors.New("cannot be read")
				r.Parts = []annex.Part{{Done: r.Asked, Moved: r.Moved}}
			}
			tried, came = tried+unread, came+r.Moved
			m.Done(r)
		}
	}
	if away := m.Status().Contexts[0].ExtendedBytes / annex.PageSize; came != 40 || away != 60 || tried > 3*60 {
		t.Errorf("%d pages came and %d are away, want 40 and 60; %d tries of those that cannot be read", came, away, tried)
	}
}

// A request that was stopped while it met pages that cannot be read, as where the device takes long
// to refuse each, does not have a drain begin anew with these.
func TestDrainGoesOnAfterAStop(t *testing.T) {
	m := emptied(ContextInfo{})
	m.policy.MostComing = 40
	const unreadable, each = 60, 10
	tried, came := 0, 0
	for at := 3 * second; at < 120*second; at = at.After(500 * time.Millisecond) {
		requests, _ := m.Plan(at)
		for _, q := range requests {
			r := annex.Result{Number: q.Number, ID: q.ID, Op: q.Op, Began: at, Ended: at, Asked: annex.Count(q.Runs)}
			done := min(each, r.Asked)
			r.Stopped = done < r.Asked
			if from := q.Runs[0].First; from < unreadable {
				r.Unread = []annex.Run{{First: from, Pages: min(done, int(unreadable-from))}}
				r.Err = errors.New("cannot be read")
			}
			r.Moved = done - annex.Count(r.Unread)
			r.Parts = []annex.Part{{Done: done, Moved: r.Moved}}
			tried, came = tried+annex.Count(r.Unread), came+r.Moved
			m.Done(r)
		}
	}
	if came != 100-unreadable || tried > 3*unreadable {
		t.Errorf("%d pages came, want %d; %d tries of those that cannot be read", came, 100-unreadable, tried)
	}
}

func TestDrainWaitsForCriticalContainers(t *testing.T) {
	m := emptied(ContextInfo{})
	m.Add(ContextInfo{ID: "c", Class: annex.Critical})
	m.Pressure("c", annex.Pressure{At: 2 * second})
	m.Pressure("c", annex.Pressure{At: 3 * second, Some: time.Second})
	if got := drains(m, 3*second); got != 0 {
		t.Errorf("%d pages are fetched while critical containers wait for memory", got)
	}
	if _, next := m.Plan(3 * second); next == 0 {
		t.Error("nothing is to be planned again")
	}
}

// Where the swap device fails nothing is asked to leave, which would be refused.
func TestNothingLeavesToSwapThatFails(t *testing.T) {
	for _, fails := range []bool{false, true} {
		m, _ := edge(ContextInfo{})
		m.Memory(annex.Memory{At: 9 * second, Limit: 1 << 30, SwapSize: 1 << 30, SwapFree: 1 << 30, SwapFails: fails})
		requests, _ := m.Plan(10 * second)
		if says := m.Status().Degraded; (len(requests) == 0) != fails || strings.Contains(says, "device fails") != fails {
			t.Errorf("swap fails (%v): %d requests, and the status says %q", fails, len(requests), says)
		}
	}
}

func TestSwapReserveIsAShare(t *testing.T) {
	for share, none := range map[float64]bool{0.6: true, 0.4: false, -1: false} {
		m := New(Policy{Headroom: Headroom{SwapReserve: share}})
		m.Memory(annex.Memory{At: second, SwapSize: 1 << 30, SwapFree: 1 << 29})
		if (m.swapRoom() <= 0) != none {
			t.Errorf("a reserve of %v with half of swap free: room for %d pages", share, m.swapRoom())
		}
	}
}

// page is what is known of a page.
func (c *context) page(s annex.Space, p annex.Page) cell {
	a := c.pages.find(s).area(p)
	return a.cells[p-a.first]
}

func TestProcessesOfOneContainerAreJudgedAlike(t *testing.T) {
	m, _ := edge(ContextInfo{})
	one, two := annex.Space{PID: 1}, annex.Space{PID: 2}
	look := func(at annex.Moment) {
		var spaces []annex.Scan
		for _, s := range []annex.Space{one, two} {
			spaces = append(spaces, annex.Scan{ID: "a", Space: s, Began: at, Ended: at, KnowsAccess: true, Stretches: []annex.Stretch{{States: states(100, annex.Present|annex.Accessed)}}})
		}
		m.Look("a", spaces)
	}
	look(2 * second)
	m.Activity(annex.Activity{ID: "a", What: annex.Woke, At: 100 * second})
	m.Activity(annex.Activity{ID: "a", What: annex.Slept, At: 110 * second, CPU: time.Second})
	look(120 * second)
	c, now := m.byID["a"], tickOf(120*second, m.policy)
	if first, second := c.page(one, 5).age(now), c.page(two, 5).age(now); first != second || first > 3 {
		t.Errorf("of two processes of which as much is known the pages of one are %d ticks old, of the other %d", first, second)
	}
	n := 0
	for _, k := range c.coldness.histogram {
		n += int(k)
	}
	if n != 200 {
		t.Errorf("ages of %d pages in memory are known, want of the 200 of both processes", n)
	}
}

func TestSpacesThatAreNotFoundAreForgotten(t *testing.T) {
	m, d := edge(ContextInfo{})
	at := 2 * second
	m.Look("a", []annex.Scan{{ID: "a", Space: annex.Space{PID: 2}, Began: at, Ended: at, KnowsAccess: true, Stretches: []annex.Stretch{{States: states(10, annex.Present)}}}})
	e, _ := m.Explain("a")
	if e.ResidentBytes != 10*annex.PageSize || len(d.forgot) != 1 {
		t.Errorf("%d pages in memory, %d spaces forgotten: want the 10 of the process that is there", e.ResidentBytes/annex.PageSize, len(d.forgot))
	}
	m.Look("a", nil)
	if e, _ = m.Explain("a"); e.ResidentBytes != 0 {
		t.Errorf("%d pages of no process", e.ResidentBytes/annex.PageSize)
	}
}

func TestSpaceThatIsGoneDoesNotStandForOthers(t *testing.T) {
	m, d := edge(ContextInfo{})
	one, two := annex.Space{PID: 1}, annex.Space{PID: 2}
	var spaces []annex.Scan
	for _, s := range []annex.Space{one, two} {
		spaces = append(spaces, annex.Scan{ID: "a", Space: s, Began: 2 * second, Ended: 2 * second, KnowsAccess: true, Stretches: []annex.Stretch{{States: states(50, annex.Present)}}})
	}
	m.Look("a", spaces)
	d.forgot = nil
	r, _ := m.Plan(10 * second)
	if len(r) != 1 || annex.Count(r[0].Runs) != 100 {
		t.Fatalf("want one request for all: %+v", r)
	}
	m.Done(annex.Result{Number: r[0].Number, ID: "a", Op: annex.Evict, Began: 10 * second, Ended: 10*second + 1, Asked: 100, Moved: 50, Freed: 50, Err: errors.New("one is gone"),
		Parts: []annex.Part{{Space: one, Gone: true}, {Space: two, Done: 50, Moved: 50}}})
	if len(d.forgot) != 1 || d.forgot[0] != one {
		t.Errorf("forgotten: %v, want that which is gone", d.forgot)
	}
	if e, _ := m.Explain("a"); e.ResidentBytes != 0 || e.ExtendedBytes != 50*annex.PageSize {
		t.Errorf("%d pages in memory, %d away: want those of the other to be away", e.ResidentBytes/annex.PageSize, e.ExtendedBytes/annex.PageSize)
	}
}

// TestRecordOfWhatIsGone has pages of the record given back, and unmapped with all around them: a look
// tells nothing of them, and the predictor learns that they are gone.
func TestRecordOfWhatIsGone(t *testing.T) {
	m, d := edge(ContextInfo{})
	d.record = []predict.Ranked{{Run: annex.Run{First: 10, Pages: 20}, Certain: true}, {Run: annex.Run{First: 80, Pages: 10}}}
	m.Activity(annex.Activity{ID: "a", What: annex.Woke, At: 2 * second})
	m.Activity(annex.Activity{ID: "a", What: annex.Slept, At: 3 * second, CPU: time.Second})
	look := func(at annex.Moment, first, second []annex.State) {
		m.Scan(annex.Scan{ID: "a", Began: at, Ended: at, KnowsAccess: true, Stretches: []annex.Stretch{{States: first}, {First: 50, States: second}}})
	}
	look(4*second, states(50, annex.Present), states(50, annex.Swapped))
	if len(d.gone) > 0 {
		t.Fatalf("all is there, and %+v is reported as gone", d.gone)
	}
	there := states(50, annex.Present)
	there[12], there[13], there[40] = 0, 0, 0
	look(5*second, there, states(35, annex.Swapped))
	if want := []annex.Run{{First: 12, Pages: 2}, {First: 85, Pages: 5}}; !slices.Equal(d.gone, want) {
		t.Errorf("%+v is reported as gone, want %+v", d.gone, want)
	}
	look(6*second, there, states(35, annex.Swapped))
	if len(d.gone) != 2 {
		t.Errorf("it is reported again: %+v", d.gone)
	}
}

// TestSpacesThatEnd has one of two spaces end under way: that is no reason to leave the other alone,
// as a failure is.
func TestSpacesThatEnd(t *testing.T) {
	one, other := annex.Space{PID: 1}, annex.Space{PID: 2}
	runs := []annex.Run{{Space: one, Pages: 4}, {Space: other, Pages: 4}}
	for _, c := range []struct {
		parts  []annex.Part
		paused bool
	}{
		{[]annex.Part{{Space: one, Gone: true}, {Space: other, Done: 4, Moved: 4}}, false},
		{[]annex.Part{{Space: one, Gone: true}, {Space: other, Done: 3, Moved: 3}}, true},
		{[]annex.Part{{Space: one, Done: 4}, {Space: other, Done: 2}}, true},
		{nil, true},
	} {
		m, _ := edge(ContextInfo{})
		ctx := m.byID["a"]
		u := &request{context: ctx, op: annex.Evict, pages: 8, runs: runs, decision: ctx.account.note(second, annex.Evict, annex.Cold, 8, "")}
		ctx.done(u, annex.Result{Op: annex.Evict, Ended: 10 * second, Asked: 8, Err: errors.New("failed"), Parts: c.parts})
		if paused := ctx.pausedUntil > 10*second; paused != c.paused {
			t.Errorf("%+v: paused %v, want %v", c.parts, paused, c.paused)
		}
	}
}
