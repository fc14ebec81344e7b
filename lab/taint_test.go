package lab

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"tare/kernel/accounting"
	"tare/platform"
	"tare/record"
)

// fakeBox reads what its test sets.
type fakeBox struct {
	platform.Box
	reading platform.BoxReading
	err     error
}

func (b *fakeBox) Read(context.Context) (platform.BoxReading, error) { return b.reading, b.err }

// What programs in a box wait for memory is what they are there for; what others wait
// while nobody in the box does is foreign.
func TestOutside(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name          string
		stall         float64
		before, after time.Duration
		want          float64
	}{
		{"all of it in the box", 0.5, 3 * s, 8 * s, 0},
		{"some of it outside", 0.5, 3 * s, 6 * s, 0.2},
		{"counted a moment apart", 0.5, 0, 6 * s, 0},
		{"no pressure is known of the host", -1, 0, s, -1},
		{"nor of the box", 0.5, -1, -1, -1},
		{"the box went meanwhile", 0.5, s, -1, -1},
	} {
		if got := outside(c.stall, 10*s, c.before, c.after); got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if got := outside(0.5, 0, 0, 0); got != -1 {
		t.Errorf("in no time: %v", got)
	}
}

func TestForeignPressureTaintsATrialWithABox(t *testing.T) {
	if taint := causes(accounting.Interval{MemoryStall: 0.2}, 0, false); len(taint) != 1 {
		t.Errorf("a fifth of the time outside of the box: %q", taint)
	}
	if taint := causes(accounting.Interval{MemoryStall: -1}, 0, false); len(taint) != 0 {
		t.Errorf("of what is not known: %q", taint)
	}
}

// What a condition is never without is its own: one repetition tells, and others who rest
// once are derived from it again.
func TestStealThatAConditionBrings(t *testing.T) {
	own := ownSteal{}
	for i, c := range []struct {
		part  string
		steal float64
		taint string
	}{
		{"a", 0.12, "steal 12.0 % of the host's CPU time"},
		{"a", 0.14, ""},
		{"a", 0.18, "steal 18.0 % of the host's CPU time where it had been 12.0"},
		{"b", 0.06, "steal 6.0 % of the host's CPU time"}, // another's is its own matter
		{"b", 0.02, ""},
		{"b", 0.06, ""},
		{"b", 0.08, "steal 8.0 % of the host's CPU time where it had been 2.0"},
		{"b", 0, ""},
		{"b", 0.051, "steal 5.1 % of the host's CPU time"},
		{"c", 0.6, "steal 60.0 % of the host's CPU time"},
		{"c", 0.6, "steal 60.0 % of the host's CPU time where it had been 20.0"}, // as far as it may
	} {
		got := strings.Join(causes(accounting.Interval{Steal: c.steal, MemoryStall: -1}, own.before(c.part, c.steal), false), "; ")
		if got != c.taint {
			t.Errorf("%d: %q, want %q", i, got, c.taint)
		}
	}
}

func TestAnObserverAroundBoxes(t *testing.T) {
	if _, err := os.Stat("/proc/pressure/memory"); err != nil {
		t.Skip(err)
	}
	o := observer{proc: "/proc", self: os.Getpid()}
	gone := &fakeBox{err: errors.New("removed")}
	box := &fakeBox{reading: platform.BoxReading{Some: time.Second, Reclaiming: time.Second}, err: &platform.Endangered{Why: "a test"}}
	o.around(gone)
	o.around(box)
	if err := o.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(o.boxes) != 1 || o.boxes[0].before != 2*time.Second {
		t.Errorf("boxes %+v, want the one that is there, in danger or not, with all that it waited", o.boxes)
	}
	// More than the whole interval: nothing of the host's can have been another's.
	box.reading.Some += time.Hour
	iv, err := o.end(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if iv.MemoryStall != 0 {
		t.Errorf("stall outside of the box %v, want none", iv.MemoryStall)
	}
	box.reading.Absent = map[string]string{"pressure_some_ns": "unknown here"}
	if iv, err = o.end(t.Context()); err != nil || iv.MemoryStall >= 0 {
		t.Errorf("stall outside of a box that tells of none: %v, %v, want that it is not known", iv.MemoryStall, err)
	}
}

// On a host in use the load of others is part of what is compared. What the hypervisor takes is not.
func TestTheLoadOfAHostInUseDisturbsNothing(t *testing.T) {
	for _, c := range []struct {
		inUse bool
		iv    accounting.Interval
		want  int
	}{
		{false, accounting.Interval{Foreign: 0.5, MemoryStall: 0.5}, 2},
		{true, accounting.Interval{Foreign: 0.5, MemoryStall: 0.5}, 0},
		{true, accounting.Interval{Foreign: 0.5, Steal: 0.5}, 1},
	} {
		r := &runner{lab: &Lab{}, design: Design{Plan: record.Plan{HostInUse: c.inUse}}}
		if got := r.judge(c.iv, 0, false); len(got) != c.want {
			t.Errorf("in use %t, %+v: %q, want %d causes", c.inUse, c.iv, got, c.want)
		}
	}
}
