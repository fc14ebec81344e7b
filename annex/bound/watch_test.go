package bound

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"tare/annex"
	"tare/annex/annextest"
	"tare/container"
	"tare/kernel/pressure"
)

// bench is a watch with a clock, a container and ticks of the test's.
type bench struct {
	*Watch
	mu    sync.Mutex
	at    annex.Moment
	some  time.Duration
	err   error
	tick  chan time.Time
	looks chan struct{}
}

func newBench(t *testing.T, limit pressure.Threshold) *bench {
	t.Helper()
	b := &bench{tick: make(chan time.Time), looks: make(chan struct{}, 1), at: annex.Moment(time.Hour)}
	now := func() annex.Moment {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.at
	}
	b.Watch = newWatch(limit, now, func() (<-chan time.Time, func()) { return b.tick, func() {} })
	b.watched["critical"] = &watched{
		read: func() (annex.Pressure, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.looks <- struct{}{}
			return annex.Pressure{At: b.at, Some: b.some}, b.err
		},
		meter: meter{limit: limit}, end: func() {},
	}
	return b
}

// pass lets time pass, of which tasks waited for some.
func (b *bench) pass(d, waited time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at, b.some = b.at.After(d), b.some+waited
}

// The stated time: what was reached before a look is told by that look, and there is one
// each [ReportWithin] while something is evicted.
func TestPressureIsToldAtTheNextLook(t *testing.T) {
	limit := pressure.Threshold{Stall: 10 * time.Millisecond, Window: 500 * time.Millisecond}
	b := newBench(t, limit)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	b.ctx = ctx
	go func() { defer close(ended); b.run() }()
	done := b.Evicting()
	<-b.looks // at once, to have something to compare with
	for range 3 {
		b.pass(ReportWithin, limit.Stall/10)
		b.tick <- time.Time{}
		<-b.looks
		if b.Over() {
			t.Fatal("it is below the limit")
		}
	}
	b.pass(ReportWithin, limit.Stall)
	b.tick <- time.Time{}
	<-b.looks
	<-b.Alarms()
	if !b.Over() || b.Since() != b.at {
		t.Errorf("an alarm, and it is over %t, since %v, want %v", b.Over(), b.Since(), b.at)
	}
	// It stays until a window has gone by without.
	b.pass(limit.Window-1, 0)
	if !b.Over() {
		t.Error("it is forgotten within the window")
	}
	b.pass(1, 0)
	if b.Over() {
		t.Error("it is never forgotten")
	}
	// Nothing is looked at while nothing is evicted.
	done()
	done() // once counts once
	b.tick <- time.Time{}
	<-b.looks // and then it ends
	select {
	case b.tick <- time.Time{}:
		t.Error("it still waits for ticks")
	case <-func() chan struct{} { cancel(); return ended }():
	}
}

func TestAGroupThatIsGoneIsWatchedNoMore(t *testing.T) {
	b := newBench(t, pressure.Threshold{Stall: time.Millisecond, Window: time.Second})
	b.err = errors.New("not now")
	b.look()
	<-b.looks
	if len(b.watched) != 1 {
		t.Fatal("what could not be read once is given up")
	}
	b.err = &pressure.NoGroup{Dir: "/critical"}
	b.look()
	<-b.looks
	if len(b.watched) != 0 {
		t.Error("it is still watched")
	}
}

// One of which the kernel will tell no more is watched no more, and nobody else for it.
func TestAWatchThatEndsIsForgotten(t *testing.T) {
	for name, c := range map[string]struct {
		events    []pressure.Event
		another   bool // is watched under its name by then
		want, end bool
		over      bool
	}{
		"it is closed":         {nil, false, true, false, false},
		"the limit is reached": {[]pressure.Event{{}}, false, true, false, true},
		"its group is gone":    {[]pressure.Event{{Err: &pressure.NoGroup{Dir: "/critical"}}}, false, false, true, false},
		"it cannot be polled":  {[]pressure.Event{{}, {Err: errors.New("poll: out of memory")}}, false, false, true, true},
		"of one before":        {[]pressure.Event{{Err: errors.New("poll: out of memory")}}, true, true, false, false},
	} {
		b := newBench(t, pressure.Threshold{Stall: time.Millisecond, Window: time.Second})
		one, ended := b.watched["critical"], false
		one.end = func() { ended = true }
		if c.another {
			b.watched["critical"] = &watched{end: func() { t.Errorf("%s: another is ended", name) }}
		}
		events := make(chan pressure.Event, len(c.events))
		for _, e := range c.events {
			events <- e
		}
		close(events)
		b.hear("critical", one, events)
		if got := b.watched["critical"] != nil; got != c.want || ended != c.end || b.Over() != c.over {
			t.Errorf("%s: watched %t, ended %t, over %t; want %t, %t, %t", name, got, ended, b.Over(), c.want, c.end, c.over)
		}
	}
}

// A real group goes, and another is made under its name: that one is watched when it is added.
func TestWatchAGroupThatIsMadeAgain(t *testing.T) {
	b, err := New(Options{})
	if err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := b.Watch(ctx, pressure.Threshold{Stall: 100 * time.Millisecond, Window: 2 * time.Second})
	g := annextest.Group(t, "bound", "again")
	c := found(g)
	if err := w.Add(c); err != nil {
		t.Skip(err) // no pressure is told here
	}
	first := watchedAs(w, c)
	if err := w.Add(c); err != nil || watchedAs(w, c) != first {
		t.Fatalf("one that is watched already does not stay: %v", err)
	}
	dir, _ := g.Unified()
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); watchedAs(w, c) != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is watched a minute after its group has gone")
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := w.Add(c); err != nil || watchedAs(w, c) == nil {
		t.Errorf("it is not watched again: %v", err)
	}
}

func watchedAs(w *Watch, c container.Container) *watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watched[key(c)]
}

// Two containers of one id, as of two engines, are both watched.
func TestWatchTwoOfOneID(t *testing.T) {
	b, err := New(Options{})
	if err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := b.Watch(ctx, pressure.Threshold{Stall: 100 * time.Millisecond, Window: 2 * time.Second})
	first, second := found(annextest.Group(t, "bound", "first")), found(annextest.Group(t, "bound", "second"))
	first.ID, second.ID = "same", "same"
	for _, c := range []container.Container{first, second} {
		if err := w.Add(c); err != nil {
			t.Skip(err) // no pressure is told here
		}
	}
	w.Remove(first)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watched[key(second)] == nil || len(w.watched) != 1 {
		t.Errorf("watched are %d: want the second", len(w.watched))
	}
}

func TestMeter(t *testing.T) {
	ms := func(n int) annex.Moment { return annex.Moment(n) * annex.Moment(time.Millisecond) }
	read := func(at, some, full int) annex.Pressure {
		return annex.Pressure{At: ms(at), Some: time.Duration(ms(some)), Full: time.Duration(ms(full))}
	}
	for name, c := range map[string]struct {
		full     bool
		readings []annex.Pressure
		want     []bool
	}{
		"the first tells nothing":      {false, []annex.Pressure{read(0, 5000, 0)}, []bool{false}},
		"within the window":            {false, []annex.Pressure{read(0, 0, 0), read(50, 9, 0), read(100, 10, 0)}, []bool{false, false, true}},
		"spread over more than that":   {false, []annex.Pressure{read(0, 0, 0), read(400, 9, 0), read(501, 18, 0), read(950, 18, 0)}, []bool{false, false, false, false}},
		"all of them":                  {true, []annex.Pressure{read(0, 0, 0), read(50, 40, 9), read(100, 90, 10)}, []bool{false, false, true}},
		"after a long time of nothing": {false, []annex.Pressure{read(0, 0, 0), read(60000, 50, 0), read(60050, 60, 0)}, []bool{false, false, true}},
	} {
		m := meter{limit: pressure.Threshold{Full: c.full, Stall: 10 * time.Millisecond, Window: 500 * time.Millisecond}}
		for i, p := range c.readings {
			if got := m.exceeds(p); got != c.want[i] {
				t.Errorf("%s: reading %d: %t", name, i, got)
			}
		}
		if kept := m.readings; kept[len(kept)-1].At.Since(kept[0].At) > m.limit.Window {
			t.Errorf("%s: it keeps %d readings, the first of which is %v old", name, len(kept), kept[len(kept)-1].At.Since(kept[0].At))
		}
	}
}
