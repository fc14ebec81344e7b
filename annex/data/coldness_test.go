package data

import (
	"testing"
	"time"

	"tare/annex"
)

// aged is a context with one area of pages used at given ticks.
func aged(p Policy, used ...tick) *context {
	c := newContext(ContextInfo{ID: "a", Class: annex.Elastic}, p)
	a := newArea(0, len(used), leastShift)
	for i, u := range used {
		a.cells[i] = cell{used: uint8(u), flags: present}
		c.pages.tally[present]++
	}
	c.pages.spaces = []*space{{areas: []area{a}}}
	return c
}

func TestAgesStandStillAtTheOldest(t *testing.T) {
	p := New(Policy{}).policy
	// Over a day, swept in uneven steps: the first page is never used, the second at once
	// before each sweep, the third once on the way.
	c := aged(p, 0, 0, 0)
	cells := c.pages.spaces[0].areas[0].cells
	once := tick(7000)
	now := tick(0)
	for now < 17280 {
		step := tick(8 + now%5)
		if now%7 == 0 {
			step = 400 // nobody planned for half an hour
		}
		now += step
		c.pages.sweep(now)
		cells[1].used = uint8(now)
		if now >= once {
			cells[2].used = uint8(now)
			once = 1 << 40
		}
		if a, b := cells[0].age(now), cells[1].age(now); b != 0 || now > oldest && a != oldest {
			t.Fatalf("at tick %d a page that was never used is %d old, and one that was just now %d", now, a, b)
		}
	}
	if a := cells[2].age(now); a < oldest {
		t.Errorf("a page that was used thousands of ticks ago is %d old: want %d", a, oldest)
	}
}

func TestSweepKeepsAges(t *testing.T) {
	p := New(Policy{}).policy
	for behind := tick(sweepEach); behind < 600; behind++ {
		// The last two were used after the last sweep, which was at 1000.
		c := aged(p, 1000, 990, 1000-oldest, 1003, 1000+sweepEach)
		c.pages.sweptAt = 1000
		now := 1000 + behind
		c.pages.sweep(now)
		for i, used := range []tick{1000, 990, 1000 - oldest, 1003, 1000 + sweepEach} {
			if got, want := c.pages.spaces[0].areas[0].cells[i].age(now), uint8(min(now-used, oldest)); got != want {
				t.Fatalf("%d ticks after the last sweep, used at %d: age %d, want %d", behind, used, got, want)
			}
		}
	}
}

func TestThreshold(t *testing.T) {
	p := New(Policy{}).policy
	minute := annex.Moment(time.Minute)
	const working = 10000 // of which 0.2 % are 20
	var g coldness
	g.threshold = none
	g.closed(minute/2, working, p)
	if g.threshold != none {
		t.Errorf("after half a minute the threshold is %d: want none yet", g.threshold)
	}
	for _, step := range []struct {
		age   uint8
		uses  int
		want  uint8
		about string
	}{
		{0, 0, 6, "nothing was used again: the least age"},
		{30, 20, 6, "as many as may be"},
		{30, 21, 31, "one more than may be: above their age"},
		{10, 5000, 31, "the last minutes count too, in the 98th percentile"},
		{50, 21, 51, "the last minute counts at once where it is higher"},
		{oldest, 21, none, "no age is high enough"},
	} {
		for range step.uses {
			g.promote(step.age)
		}
		g.closed(g.from+minute, working, p)
		if g.threshold != step.want {
			t.Errorf("%s: threshold %d, want %d", step.about, g.threshold, step.want)
		}
	}
	// What happened once is forgotten after the history, at the latest.
	for range p.History {
		g.closed(g.from+minute, working, p)
	}
	if g.threshold != 6 {
		t.Errorf("after %d quiet minutes the threshold is %d: want the least again", p.History, g.threshold)
	}
}

func TestExtents(t *testing.T) {
	p := New(Policy{Ages: Ages{Lifetime: 10 * time.Second}, Errors: Errors{Quick: 2 * time.Second}}).policy
	life := p.lifetime()
	var e extent
	if e.level(0, life) != 0 {
		t.Error("one that was never used is on a level")
	}
	at := stamp(1000)
	for _, want := range []int{1, 2, 2, 3, 3, 3, 3, 4} {
		at++
		e.use(at, p)
		e.use(at, p) // the same use
		if got := e.level(at, life); got != want {
			t.Fatalf("after %d uses it is on level %d, want %d", e.uses, got, want)
		}
	}
	for lives, want := range []int{4, 3, 2, 1, 0, 0} {
		if got := e.level(at+stamp(lives)*life, life); got != want {
			t.Errorf("unused for %d lifetimes it is on level %d, want %d", lives, got, want)
		}
	}
	// Used again it goes on from where it has fallen to.
	fallen := e
	fallen.use(at+2*life, p)
	if got := fallen.level(at+2*life, life); got != 2 {
		t.Errorf("used again on level 2 it is on %d", got)
	}
	// A ghost that returns at once is raised, once; one that returns late is not.
	ghost := e
	ghost.leave(at + 10)
	if !ghost.returns(at+20, p) || ghost.uses != 2*e.uses {
		t.Errorf("a ghost that returns after a second has %d uses: want %d", ghost.uses, 2*e.uses)
	}
	ghost.use(at+20, p)
	if uses := ghost.uses; !ghost.returns(at+20, p) || ghost.uses != uses {
		t.Errorf("its next page raises it once more")
	}
	late := e
	late.leave(at + 10)
	if late.returns(at+31, p) || late.uses != e.uses {
		t.Error("a ghost that returns after more than two seconds counts as missed")
	}
}

func TestBrake(t *testing.T) {
	g := &gauge{}
	var none *gauge
	if none.brake(0.1) != 1 || g.brake(0.1) != 1 {
		t.Error("it brakes where nothing is told")
	}
	at, some := annex.Moment(0), time.Duration(0)
	read := func(share float64) {
		at = at.After(100 * time.Millisecond)
		some += time.Duration(share * float64(100*time.Millisecond))
		g.read(annex.Pressure{At: at, Some: some}, time.Second)
	}
	for range 100 {
		read(0.05)
	}
	if b := g.brake(0.1); b < 0.49 || b > 0.51 {
		t.Errorf("at half the limit it lets %g through: want a half", b)
	}
	read(0.2)
	if b := g.brake(0.1); b != 0 {
		t.Errorf("one reading above the limit lets %g through: want nothing", b)
	}
	read(0)
	if b := g.brake(0.1); b <= 0 || b >= 0.6 {
		t.Errorf("after it %g are let through: want some, and not as if nothing had been", b)
	}
}

func TestErrorRate(t *testing.T) {
	p := New(Policy{}).policy
	e := errorRate{halfLife: 30 * time.Second}
	second := annex.Moment(time.Second)
	e.evicted(second, 500)
	for range 500 {
		e.missed(second)
	}
	if e.judge(second, p) {
		t.Error("500 pages, all of them missed, are enough to judge: want 1024")
	}
	e.evicted(second, 1500)
	for range 501 {
		e.missed(second)
	}
	if !e.judge(second, p) {
		t.Errorf("%g of 2000 pages missed is no error", e.share())
	}
	e.evicted(second, 1500)
	if !e.judge(second, p) {
		t.Errorf("%g missed ends it: want it to go on down to a quarter", e.share())
	}
	e.evicted(second, 1000)
	if e.judge(second, p) {
		t.Errorf("%g missed does not end it", e.share())
	}
}

func TestSegments(t *testing.T) {
	states := make([]annex.State, 1000)
	for _, i := range []int{3, 4, 60, 200, 263, 999} {
		states[i] = annex.Present
	}
	var got []int
	segments(annex.Stretch{First: 100, States: states}, func(first annex.Page, part []annex.State) {
		got = append(got, int(first)-100, len(part))
	})
	want := []int{3, 58, 200, 64, 999, 1}
	if len(got) != len(want) {
		t.Fatalf("parts %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("parts %v, want %v", got, want)
		}
	}
}

// TestAreasMove has an area grow at both ends, be parted and joined: what is known of its pages
// and extents stays with them.
func TestAreasMove(t *testing.T) {
	p := New(Policy{}).policy
	c := newContext(ContextInfo{ID: "a", Class: annex.Elastic}, p)
	at := annex.Moment(time.Minute)
	scan := func(from, to int, hole ...int) {
		at = at.After(time.Second)
		s := annex.Scan{ID: "a", Began: at, Ended: at, KnowsAccess: true, Stretches: []annex.Stretch{{First: annex.Page(from), States: make([]annex.State, to-from)}}}
		for i := range s.Stretches[0].States {
			s.Stretches[0].States[i] = annex.Present
			if len(hole) == 2 && from+i >= hole[0] && from+i < hole[1] {
				s.Stretches[0].States[i] = 0
			}
		}
		c.scan([]annex.Scan{s}, p)
		check(t, c)
	}
	scan(1000, 1500)
	marked := []annex.Page{1005, 1100, 1490}
	for _, page := range marked {
		a := c.pages.spaces[0].area(page)
		c.pages.put(&a.cells[page-a.first], present|probed)
		a.extent(page).uses = 5
	}
	for _, step := range []func(){
		func() { scan(900, 1600) },
		func() { scan(990, 1600, 1200, 1400) },
		func() { scan(901, 1599) },
		func() { scan(0, 20000) }, // with larger extents
		func() { scan(1001, 1491) },
	} {
		step()
		n := 0
		for _, s := range c.pages.spaces {
			for i := range s.areas {
				for _, cell := range s.areas[i].cells {
					if cell.flags&probed != 0 {
						n++
					}
				}
			}
		}
		if n != len(marked) {
			t.Fatalf("%d pages are marked, want %d", n, len(marked))
		}
		for _, page := range marked {
			a := c.pages.spaces[0].area(page)
			if a == nil || a.cells[page-a.first].flags&probed == 0 || a.extent(page).uses != 5 {
				t.Fatalf("of page %d is not known any more what was", page)
			}
		}
	}
}
