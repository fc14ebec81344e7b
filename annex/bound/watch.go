package bound

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"tare/annex"
	"tare/container"
	"tare/kernel/pressure"
)

// ReportWithin is the time within which [Watch.Over] tells, while eviction is under way,
// that critical containers have waited for memory for as long as the limit: it looks as
// often. Whoever evicts looks at that between two steps of some milliseconds.
//
// The kernel's own word would come no sooner: it looks every tenth of a window that
// without CAP_SYS_RESOURCE is 2 s at least, and then adds up at most once in those.
const ReportWithin = 50 * time.Millisecond

// unprivileged is what windows of the kernel's triggers are multiples of, without
// CAP_SYS_RESOURCE.
const unprivileged = 2 * time.Second

// Watch tells when tasks of critical containers wait for memory for longer than a limit.
// While nothing is evicted the kernel tells; while something is, the figures are looked
// at too, which is what [ReportWithin] holds for.
type Watch struct {
	bound *Bound
	ctx   context.Context // of the watch itself, which ends with it
	limit pressure.Threshold
	now   func() annex.Moment
	ticks func() (ticks <-chan time.Time, stop func())

	over   atomic.Int64 // until when the limit counts as exceeded
	since  atomic.Int64 // from when
	alarms chan struct{}

	mu       sync.Mutex
	watched  map[string]*watched // by key
	evicting int
	begun    chan struct{} // has a value when eviction begins
	ended    bool
}

// watched is a critical container that is.
type watched struct {
	read  func() (annex.Pressure, error)
	meter meter
	end   context.CancelFunc
}

// Watch begins, with no container; it ends with ctx. The limit is of stalls of some tasks
// (or, Full, all of a container) within a window.
func (b *Bound) Watch(ctx context.Context, limit pressure.Threshold) *Watch {
	w := newWatch(limit, b.now, func() (<-chan time.Time, func()) {
		t := time.NewTicker(ReportWithin)
		return t.C, t.Stop
	})
	w.bound, w.ctx = b, ctx
	go w.run()
	return w
}

func newWatch(limit pressure.Threshold, now func() annex.Moment, ticks func() (<-chan time.Time, func())) *Watch {
	return &Watch{
		ctx: context.Background(), limit: limit, now: now, ticks: ticks,
		alarms: make(chan struct{}, 1), watched: map[string]*watched{}, begun: make(chan struct{}, 1),
	}
}

// Over tells that the limit is exceeded, or was less than a window ago. It is one load,
// for whoever evicts to ask between two steps.
func (w *Watch) Over() bool { return int64(w.now()) < w.over.Load() }

// Since is from when the limit has been exceeded, or was last.
func (w *Watch) Since() annex.Moment { return annex.Moment(w.since.Load()) }

// Alarms has a value when the limit comes to be exceeded.
func (w *Watch) Alarms() <-chan struct{} { return w.alarms }

// Evicting says that eviction is under way, until what it returns is called.
func (w *Watch) Evicting() (ended func()) {
	w.mu.Lock()
	w.evicting++
	first := w.evicting == 1
	w.mu.Unlock()
	if first {
		select {
		case w.begun <- struct{}{}:
		default:
		}
	}
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.evicting--
	})
}

// Add watches a critical container too, until [Watch.Remove] or the kernel tells no more. One
// that is watched already stays. The errors are those of [Bound.Pressure]: what the kernel does
// not tell stops nothing.
func (w *Watch) Add(c container.Container) error {
	source, err := w.bound.source(c)
	if err != nil {
		return err
	}
	if _, err := w.bound.Pressure(c); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watched[key(c)] != nil || w.ended {
		return nil
	}
	ctx, end := context.WithCancel(w.ctx)
	events, err := trigger(ctx, source, w.limit)
	if err != nil {
		end()
		return err
	}
	one := &watched{
		read: func() (annex.Pressure, error) {
			s, err := source.Read()
			return annex.Pressure{At: w.now(), Some: s.Some.Total, Full: s.Full.Total}, err
		},
		meter: meter{limit: w.limit},
		end:   end,
	}
	w.watched[key(c)] = one
	go w.hear(key(c), one, events)
	return nil
}

// hear takes what the kernel tells of one. Where it will tell no more, that one is watched no
// more either, so that [Watch.Add] tries again, and says why not.
func (w *Watch) hear(key string, one *watched, events <-chan pressure.Event) {
	for e := range events {
		if e.Err == nil {
			w.exceeded()
			continue
		}
		w.mu.Lock()
		if w.watched[key] == one { // or another is by now
			w.remove(key)
		}
		w.mu.Unlock()
	}
}

// trigger has the kernel tell, within the window or, where it takes no such one of us,
// the next longer one that it does.
func trigger(ctx context.Context, s pressure.Source, limit pressure.Threshold) (<-chan pressure.Event, error) {
	events, err := s.Trigger(ctx, limit)
	if err == nil {
		return events, nil
	}
	longer := limit
	longer.Window = (limit.Window + unprivileged - 1) / unprivileged * unprivileged
	if longer == limit {
		return nil, err
	}
	if events, again := s.Trigger(ctx, longer); again == nil {
		return events, nil
	}
	return nil, err
}

// Remove watches a container no more.
func (w *Watch) Remove(c container.Container) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(key(c))
}

func (w *Watch) remove(key string) {
	if one := w.watched[key]; one != nil {
		one.end()
		delete(w.watched, key)
	}
}

// exceeded has the limit count as exceeded for a window from now.
func (w *Watch) exceeded() {
	already := w.Over()
	if !already {
		w.since.Store(int64(w.now()))
	}
	w.over.Store(int64(w.now().After(w.limit.Window)))
	if already {
		return
	}
	select {
	case w.alarms <- struct{}{}:
	default: // one is there that nobody has taken
	}
}

// run looks while something is evicted.
func (w *Watch) run() {
	defer w.end()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.begun:
		}
		w.follow()
	}
}

// follow looks until nothing is evicted any more.
func (w *Watch) follow() {
	ticks, stop := w.ticks()
	defer stop()
	for w.look() {
		select {
		case <-w.ctx.Done():
			return
		case <-ticks:
		}
	}
}

// look reads what there is, and tells whether something is still being evicted.
func (w *Watch) look() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	over := false
	for key, one := range w.watched {
		p, err := one.read()
		if gone := new(pressure.NoGroup); errors.As(err, &gone) {
			w.remove(key)
			continue
		}
		// What cannot be read now is looked at again.
		over = err == nil && one.meter.exceeds(p) || over
	}
	if over {
		w.exceeded()
	}
	return w.evicting > 0
}

func (w *Watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for key := range w.watched {
		w.remove(key)
	}
}

// meter tells by readings whether a stall within any window reached a limit.
type meter struct {
	limit    pressure.Threshold
	readings []annex.Pressure // within the last window, ascending
}

func (m *meter) exceeds(p annex.Pressure) bool {
	for len(m.readings) > 0 && p.At.Since(m.readings[0].At) > m.limit.Window {
		m.readings = m.readings[1:]
	}
	m.readings = append(m.readings, p)
	first := m.readings[0]
	if m.limit.Full {
		return p.Full-first.Full >= m.limit.Stall
	}
	return p.Some-first.Some >= m.limit.Stall
}
