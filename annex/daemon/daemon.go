// Package daemon keeps the memory extension running on a host: it finds the containers and
// their classes, hands what the monitor sees to data management, has media do what that
// asks for, and ends all of it in order.
//
// It decides nothing about pages (data does), moves none (media does), and writes to no
// knob of the kernel (bound does, through its guard). What it answers for is that the
// parts meet: that every request gets a result, that memory is looked at often enough and
// no more often, that pressure on critical containers ends eviction within [StopWithin] of
// being known, and that whatever was changed is put back.
//
// One goroutine, that of [Daemon.Run], owns data management and all that is told of
// containers; the others move, look and wait, and give it what they find. It may be killed
// between any two instructions: pages are then where the kernel has them, and the guard puts
// the knobs back. The next start adopts what it finds, since a scan tells which pages left.
//
// The program's own memory is not locked (mlock): locked, its runtime's reserves would be
// too, and a page of it that has left costs a decision some tenths of a millisecond, never a
// managed program anything.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tare/annex"
	"tare/annex/config"
	"tare/annex/control"
	"tare/annex/data"
	"tare/annex/monitor"
	"tare/container"
)

// StopWithin is the time, unless the settings say another, from critical pressure above its
// limit being reported by the kernel to the last eviction's end: two rounds of looking, in the
// second of which the chunk under way ends.
const StopWithin = 100 * time.Millisecond

// Settings are what a configuration says. They may be replaced while the daemon runs.
type Settings struct {
	Mode config.Mode
	// Classes tells the class of what was found.
	Classes Classifier
	Policy  data.Policy
	Scan    monitor.Pace
	// CriticalLimit is the share of time that critical containers may wait for memory.
	CriticalLimit float64
	// StopWithin is the time within which pressure above that has stopped all eviction; 0 is
	// the constant of that name.
	StopWithin time.Duration
	// Protect tells whether critical containers' memory is kept from the kernel's own reclaim.
	Protect bool
	// File is where all this was read, and Loaded when; Defended is what is defended.
	File, Defended string
	Loaded         time.Time
	// Warnings are what is most likely not meant of it, and Doubts what is not with these
	// containers running; nil is nothing.
	Warnings []string
	Doubts   func([]container.Container) []string
}

func (s Settings) complete() Settings {
	or(&s.Mode, config.Observe)
	or(&s.Policy.Low, 64<<20)
	or(&s.CriticalLimit, 0.01)
	or(&s.StopWithin, StopWithin)
	s.Policy.CriticalLimit = s.CriticalLimit
	return s
}

func or[T comparable](p *T, otherwise T) {
	var zero T
	if *p == zero {
		*p = otherwise
	}
}

// Daemon is one host's. It is made by [New], runs in [Daemon.Run], and answers from any
// goroutine meanwhile.
type Daemon struct {
	parts    Parts
	commands chan func()
	ended    chan struct{}

	reloading sync.Mutex // held from reading a configuration until it is in force

	// What follows belongs to the goroutine of Run.

	settings Settings
	state    control.State
	held     map[annex.ID]*held
	looked   bool                 // at the containers, at least once
	notes    []string             // what the last look could not tell
	doubts   []string             // what is most likely not meant, with what it found
	doubted  annex.Moment         // when that was looked for; 0 is that it is to be
	refused  string               // why the last reload changed nothing, if it did not
	classes  map[annex.Class]bool // critical and elastic, where one of it ran, when that was looked for
	schedule *monitor.Schedule
	memory   annex.Memory
	pace     pace
	stalls   stalls
	shadow   *shadow
	movers   *movers
	moved    map[annex.ID]*tally
	all      tally
	lost     uint64
	drain    drain
	blind    bool // free memory cannot be read
	// swapTrouble says which swap areas fail. While swapFails, annexd evicts nothing.
	swapTrouble string
	swapFails   bool
	last        map[annex.ID]*Decision
	asked       map[uint64]annex.Reason // of requests that have no result yet
	braked      braked
	weight      weight
	weighAt     annex.Moment
	logErr      error
	started     time.Time
	entered     time.Time // when the state began
	modes       []turned  // the modes before this one, the oldest first

	planAt, memoryAt, pressureAt, calmAt, soonest annex.Moment
	failed                                        map[string]annex.Moment

	setter  *setter
	sets    chan changed
	running context.Context // that of Run, when it began

	scanning bool
	// behind are containers of which a scan takes long, and whether it was left behind: others go on.
	behind map[annex.ID]bool
	scans  chan scanned
	back   chan annex.ID // tells of one of those that has come back
	found  chan found

	isDoubting bool          // that is under way
	doubtful   chan []string // what it found

	looks chan struct{} // asks for a look at the containers
	anew  atomic.Bool   // the next one inspects all, though that was just now

	// stop is set while critical pressure is above its limit: media read it between two
	// chunks.
	stop atomic.Bool
}

// New makes a daemon of its parts. It does nothing yet.
func New(p Parts, s Settings) *Daemon {
	d := &Daemon{
		parts: p, settings: s.complete(), state: control.Starting,
		commands: make(chan func()), ended: make(chan struct{}),
		held: map[annex.ID]*held{}, shadow: newShadow(),
		setter: newSetter(), sets: make(chan changed),
		behind: map[annex.ID]bool{}, scans: make(chan scanned), back: make(chan annex.ID),
		found: make(chan found), doubtful: make(chan []string), looks: make(chan struct{}, 1),
		failed: map[string]annex.Moment{}, last: map[annex.ID]*Decision{},
		moved: map[annex.ID]*tally{}, asked: map[uint64]annex.Reason{}, started: time.Now(), entered: time.Now(),
	}
	d.schedule = monitor.NewSchedule(d.settings.Scan)
	d.movers = newMovers(d)
	return d
}

// Stopping tells whether evictions are to end: what a mover asks between two chunks. It may
// be asked from any goroutine.
func (d *Daemon) Stopping() bool {
	return d.stop.Load() || d.parts.Alarm != nil && d.parts.Alarm.Over()
}

// ErrEnded says that the daemon runs no more.
var ErrEnded = errors.New("the daemon has ended")

// Late takes note that the kernel does not come back from a call of a request, which has lost its
// turn: what media tell. It may be called from any goroutine.
func (d *Daemon) Late(r annex.Request) { d.movers.isLate(r) }

// Run runs until ctx ends, and puts back what was changed. What is in swap stays there:
// programs fetch it by touching it. The error says what could not be put back, or why it
// could not go on.
func (d *Daemon) Run(ctx context.Context) error {
	defer close(d.ended)
	run, cancel := context.WithCancel(ctx)
	defer cancel()
	d.log(Decision{What: "start", Why: string(d.settings.Mode)})
	d.running = run
	setting := d.setter.run(run)
	finder := d.discover(run)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var broken error
	var alarms <-chan struct{} // nil never gives anything
	if d.parts.Alarm != nil {
		alarms = d.parts.Alarm.Alarms()
	}
	for run.Err() == nil && broken == nil {
		select {
		case <-run.Done():
			continue
		case f := <-d.found:
			d.adopt(f)
		case doubts := <-d.doubtful:
			d.isDoubted(doubts)
		case b, open := <-d.parts.Monitor.Events():
			if !open {
				broken = errors.New("the monitor has ended, and sees nothing any more")
				continue
			}
			d.take(b)
		case _, open := <-alarms:
			if !open {
				alarms = nil // nobody tells any more: looking has to do
			}
			d.pressure(d.now())
		case r := <-d.movers.results:
			d.done(r)
		case r := <-d.movers.late:
			d.isLate(r)
		case s := <-d.scans:
			d.scanned(s)
		case id := <-d.back:
			d.cameBack(id)
		case s := <-d.sets:
			d.isSet(s)
		case do := <-d.commands:
			do()
		case <-timer.C:
		}
		timer.Reset(d.step(run))
	}
	cancel()
	<-setting
	return d.end(finder, broken)
}

// end waits for what is under way and has every knob put back.
func (d *Daemon) end(finder <-chan struct{}, why error) error {
	d.enter(control.Ending)
	d.stop.Store(true)
	d.movers.quit()
	// Whatever is waited for after that, nothing is left changed meanwhile.
	if err := d.parts.Bound.Release(); err != nil {
		d.fail("putting back what was set", err)
	}
	d.movers.end()
	<-finder
	for d.scanning {
		d.under(<-d.scans)
	}
	for _, h := range d.held {
		if h.watched || h.first {
			why = errors.Join(why, d.parts.Monitor.Unwatch(h.id))
		}
	}
	if err := d.parts.Bound.Release(); err != nil {
		why = errors.Join(why, fmt.Errorf("put back what was set: %w", err))
	}
	d.log(Decision{What: "end", Why: reason(why)})
	return why
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (d *Daemon) now() annex.Moment { return d.parts.Now() }

// do has the goroutine of Run do something, and waits for it.
func (d *Daemon) do(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case d.commands <- func() { f(); close(done) }:
		<-done // Run is at it
		return nil
	case <-d.ended:
		return ErrEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Answers returns when the goroutine of Run has taken notice: one that hangs does not.
func (d *Daemon) Answers(ctx context.Context) error { return d.do(ctx, func() {}) }

// ids are those of all containers, in their order.
func (d *Daemon) ids() []annex.ID { return slices.Sorted(maps.Keys(d.held)) }
