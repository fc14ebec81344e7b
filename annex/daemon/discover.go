package daemon

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"tare/annex"
	"tare/annex/config"
	"tare/annex/control"
	"tare/annex/data"
	"tare/container"
)

// lookEvery is how often containers are looked for without being told that any came or
// went. lookAgain is the least time between two looks, in which several that come together
// are found by one; it doubles up to lookSeldom with each look that was called for and found
// nothing new, as where others than containers come and go. After a look that was called for,
// or found something new, others follow of themselves, lookAfter later and each time three
// times as much, since a group is made before its engine tells of the container, by name.
const (
	lookEvery  = 10 * time.Second
	lookAgain  = 200 * time.Millisecond
	lookSeldom = 3 * time.Second
	lookAfter  = 300 * time.Millisecond
)

// Classifier tells the class of a container.
type Classifier func(c container.Container) annex.Class

// held is a container that is managed, or protected, or at least known.
type held struct {
	container container.Container
	id        annex.ID
	class     annex.Class
	fixed     string
	crowded   string // the limit of swap of which half or more is used
	watched   bool   // by the monitor
	first     bool   // the daemon gives way to it
	protected bool   // or to be
	setting   bool   // that is under way

	inspected annex.Moment // when what it may have was looked at last

	scanned bool   // since it is held
	unknown string // why its pressure is not known
	trouble string // what could not be done for it last, and
	doing   string // which that was

	unwatched string // why the kernel does not tell of its pressure

	what  doing
	aside aside
	// isUnread tells that pages of it cannot be read from swap, since the last drain began at the latest.
	isUnread bool
}

// found is one look at the containers.
type found struct {
	all   []container.Container
	notes []string
	err   error
}

// names are those of what was found, as far as it matters whether it is the same.
func (f found) names() (all []string) {
	for _, c := range f.all {
		all = append(all, c.Cgroup+" "+c.Name+" "+strconv.Itoa(c.PID))
	}
	return all
}

// discover looks for containers in a goroutine of its own, since engines may take seconds
// to answer. The channel closes when it has ended.
func (d *Daemon) discover(ctx context.Context) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTimer(0)
		defer tick.Stop()
		changes := d.parts.Changes
		var last []string
		pause, after := lookAgain, lookEvery
		for {
			called := true
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				called = false
			case <-d.looks:
			case _, open := <-changes:
				if !open {
					changes = nil
					continue
				}
			}
			var f found
			f.all, f.notes, f.err = d.parts.Finder.Find(ctx)
			select {
			case d.found <- f:
			case <-ctx.Done():
				return
			}
			names := f.names()
			switch {
			case !slices.Equal(names, last):
				pause, after = lookAgain, lookAfter
			case called:
				pause, after = min(2*pause, lookSeldom), lookAfter
			default:
				after = min(3*after, lookEvery)
			}
			last = names
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
			tick.Reset(after)
		}
	}()
	return ended
}

// look asks for a look at the containers soon, that inspects each of them.
func (d *Daemon) look() {
	d.anew.Store(true)
	d.seek()
}

// seek asks for one that finds which there are.
func (d *Daemon) seek() {
	select {
	case d.looks <- struct{}{}:
	default: // one is asked for already
	}
}

// identify names a container for as long as it runs: an engine gives the same id to one
// that it starts again, and its control group is then another directory.
func identify(c container.Container) (annex.ID, error) {
	if c.Cgroup == "" {
		return "", fmt.Errorf("%s has no control group of its own", c.Name)
	}
	info, err := os.Stat(c.Cgroup)
	if err != nil {
		return "", err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("%s has no number", c.Cgroup)
	}
	return annex.ID(fmt.Sprintf("%s:%s@%d", c.Engine, c.ID, stat.Ino)), nil
}

// doubt looks at the configuration by the containers that run. That looks at each of them: while
// they come and go one after another it is done as often as while none does, but at once when the first
// critical or elastic one is there since it was done, for which a rule is doubted most often, and when
// the last critical one is gone. It may list all control groups of the host, for which the goroutine of
// Run has no time.
func (d *Daemon) doubt(all []container.Container, classes map[annex.Class]bool) {
	for class := range classes {
		if !d.classes[class] {
			d.doubted = 0
		}
	}
	if d.classes[annex.Critical] && !classes[annex.Critical] {
		d.doubted = 0
	}
	look := d.settings.Doubts
	if look == nil || d.isDoubting || d.doubted != 0 && d.now() < d.doubted.After(lookEvery) {
		return
	}
	d.isDoubting, d.doubted, d.classes = true, d.now(), classes
	go func() {
		doubts := look(all)
		select {
		case d.doubtful <- doubts:
		case <-d.ended:
		}
	}()
}

// isDoubted takes note of what that found, and has it looked for again where that was asked for meanwhile.
func (d *Daemon) isDoubted(doubts []string) {
	d.isDoubting, d.doubts = false, doubts
	if d.doubted == 0 {
		d.seek()
	}
}

// adopt compares what was found with what is known.
func (d *Daemon) adopt(f found) {
	if f.err != nil {
		// Nothing is concluded from not knowing: what was there stays.
		d.fail("finding containers", f.err)
		return
	}
	d.notes, d.looked = f.notes, true
	anew := d.anew.Swap(false)
	there, classes := map[annex.ID]container.Container{}, map[annex.Class]bool{}
	for _, c := range f.all {
		class := d.settings.Classes(c)
		if class == annex.Ignored {
			continue
		}
		classes[class] = true
		id, err := d.parts.identify(c)
		if err != nil {
			continue // it has ended meanwhile
		}
		there[id] = c
	}
	if anew {
		d.doubted = 0
	}
	d.doubt(f.all, classes)
	// First those that are gone: an engine gives the same id to one that it starts again, and
	// what is put back of the old one must not be the new one's.
	for _, id := range d.ids() {
		if _, is := there[id]; !is {
			d.drop(d.held[id], "ended, or is managed no more")
		}
	}
	for _, id := range slices.Sorted(maps.Keys(there)) {
		class := d.settings.Classes(there[id])
		if h := d.held[id]; h != nil && !anew && d.now() < h.inspected.After(lookEvery) && h.is(there[id], class) {
			continue // it is others that came or went
		}
		d.hold(id, there[id], class)
	}
	d.planAt, d.memoryAt, d.pressureAt = 0, 0, 0
}

func (p Parts) identify(c container.Container) (annex.ID, error) {
	if p.Identify != nil {
		return p.Identify(c)
	}
	return identify(c)
}

// hold begins with a container, or takes note of what has changed of it.
func (d *Daemon) hold(id annex.ID, c container.Container, class annex.Class) {
	h := d.held[id]
	if h == nil {
		h = &held{id: id}
		d.held[id] = h
	}
	h.inspected = d.now()
	was, could := h.class, h.class == annex.Elastic && h.fixed == ""
	h.container, h.class = c, class
	if was != class {
		h.trouble, h.doing = "", "" // what was tried for the one class is nothing to the other
	}
	var most, room int64
	var limited bool
	if class == annex.Elastic {
		most, h.fixed = d.parts.Bound.Inspect(c)
		room, limited = d.parts.Bound.Room(c)
		h.crowded, _ = d.parts.Bound.Crowded(c) // what cannot be read is told by what fixes it
	} else {
		h.fixed, h.crowded = "", ""
	}
	if could && (class != annex.Elastic || h.fixed != "") {
		d.movers.leave(id)
	}
	d.protect(h)
	if was == annex.Critical && class != annex.Critical {
		d.uncritical(h)
	}
	d.watchPressure(h)
	if h.watched && class != annex.Elastic || h.first && class != annex.Critical {
		d.unwatch(h)
	}
	if class == annex.Critical && !h.first {
		err := d.parts.Monitor.Precede(id, c.Cgroup)
		h.first = err == nil
		d.trouble(h, "giving way to "+c.Name, err)
	}
	if class == annex.Elastic && !h.watched {
		err := d.parts.Monitor.Watch(id, c.Cgroup)
		if h.watched = err == nil; h.watched {
			d.schedule.Add(id, d.now())
		}
		if err != nil && h.fixed == "" {
			h.fixed = "it cannot be watched: " + err.Error()
		}
	}
	d.parts.Data.Add(
		data.ContextInfo{
			ID:       id,
			Name:     c.Name,
			Class:    class,
			At:       d.now(),
			SwapMost: most,
			Room:     room,
			Limited:  limited,
			Fixed:    h.fixed,
		},
	)
	d.unmapped(id)
	if was != class {
		d.log(Decision{What: "hold", Container: c.Name, Why: string(class), Error: h.fixed})
	}
}

// is tells whether a look found of an extended container what is known of it.
func (h *held) is(c container.Container, class annex.Class) bool {
	return class == annex.Elastic && h.class == class && h.watched && h.fixed == "" && h.container.Cgroup == c.Cgroup &&
		h.container.Name == c.Name &&
		h.container.PID == c.PID
}

// unmapped tells how much of an elastic container is in memory and mapped by nobody. Where that is
// not known there is nothing to be had.
func (d *Daemon) unmapped(id annex.ID) {
	h := d.held[id]
	if h == nil || h.class != annex.Elastic || d.settings.Mode != config.Manage {
		return
	}
	bytes, err := d.parts.Bound.Unmapped(h.container)
	if err != nil {
		bytes = 0
	}
	d.parts.Data.Unmapped(id, bytes)
}

// drop ends with a container.
func (d *Daemon) drop(h *held, why string) {
	delete(d.held, h.id)
	delete(d.last, h.id)
	d.movers.leave(h.id)
	delete(d.moved, h.id)
	if h.watched || h.first {
		d.unwatch(h)
	}
	d.parts.Data.Remove(h.id)
	d.shadow.remove(h.id)
	if h.class == annex.Critical {
		d.uncritical(h)
	}
	d.log(Decision{What: "drop", Container: h.container.Name, Why: why})
}

// uncritical takes back what was done for a critical container, which is none any more or
// is gone.
func (d *Daemon) uncritical(h *held) {
	d.stalls.forget(h.id)
	if d.parts.Alarm != nil {
		d.parts.Alarm.Remove(h.container)
	}
	h.unwatched = ""
	d.unprotect(h)
}

// unwatch has the monitor look at a container no more.
func (d *Daemon) unwatch(h *held) {
	h.watched, h.scanned, h.first = false, false, false
	d.schedule.Remove(h.id)
	if err := d.parts.Monitor.Unwatch(h.id); err != nil {
		d.trouble(h, "watching "+h.container.Name+" no more", err)
	}
}

// moves tells whether anything may be changed on the host: not from when it is to be off.
func (d *Daemon) moves() bool {
	return d.settings.Mode == config.Manage && d.state != control.Off && d.state != control.Ending && !d.drain.off
}

// begin ends the start: from here on what is planned is done.
func (d *Daemon) begin() {
	if d.settings.Mode == config.Observe {
		d.enter(control.Observing)
	} else {
		d.enter(control.Managing)
	}
}

func (d *Daemon) enter(s control.State) {
	if d.state == s {
		return
	}
	d.log(Decision{What: "state", Why: string(s)})
	d.state, d.entered = s, time.Now()
}

// trouble notes what could not be done for a container; nil, that it could, which ends what
// was noted of it.
func (d *Daemon) trouble(h *held, doing string, err error) {
	if err == nil {
		if h.doing == doing {
			h.trouble, h.doing = "", ""
		}
		return
	}
	h.trouble, h.doing = doing+": "+err.Error(), doing
	d.fail(doing, err)
}

// fail logs an error, once a minute for the same doing.
func (d *Daemon) fail(doing string, err error) {
	now := d.now()
	if at, isLogged := d.failed[doing]; isLogged && now.Since(at) < time.Minute {
		return
	}
	if len(d.failed) > 1000 {
		clear(d.failed)
	}
	d.failed[doing] = now
	d.log(Decision{What: "error", Why: doing, Error: err.Error()})
}
