package data

import (
	"testing"
	"time"

	"tare/annex"
)

// What is written is remembered for some minutes however often its container works, and forgotten
// after so many times that it worked; what is new by then stays known.
func TestWrittenIsForgotten(t *testing.T) {
	p := Policy{}.withDefaults()
	c := newContext(ContextInfo{ID: "a", Class: annex.Elastic}, p)
	s := &space{areas: []area{newArea(0, 10, leastShift)}}
	c.pages.spaces, c.pages.byName[s.name] = []*space{s}, s
	a := &s.areas[0]
	a.written.set(3, len(a.cells))
	a.born[0].set(5, len(a.cells))
	c.pages.hasWritten = true
	mark := func(started int, at time.Duration) (written, writes bool) {
		c.activity.count = started
		c.mark(annex.Moment(at))
		return a.wears(3), c.pages.hasWritten
	}
	for _, step := range []struct {
		started         int
		at              time.Duration
		written, writes bool
	}{
		{forgetProbes + 1, forgetAfter - time.Second, true, true},
		{forgetProbes - 1, forgetAfter + time.Second, true, true},
		{forgetProbes + 1, forgetAfter + 2*time.Second, false, true},
	} {
		if written, writes := mark(step.started, step.at); written != step.written || writes != step.writes {
			t.Errorf("after %d activations and %v: written is %v and any is %v, want %v and %v", step.started, step.at, written, writes, step.written, step.writes)
		}
	}
	if !a.wears(5) {
		t.Error("what is new is not known any more")
	}
}
