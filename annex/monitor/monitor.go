// Package monitor sees what managed containers do: when they wake and sleep and what CPU
// time that took, on which of their pages they fault and in which order, which processes
// they make, and what state each page of their private anonymous memory is in.
//
// It decides nothing, and changes nothing in any process: no accessed bit is cleared. What
// is reported are [annex.Activity], [annex.Fault] and [annex.Scan]; the moments are those of
// CLOCK_MONOTONIC.
//
// Of containers that come first ([Monitor.Precede]) it sees one thing only: where a task of theirs
// waits for a CPU, so that whoever works beside them can give way ([Monitor.GiveWay]).
//
// Activity and faults are reported by BPF programs (bpf/monitor.c) at sched_switch and at the
// page-fault tracepoints, which are gone with the process that loaded them, however it ends.
// A container is known by its control group, so that whatever it forks and executes is
// followed by itself. A container that sleeps costs nothing: nobody asks after it. A switch of
// other tasks on the host costs what the kernel takes to call a program at all, about a tenth of
// a microsecond where processors guard their returns, and some tens of nanoseconds more
// (BenchmarkSwitch). Where BPF may not be used, the CPU time of the groups is asked for
// instead, once each dormancy, faults are not reported, and accesses are not known: [Monitor.Lacks]
// says so.
//
// Scans come from [tare/probe/pagetable]. The processor sets an entry's accessed bit and
// the kernel clears it when it pleases; it is not cleared here, since /proc/PID/clear_refs,
// the one way to do so from outside, holds the process' mmap lock for writing, for 11 to 45
// ms per GiB, and there is none for a range. So that a page which stays in memory is touched again
// is not seen. Data can live with that: a page that stays needs no prediction, and one that
// left is seen when it faults, which is the truth that predictors are scored by.
//
// Sources: the kernel's include/trace/events/sched.h, arch/x86/include/asm/trace/exceptions.h
// and Documentation/admin-guide/mm/pagemap.rst.
package monitor

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tare/annex"
	"tare/kernel/cgroup"
	"tare/probe"
	"tare/probe/pagetable"
)

//go:generate ../../kernel/bpf/generate.sh bpf/monitor.c -mcpu=v3

// Options say how to watch. The zero value is ready for use.
type Options struct {
	// Dormancy is how long a container does not run until it is said to sleep; 0 is 200 ms.
	Dormancy time.Duration
	// Murmur is the CPU time within one dormancy up to which a container sleeps all the
	// same: servers have timers that tick ten times a second, and would never sleep. (Of the
	// idle ones measured, a Java virtual machine took most, 0.17 % of a CPU, PostgreSQL
	// 0.04 %.) One that only murmurs wakes when it takes more, which shows when it leaves its
	// CPU, or needs a page that has left. 0 is a quarter of a percent of Dormancy, and what is
	// below 0 is none.
	Murmur time.Duration
	// NewPages has faults on pages reported that never were there (Fault.Swapped is false).
	// Otherwise they are only counted.
	NewPages bool
	// Delay is how long faults may wait to be reported together; 0 is 1 ms. That a container
	// woke does not wait.
	Delay time.Duration
	// Ring is the room for what waits to be read, bytes, a power of two; 0 is 4 MiB, some
	// 80,000 faults.
	Ring int
	// Containers is how many can be watched at once; 0 is 4096.
	Containers int
	// Plain forgoes BPF, as on a host that does not allow it.
	Plain bool
}

const (
	defaultDormancy   = 200 * time.Millisecond
	defaultDelay      = time.Millisecond
	defaultRing       = 4 << 20
	defaultContainers = 4096
	// murmurShare of the dormancy is a murmur.
	murmurShare = 400
)

func (o Options) filled() (Options, error) {
	set := func(v *time.Duration, to time.Duration) {
		if *v == 0 {
			*v = to
		}
	}
	set(&o.Dormancy, defaultDormancy)
	set(&o.Murmur, o.Dormancy/murmurShare)
	set(&o.Delay, defaultDelay)
	o.Murmur = max(o.Murmur, 0)
	if o.Ring == 0 {
		o.Ring = defaultRing
	}
	if o.Containers == 0 {
		o.Containers = defaultContainers
	}
	switch {
	case o.Dormancy < 0 || o.Delay < 0:
		return o, fmt.Errorf("monitor: dormancy %v and delay %v: want more than 0", o.Dormancy, o.Delay)
	case o.Ring < 4096 || o.Ring&(o.Ring-1) != 0:
		return o, fmt.Errorf("monitor: a ring of %d bytes: want a power of two from 4096", o.Ring)
	case o.Containers < 0:
		return o, fmt.Errorf("monitor: room for %d containers: want more than 0", o.Containers)
	}
	return o, nil
}

// Monitor watches containers until its Close. Its methods may be called at the same time.
type Monitor struct {
	options Options
	layout  cgroup.Layout
	lacks   []*probe.Missing
	events  chan Batch
	closing chan struct{}
	source  source
	gave    atomic.Int64 // nanoseconds, to containers that come first

	mu      sync.RWMutex
	watched map[annex.ID]*container
	numbers map[uint32]*container
	last    uint32 // number given
	closed  bool
	failed  error

	scans   sync.WaitGroup                  // under way
	another func() (pagetable.Taker, error) // opens one more that reads page tables
	reading sync.Mutex                      // guards what follows
	idle    *reader                         // nil while it is in use
}

// container is one that is watched.
type container struct {
	id     annex.ID
	number uint32 // never given twice
	place  cgroup.Place
	group  uint64 // the kernel's id of it
	first  bool   // others give way to it, and nothing is reported of it
	cost   Cost
}

// source tells activity, and faults where it can. It calls the monitor's ended when it does
// no more, which close awaits.
type source interface {
	watch(c *container) error
	unwatch(c *container) error
	counts() (Counts, error)
	// keepsWaiting tells that a container that comes first waits for the CPU that the caller runs on.
	keepsWaiting() bool
	close() error
}

// Counts are of all containers, since the monitor was opened.
type Counts struct {
	// Lost are events for which there was no room.
	Lost uint64
	// Others are faults on what had not left: new pages, files, copies on write.
	Others uint64
	// Unsettled are new faults that were not reported, since their mapping was being changed.
	Unsettled uint64
}

// The errors that a caller may decide on.
var (
	// ErrWatched says that a container of that id is watched already.
	ErrWatched = errors.New("it is watched already")
	// ErrUnknown says that no container of that id is watched.
	ErrUnknown = errors.New("it is not watched")
	// ErrGone says that a container's control group is no more.
	ErrGone = errors.New("its control group is gone")
	// ErrClosed says that the monitor is closed.
	ErrClosed = errors.New("the monitor is closed")
)

// Open begins to watch; no container yet. Where BPF cannot be used the rest is done
// without, and Lacks says what is absent. The error is a [*probe.Missing] where not even
// page tables can be read.
func Open(o Options) (_ *Monitor, err error) {
	if o, err = o.filled(); err != nil {
		return nil, err
	}
	m := &Monitor{
		options: o, events: make(chan Batch, queue), closing: make(chan struct{}),
		watched: map[annex.ID]*container{}, numbers: map[uint32]*container{},
	}
	if m.layout, err = cgroup.Host(); err != nil {
		return nil, err
	}
	m.another = func() (pagetable.Taker, error) {
		taker, lacks, err := openTaker(o.Plain)
		if err == nil && lacks != nil && len(m.lacks) == 0 { // a lack that is new passes
			return nil, errors.Join(lacks, taker.Close())
		}
		return taker, err
	}
	taker, lacks, err := openTaker(o.Plain)
	if err != nil {
		return nil, err
	}
	if lacks != nil {
		m.lacks = append(m.lacks, lacks)
	}
	m.idle = &reader{taker: taker}
	defer func() {
		if err != nil {
			_ = taker.Close()
		}
	}()
	if !o.Plain {
		m.source, err = newStream(m)
		if err == nil {
			return m, nil
		}
		m.lacks = append(m.lacks, lacking(needs.Probe, err))
	}
	m.source = openPoll(m)
	return m, nil
}

// newStream and newWalk are those of BPF, but in a test.
var (
	newStream = func(m *Monitor) (source, error) { return openStream(m) }
	newWalk   = func() (pagetable.Taker, error) { return pagetable.NewWalk() }
)

// lacking is what keeps BPF from being used, whatever that is: a verifier that refuses a program, or
// memory that it does not get, is no reason to see nothing at all.
func lacking(what string, err error) *probe.Missing {
	missing := new(probe.Missing)
	if errors.As(err, &missing) {
		return missing
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return &probe.Missing{Probe: what, What: text, Mend: "restart when there is memory; where that does not help, report it with the kernel's version (uname -r)"}
}

// openTaker opens what reads page tables. lacks is why it is not BPF programs, where they
// are wanted; nil where they are.
func openTaker(plain bool) (_ pagetable.Taker, lacks *probe.Missing, _ error) {
	if !plain {
		walk, err := newWalk()
		if err == nil {
			return walk, nil, nil
		}
		lacks = lacking("look at page tables by BPF", err)
	}
	files, err := pagetable.NewFiles()
	if err != nil {
		return nil, nil, err
	}
	return files, lacks, nil
}

// Lacks is what this host lacks: less is reported for it. None where everything is.
func (m *Monitor) Lacks() []*probe.Missing { return m.lacks }

// Streams tells whether faults are reported.
func (m *Monitor) Streams() bool { _, is := m.source.(*stream); return is }

// Events gives what happens, in order. It is closed when the monitor is, or when it fails,
// which Err tells. A reader that is slow has events be lost, which is reported.
func (m *Monitor) Events() <-chan Batch { return m.events }

// Err is why nothing is reported any more, where that is not Close's doing.
func (m *Monitor) Err() error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.failed
}

// ended notes that a source tells nothing any more, and why.
func (m *Monitor) ended(err error) {
	m.mu.Lock()
	m.failed = err
	m.mu.Unlock()
	close(m.events)
}

// Counts are how many events there were.
func (m *Monitor) Counts() (Counts, error) { return m.source.counts() }

// Watch begins to watch a container: all processes in a control group and below it, now
// and in time to come. dir is the group's directory in the hierarchy of version 1 with the
// memory controller, or in version 2's. Of nested ones that are watched the inner counts. A
// container that runs is reported as having woken, when it next gets a CPU.
func (m *Monitor) Watch(id annex.ID, dir string) error { return m.add(id, dir, false) }

func (m *Monitor) add(id annex.ID, dir string, first bool) error {
	place, group, err := locate(m.layout, dir)
	if err != nil {
		return fmt.Errorf("watch %s: %w", id, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return fmt.Errorf("watch %s: %w", id, ErrClosed)
	case m.watched[id] != nil:
		return fmt.Errorf("watch %s: %w", id, ErrWatched)
	case len(m.watched) >= m.options.Containers:
		return fmt.Errorf("watch %s: there is room for %d containers", id, m.options.Containers)
	}
	for _, c := range m.watched {
		if c.group == group && c.place.Version == place.Version {
			return fmt.Errorf("watch %s: %s is that of %s: %w", id, dir, c.id, ErrWatched)
		}
	}
	m.last++
	c := &container{id: id, number: m.last, place: place, group: group, first: first}
	// Known before it is watched, since something of it may be reported at once.
	m.watched[id], m.numbers[c.number] = c, c
	if err := m.source.watch(c); err != nil {
		delete(m.watched, id)
		delete(m.numbers, c.number)
		return fmt.Errorf("watch %s: %w", id, err)
	}
	return nil
}

// Unwatch ends the watching of a container. What happened before may still be reported.
func (m *Monitor) Unwatch(id annex.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.watched[id]
	switch {
	case m.closed:
		return fmt.Errorf("unwatch %s: %w", id, ErrClosed)
	case c == nil:
		return fmt.Errorf("unwatch %s: %w", id, ErrUnknown)
	}
	delete(m.watched, id)
	delete(m.numbers, c.number)
	if err := m.source.unwatch(c); err != nil {
		return fmt.Errorf("unwatch %s: %w", id, err)
	}
	return nil
}

// container finds one that is watched by its number.
func (m *Monitor) container(number uint32) *container {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.numbers[number]
}

// Close ends the watching, and closes Events. Scans under way are waited for. It may be
// called again.
func (m *Monitor) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	close(m.closing)
	m.mu.Unlock()
	err := m.source.close()
	m.scans.Wait()
	return errors.Join(err, m.Err(), m.idle.taker.Close())
}
