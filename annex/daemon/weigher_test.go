package daemon

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/annex/bound"
	"tare/annex/config"
)

// own is a control group that a daemon runs in.
type own struct {
	began time.Time

	mu                    sync.Mutex
	weighs                []float64 // what it came to weigh, one after another; 1 is all
	yielding, resuming    error     // what comes of it
	timing                error
	waits                 float64 // of the time
	yields, resumes, asks int
}

func (o *own) set(share float64) {
	if n := len(o.weighs); n == 0 && share < 1 || n > 0 && o.weighs[n-1] != share {
		o.weighs = append(o.weighs, share)
	}
}

func (o *own) Yield(share float64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.yields++
	if o.yielding == nil {
		o.set(share)
	}
	return o.yielding
}

func (o *own) Resume() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.resumes++
	if o.resuming == nil {
		o.set(1)
	}
	return o.resuming
}

func (o *own) Time() (ran, waited time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asks++
	since := time.Since(o.began)
	return since / 10, time.Duration(o.waits * float64(since)), o.timing
}

func (o *own) change(f func()) { o.mu.Lock(); defer o.mu.Unlock(); f() }

func (o *own) now() float64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.weighs) == 0 {
		return 1
	}
	return o.weighs[len(o.weighs)-1]
}

// in has a daemon of a quiet host run in it.
func (o *own) in(share float64) func(*host) {
	return func(h *host) { crowded(h); o.began, h.own, h.yield = time.Now(), o, share }
}

// A daemon that manages gives way while it can, and weighs what it did once it manages no more.
func TestYield(t *testing.T) {
	group := &own{}
	manage(t, 1<<30, config.Manage, group.in(0.05), func(t *testing.T, _ *host, d *Daemon) {
		awaits(t, time.Minute, "less weight", func() bool { return group.now() == 0.05 && d.Status().Weight.Yields })
		if err := d.Off(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaits(t, time.Minute, "its weight", func() bool { return group.now() == 1 && !d.Status().Weight.Yields })
		if _, err := d.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaits(t, time.Minute, "less weight again", func() bool { return group.now() == 0.05 })
	})
	if group.now() != 1 {
		t.Errorf("when it has ended it weighs %v", group.now())
	}
}

// Another share takes effect at a reload, and what others have changed is seen to.
func TestYieldIsKeptUp(t *testing.T) {
	group := &own{}
	manage(t, 1<<30, config.Manage, group.in(0.05), func(t *testing.T, h *host, d *Daemon) {
		awaits(t, time.Minute, "less weight", func() bool { return group.now() == 0.05 })
		h.mu.Lock()
		h.yield = 0.5
		h.mu.Unlock()
		if _, err := d.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaits(t, 2*latestLook, "another weight", func() bool { return group.now() == 0.5 })
		group.change(func() { group.weighs = append(group.weighs, 0.7) })
		awaits(t, weighedEvery+time.Second, "a look at what it weighs", func() bool { return group.now() == 0.5 })
	})
}

// Nothing is changed where nothing is to be.
func TestYieldIsLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		mode  config.Mode
		share float64
	}{"observing": {config.Observe, 0.05}, "told so": {config.Manage, 1}} {
		group := &own{}
		manage(t, 1<<30, c.mode, group.in(c.share), func(t *testing.T, _ *host, d *Daemon) {
			time.Sleep(time.Minute)
			if group.yields > 0 || group.asks > 0 || d.Status().Weight.Yields {
				t.Errorf("%s: it was to weigh less %d times, and is %v", name, group.yields, group.weighs)
			}
		})
	}
}

// That a group is shared is told, and tried again once a minute.
func TestYieldOfASharedGroup(t *testing.T) {
	group := &own{yielding: &bound.Shared{Group: "/", Why: "it is the topmost one"}}
	manage(t, 1<<30, config.Manage, group.in(0.05), func(t *testing.T, _ *host, d *Daemon) {
		awaits(t, time.Minute, "why", func() bool { w := d.Status().Weight; return w.Unyielding == group.yielding.Error() && !w.Yields })
		before := group.yields
		time.Sleep(10 * aloneEvery)
		if n := group.yields - before; n > 10 || n < 5 {
			t.Errorf("it was tried %d times in ten minutes", n)
		}
		if w := d.Status().Weight; w.Unyielding == "" || slices.Contains(group.weighs, 0.05) {
			t.Errorf("%+v, having weighed %v", w, group.weighs)
		}
		group.change(func() { group.yielding = nil })
		awaits(t, 2*aloneEvery, "less weight", func() bool { return group.now() == 0.05 && d.Status().Weight.Unyielding == "" })
	})
}

// What could not be put back is tried again until it is, and told meanwhile.
func TestResumeThatFails(t *testing.T) {
	group := &own{}
	manage(t, 1<<30, config.Manage, group.in(0.05), func(t *testing.T, _ *host, d *Daemon) {
		awaits(t, time.Minute, "less weight", func() bool { return group.now() == 0.05 })
		group.change(func() { group.resuming = errors.New("too many open files") })
		if err := d.Drain(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		awaits(t, 10*time.Second, "why", func() bool {
			w := d.Status().Weight
			return w.Yields && strings.Contains(w.Unyielding, "too many open files") && group.resumes > 3
		})
		group.change(func() { group.resuming = nil })
		awaits(t, 2*weighedSoon, "its weight", func() bool { return group.now() == 1 && d.Status().Weight.Unyielding == "" })
	})
}

// Where nobody would see that it is kept waiting, or memory cannot be read, it weighs all it can.
func TestYieldWhenBlind(t *testing.T) {
	for name, blind := range map[string]func(*host, *own){
		"its waiting is not told": func(_ *host, o *own) { o.change(func() { o.timing = errors.New("no schedstat") }) },
		"memory cannot be read":   func(h *host, _ *own) { h.mu.Lock(); defer h.mu.Unlock(); h.memoryErr = errors.New("no such file") },
	} {
		group := &own{}
		manage(t, 1<<30, config.Manage, group.in(0.05), func(t *testing.T, h *host, _ *Daemon) {
			awaits(t, time.Minute, "less weight", func() bool { return group.now() == 0.05 })
			blind(h, group)
			awaits(t, 2*latestLook, "its weight, as "+name, func() bool { return group.now() == 1 })
		})
	}
}
