package daemon

import (
	"testing"
	"time"

	"tare/annex"
	"tare/annex/control"
)

// Memory is looked at the sooner the less there is of it and the faster it goes.
func TestPace(t *testing.T) {
	const low = 64 << 20
	second := annex.Moment(time.Second)
	for _, c := range []struct {
		name    string
		before  int64 // free, a second earlier; 0 is no reading
		free    int64
		leaving bool
		want    time.Duration
	}{
		{"plenty", 0, 8 << 30, false, latestLook},
		{"some", 0, 80 << 20, false, 750 * time.Millisecond}, // 48 MiB at 64 MiB a second
		{"as fast as before", 336 << 20, 80 << 20, false, 93750 * time.Microsecond},
		{"gone in no time", 64 << 30, 80 << 20, false, soonestLook},
		{"short, and pages leave", 0, 60 << 20, true, soonestLook},
		{"short, and none can", 0, 60 << 20, false, shortLook},
	} {
		var p pace
		if c.before != 0 {
			p.read(annex.Memory{At: second, Free: c.before}, low, false)
		}
		if got := p.read(annex.Memory{At: 2 * second, Free: c.free}, low, c.leaving); got != c.want {
			t.Errorf("%s: after %v, want %v", c.name, got, c.want)
		}
	}
}

// A share of time is told between two readings that lie apart.
func TestStalls(t *testing.T) {
	var s stalls
	at := func(ms int, some time.Duration) annex.Pressure {
		return annex.Pressure{At: annex.Moment(time.Duration(ms) * time.Millisecond), Some: some}
	}
	for _, c := range []struct {
		p    annex.Pressure
		over bool
	}{
		{at(100, time.Hour), false}, // what was before is not known
		{at(150, time.Hour), false},
		{at(200, time.Hour+time.Millisecond), true}, // 2 percent
		{at(205, time.Hour+time.Millisecond), true}, // too near to tell
		{at(300, time.Hour+time.Millisecond), false},
	} {
		if got := s.read("db", c.p, 0.01); got != c.over || s.any() != c.over {
			t.Errorf("at %v: %v, want %v", time.Duration(c.p.At), got, c.over)
		}
	}
	s.read("db", at(400, 2*time.Hour), 0.01)
	if s.forget("db"); s.any() {
		t.Error("one that is forgotten is still above its limit")
	}
}

// A brake that was on when everything was put off is not on for ever.
func TestBrakeEndsWhileOff(t *testing.T) {
	d := New(Parts{Now: func() annex.Moment { return annex.Moment(time.Hour) }}, Settings{})
	d.blind = true
	d.brake()
	if !d.tellBrake().On {
		t.Fatal("it is not on")
	}
	d.enter(control.Off)
	d.brake()
	d.blind = false
	d.brake()
	if b := d.tellBrake(); b.On || !d.Stopping() {
		t.Errorf("%+v while off, and evictions are stopped: %v", b, d.Stopping())
	}
}
