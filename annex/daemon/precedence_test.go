package daemon

import (
	"slices"
	"sync"
	"testing"
	"time"

	"tare/annex"
	"tare/annex/bound"
	"tare/annex/config"
)

// stretch is some time in which a daemon runs and waits evenly, and so much is free.
type stretch struct {
	lasts       time.Duration
	runs, waits float64 // share of the time; threads' together, so that it may be above 1
	free        int64
}

// weighed plays stretches after what it has seen before, and tells when, from their beginning,
// what it weighs changed.
func weighed(p *precedence, all ...stretch) (changes []time.Duration) {
	const step = precedenceEvery
	now := used{at: annex.Moment(time.Hour)}
	if len(p.looks) > 0 {
		now = p.looks[len(p.looks)-1]
	}
	began := now.at
	for _, s := range all {
		for range int(s.lasts / step) {
			now.at = now.at.After(step)
			now.cpu += time.Duration(s.runs * float64(step))
			now.waited += time.Duration(s.waits * float64(step))
			if p.due(now.at) && p.read(now, s.free, 32*mebibyte) {
				changes = append(changes, now.at.Since(began))
			}
		}
	}
	return changes
}

// With processors to spare it gives way after a second, and keeps that up.
func TestPrecedenceIsGivenUp(t *testing.T) {
	for name, s := range map[string]stretch{
		"at rest":                  {0, 0, 0, 100 * mebibyte},
		"while it works":           {0, 0.4, 0.8, 32 * mebibyte},
		"while it works, and less": {0, 0.4, 0.8, 29 * mebibyte},
	} {
		var p precedence
		s.lasts = time.Minute
		changes := weighed(&p, s)
		if len(changes) != 1 || changes[0] < firstHold || changes[0] > firstHold+4*precedenceEvery || !p.yielded {
			t.Errorf("%s: it changed at %v", name, changes)
		}
	}
}

// Where processors are all taken, or memory is short, it is not.
func TestPrecedenceIsKept(t *testing.T) {
	for name, s := range map[string]stretch{
		"processors are taken": {0, 0.4, 2, 32 * mebibyte},
		"memory is short":      {0, 0.4, 0.4, 20 * mebibyte},
		"both":                 {0, 0.4, 2, 0},
	} {
		var p precedence
		s.lasts = time.Minute
		if changes := weighed(&p, s); len(changes) > 0 || p.yielded {
			t.Errorf("%s: it changed at %v", name, changes)
		}
	}
}

// It is taken back at once where nothing is left that is free, and as soon as it can be told
// where the daemon is kept waiting.
func TestPrecedenceIsTakenBack(t *testing.T) {
	calm := stretch{5 * time.Second, 0.4, 0.8, 32 * mebibyte}
	for name, c := range map[string]struct {
		then   stretch
		within time.Duration
	}{
		"memory is short":         {stretch{firstHold / 2, 0.4, 0.8, 23 * mebibyte}, precedenceEvery},
		"it is kept waiting":      {stretch{firstHold, 0.1, 2.5, 32 * mebibyte}, time.Second},
		"it does not run at all":  {stretch{firstHold, 0, 2.5, 32 * mebibyte}, time.Second},
		"so much, if seldom seen": {stretch{firstHold, 0.01, 0.4, 32 * mebibyte}, time.Second},
	} {
		var p precedence
		changes := weighed(&p, calm, c.then)
		if len(changes) != 2 || changes[1] > calm.lasts+c.within || p.yielded {
			t.Errorf("%s: it changed at %v", name, changes)
		}
	}
	var p precedence
	if changes := weighed(&p, calm, stretch{time.Minute, 0.01, 0.25, 32 * mebibyte}); len(changes) != 1 {
		t.Errorf("for a quarter of the time that it waits: it changed at %v", changes)
	}
}

// Where giving it up never lasts, that is tried more and more seldom.
func TestPrecedenceDoesNotSwing(t *testing.T) {
	var p precedence
	changes := 0
	for range int(10 * time.Minute / precedenceEvery) {
		s := stretch{precedenceEvery, 0.4, 0.8, 32 * mebibyte}
		if p.yielded { // what it sees depends on what it weighs
			s.runs, s.waits = 0.05, 2.5
		}
		changes += len(weighed(&p, s))
	}
	if most := 2 * (5 + 600/30 + 1); changes > most || changes < 4 {
		t.Errorf("it changed %d times, want some, and no more than %d", changes, most)
	}
	// When it lasts again, it is given up for good.
	if weighed(&p, stretch{2 * longestHold, 0.4, 0.8, 32 * mebibyte}); !p.yielded {
		t.Error("it is not given up again")
	}
}

// own is a control group that a daemon runs in.
type own struct {
	began  time.Time
	mu     sync.Mutex
	weighs []float64 // each that was set; 1 is all
	waits  float64
	err    error
}

func (o *own) set(share float64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if share < 1 && o.err != nil {
		return o.err
	}
	o.weighs = append(o.weighs, share)
	return nil
}

func (o *own) Yield(share float64) error { return o.set(share) }
func (o *own) Resume() error             { return o.set(1) }
func (o *own) Time() (ran, waited time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	since := time.Since(o.began)
	return since / 10, time.Duration(o.waits * float64(since)), nil
}

func (o *own) now() float64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.weighs) == 0 {
		return 1
	}
	return o.weighs[len(o.weighs)-1]
}

// A daemon that manages gives way while it can, and weighs what it did once it manages no more.
func TestYield(t *testing.T) {
	group := &own{}
	manage(t, 1<<30, config.Manage, func(h *host) {
		crowded(h)
		group.began, h.own, h.yield = time.Now(), group, 0.05
	}, func(t *testing.T, _ *host, d *Daemon) {
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
}

// Nothing is changed where nothing is to be, and that a group is shared is told and tried again.
func TestYieldIsLeftAlone(t *testing.T) {
	group := &own{}
	manage(t, 1<<30, config.Observe, func(h *host) { crowded(h); group.began, h.own, h.yield = time.Now(), group, 0.05 }, func(t *testing.T, _ *host, d *Daemon) {
		time.Sleep(time.Minute)
		if len(group.weighs) > 0 || d.Status().Weight.Yields {
			t.Errorf("observing, it weighed %v", group.weighs)
		}
	})
	manage(t, 1<<30, config.Manage, func(h *host) { crowded(h); group.began, h.own, h.yield = time.Now(), group, 1 }, func(t *testing.T, _ *host, d *Daemon) {
		time.Sleep(time.Minute)
		if slices.Contains(group.weighs, 0.05) || d.Status().Weight.Yields {
			t.Errorf("told to leave it alone, it weighed %v", group.weighs)
		}
	})
	group.err = &bound.Shared{Group: "/", Why: "it is everybody's"}
	manage(t, 1<<30, config.Manage, func(h *host) { crowded(h); group.began, h.own, h.yield = time.Now(), group, 0.05 }, func(t *testing.T, _ *host, d *Daemon) {
		awaits(t, time.Minute, "why", func() bool { w := d.Status().Weight; return w.Unyielding == group.err.Error() && !w.Yields })
		group.mu.Lock()
		group.err = nil
		group.mu.Unlock()
		awaits(t, 2*aloneEvery, "less weight", func() bool { return group.now() == 0.05 && d.Status().Weight.Unyielding == "" })
	})
}
