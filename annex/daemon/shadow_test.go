package daemon

import (
	"testing"
	"time"

	"tare/annex"
)

// shadowed has pages 0 to 3 leave in the shadow, after a scan in which the states were such.
func shadowed(states ...annex.State) *shadow {
	s := newShadow()
	s.scan(scanAt(0, states...))
	s.do(annex.Request{ID: "web", Op: annex.Evict, Runs: []annex.Run{{Space: theSpace, Pages: len(states)}}}, annex.Moment(time.Second))
	return s
}

func scanAt(seconds int, states ...annex.State) annex.Scan {
	return annex.Scan{
		ID: "web", Space: theSpace, Ended: annex.Moment(time.Duration(seconds) * time.Second), KnowsAccess: true,
		Stretches: []annex.Stretch{{States: states}},
	}
}

const touched = annex.Present | annex.Accessed

func TestShadow(t *testing.T) {
	const unused, gone = annex.Present, annex.Swapped
	for name, c := range map[string]struct {
		before, after annex.State
		seconds       int
		tells         annex.State // what data is told of the page afterwards
		want          Observed
	}{
		"used soon":          {unused, touched, 30, touched, Observed{Left: 1, Faults: 1, Wrong: 1}},
		"used later":         {unused, touched, 90, touched, Observed{Left: 1, Faults: 1}},
		"not used":           {unused, unused, 30, gone, Observed{Left: 1, Free: annex.PageSize}},
		"marked before":      {touched, touched, 30, gone, Observed{Left: 1, Free: annex.PageSize}},
		"left indeed":        {unused, gone, 30, gone, Observed{Left: 1}},
		"given back":         {unused, 0, 30, 0, Observed{Left: 1}},
		"marked, then clear": {touched, unused, 30, gone, Observed{Left: 1, Free: annex.PageSize}},
	} {
		s := shadowed(c.before)
		told := s.scan(scanAt(c.seconds, c.after))
		if got := told.Stretches[0].States[0]; got != c.tells {
			t.Errorf("%s: data is told %b, want %b", name, got, c.tells)
		}
		if got := s.observed(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// Pages whose use would not show count as faults when their container runs, once each time
// that they would have left.
func TestShadowRan(t *testing.T) {
	s := shadowed(touched, touched, annex.Present)
	s.ran("web", 0) // before they left
	for range 2 {
		s.ran("web", annex.Moment(20*time.Second))
	}
	if o := s.observed(); o.Faults != 2 || o.Wrong != 2 || o.Free != annex.PageSize || s.awayOf("web") != 1 {
		t.Errorf("%+v, want two faults within the minute, and one page away", o)
	}
	s.do(annex.Request{ID: "web", Op: annex.Evict, Runs: []annex.Run{{Space: theSpace, Pages: 3}}}, annex.Moment(30*time.Second))
	s.ran("web", annex.Moment(100*time.Second))
	if o := s.observed(); o.Faults != 4 || o.Wrong != 2 || o.Left != 5 {
		t.Errorf("%+v, want two more faults, after more than a minute", o)
	}
}

// What is free in the shadow is what is free, and what would have left; pages that come
// back, and containers that end, take theirs with them.
func TestShadowMemory(t *testing.T) {
	s := shadowed(annex.Present, annex.Present, annex.Present)
	free := func() int64 {
		return s.memory(annex.Memory{Limit: 1 << 30, Free: 100 * annex.PageSize}).Free / annex.PageSize
	}
	if free() != 103 {
		t.Errorf("%d pages free, want 103", free())
	}
	r := s.do(annex.Request{ID: "web", Op: annex.Map, Runs: []annex.Run{{Space: theSpace, First: 2, Pages: 2}}}, 0)
	if free() != 102 || r.Moved != 1 || r.Skipped != 1 {
		t.Errorf("%d pages free, %+v: want 102, one moved and one passed by", free(), r)
	}
	if s.remove("web"); free() != 100 {
		t.Errorf("%d pages free of an ended container, want 100", free())
	}
}

// What a program gives back is away no more, as a look tells by telling nothing of it: of a part
// of a piece, of a whole one, and of a space.
func TestShadowOfWhatWasGivenBack(t *testing.T) {
	for name, c := range map[string]struct {
		then []annex.Scan
		want int64 // pages away
	}{
		"all there": {[]annex.Scan{{Space: theSpace, Stretches: []annex.Stretch{{States: idle(3 * piecePages)}}}}, 3 * piecePages},
		"parts":     {[]annex.Scan{{Space: theSpace, Stretches: []annex.Stretch{{First: 100, States: idle(10)}, {First: 2*piecePages - 5, States: idle(10)}}}}, 20},
		"no space":  {[]annex.Scan{{Space: annex.Space{PID: 99}}}, 0},
		"none":      {nil, 0},
	} {
		s := newShadow()
		for i := range c.then {
			c.then[i].ID = "web"
		}
		s.look("web", []annex.Scan{{ID: "web", Space: theSpace, Stretches: []annex.Stretch{{States: idle(3 * piecePages)}}}})
		s.do(annex.Request{ID: "web", Op: annex.Evict, Runs: []annex.Run{{Space: theSpace, Pages: 3 * piecePages}}}, 1)
		s.look("web", c.then)
		if s.away != c.want || s.awayOf("web") != c.want {
			t.Errorf("%s: %d pages are away, %d of them the container's; want %d", name, s.away, s.awayOf("web"), c.want)
		}
	}
}

// idle are pages that are there and were not used.
func idle(pages int) []annex.State {
	all := make([]annex.State, pages)
	for i := range all {
		all[i] = annex.Present
	}
	return all
}
