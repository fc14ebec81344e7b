package sched

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"tare/probe"
)

// Marks are the moments by which a start is divided. 0 is a moment that was not
// seen, or that this platform does not have.
type Marks struct {
	// The caller's: the request went out, the platform answered, the program
	// served.
	Sent, Answered, Ready time.Duration

	// Shim: the container's shim was executed, for the first time.
	Shim time.Duration
	// Runtime: the runtime was executed for the container, for the first time.
	Runtime time.Duration
	// Init: the process that became the application was forked.
	Init time.Duration
	// Release: the runtime was executed for the last time before the
	// application, and after Init: "runc start", which lets the waiting init go.
	// "runc run" has none.
	Release time.Duration
	// Application: the program was executed; its first instruction comes next.
	Application time.Duration

	PID int // of the application
}

var errStopped = errors.New("the tracer was stopped before the program was executed")

// Following watches for the processes of one start.
type Following struct {
	follower *follower
	id       string
	pid      int
	since    time.Duration
	args     []string

	done  chan struct{} // closed when the application was seen, or will not be
	marks Marks
	err   error
}

// Application waits for the program's first instruction.
func (f *Following) Application(ctx context.Context) (Marks, error) {
	select {
	case <-f.done:
		return f.Marks(), f.err
	default:
	}
	select {
	case <-f.done:
		return f.Marks(), f.err
	case <-ctx.Done():
		return f.Marks(), context.Cause(ctx)
	}
}

// Done is closed when the program's first instruction is known, or the tracer
// has stopped.
func (f *Following) Done() <-chan struct{} { return f.done }

// Marks are the moments seen so far.
func (f *Following) Marks() Marks {
	f.follower.mu.Lock()
	defer f.follower.mu.Unlock()
	return f.marks
}

// Close ends the watching. What was seen remains.
func (f *Following) Close() {
	f.follower.mu.Lock()
	defer f.follower.mu.Unlock()
	f.follower.drop(f)
}

// follower finds from forks and execs which start a process belongs to.
//
// A process belongs to a start when its own arguments name the container, or
// when the one that forked it did: the child of a runtime keeps belonging when
// it is given to another parent, executes its own copy from memory, or clones
// itself on without executing anything, as crun's init does.
type follower struct {
	processes *Processes

	mu    sync.Mutex
	byID  map[string]*Following
	byPID map[int]*Following
	// of says which start a living process belongs to.
	of      map[int]*member
	stopped bool
}

type member struct {
	start *Following
	born  time.Duration
	// below: it was forked by a process that names the container.
	below bool
}

func newFollower(p *Processes) *follower {
	return &follower{processes: p, byID: map[string]*Following{}, byPID: map[int]*Following{}, of: map[int]*member{}}
}

// follow watches for the container that processes name by id.
func (f *follower) follow(id string, args []string) *Following {
	s := &Following{follower: f, id: id, args: args, done: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		s.end(errStopped)
		return s
	}
	f.byID[id] = s
	return s
}

// followPID watches for the program in a process that is there already, and
// that may have executed it since the moment given.
func (f *follower) followPID(pid int, since time.Duration, args []string) *Following {
	s := &Following{follower: f, pid: pid, since: since, args: args, done: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		s.end(errStopped)
		return s
	}
	f.byPID[pid] = s
	e, born, executed := f.processes.since(pid, since, args)
	f.of[pid] = &member{start: s, born: born, below: true}
	if executed {
		f.application(s, e)
	}
	return s
}

// observe takes in an event, after the table of processes has.
func (f *follower) observe(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch e.Kind {
	case Fork:
		if e.Other.PID != e.Other.TID {
			return
		}
		// An id that is used again belongs to nobody, but for what a caller asked
		// for by the id before we heard of the fork.
		if m := f.of[e.Other.PID]; m != nil && m.start.pid == e.Other.PID && e.Time >= m.start.since {
			m.born = e.Time
			return
		}
		delete(f.of, e.Other.PID)
		if m := f.of[e.Thread.PID]; m != nil {
			f.of[e.Other.PID] = &member{start: m.start, born: e.Time, below: true}
		}
	case Exec:
		f.executed(e)
	case Exit:
		if e.LastThread {
			delete(f.of, e.Thread.PID)
		}
	}
}

func (f *follower) executed(e Event) {
	pid := e.Thread.PID
	m := f.of[pid]
	named := f.named(e)
	if named != nil && (m == nil || m.start != named) {
		m = &member{start: named}
		f.of[pid] = m
	}
	if m == nil || m.start.over() {
		return
	}
	if e.Time >= m.start.since && m.below && runs(e, m.start.args) {
		f.application(m.start, e)
		return
	}
	if named != m.start {
		return
	}
	process, _ := f.processes.At(pid, e.Time)
	marks := &m.start.marks
	switch probe.ComponentOf(process, 0) {
	case probe.Shim:
		if marks.Shim == 0 {
			marks.Shim = e.Time
		}
	case probe.Runtime:
		if marks.Runtime == 0 {
			marks.Runtime = e.Time
		}
		marks.Release = e.Time
	}
}

// named gives the start whose container the arguments name.
func (f *follower) named(e Event) *Following {
	for _, arg := range e.Args {
		if s := f.byID[arg]; s != nil {
			return s
		}
	}
	if !e.ArgsCut {
		return nil
	}
	// The id stands last, and may be what was cut; it is also part of the paths
	// before it.
	for _, arg := range e.Args {
		for part := range strings.SplitSeq(arg, "/") {
			if s := f.byID[part]; s != nil {
				return s
			}
		}
	}
	return nil
}

func (f *follower) application(s *Following, e Event) {
	m := f.of[e.Thread.PID]
	s.marks.Application, s.marks.Init, s.marks.PID = e.Time, m.born, e.Thread.PID
	// The runtime's first command made init; a command before init is not what
	// let it go.
	if s.marks.Release <= s.marks.Init {
		s.marks.Release = 0
	}
	f.processes.contain(e.Thread.PID, e.Time)
	s.end(nil)
	f.drop(s)
}

// drop forgets what is watched for; processes known to belong are forgotten as
// they end.
func (f *follower) drop(s *Following) {
	if f.byID[s.id] == s {
		delete(f.byID, s.id)
	}
	if f.byPID[s.pid] == s {
		delete(f.byPID, s.pid)
	}
}

// stop ends all watching: nothing more will be seen.
func (f *follower) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	for _, s := range f.byID {
		s.end(errStopped)
	}
	for _, s := range f.byPID {
		s.end(errStopped)
	}
}

func (f *Following) over() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

func (f *Following) end(err error) {
	if !f.over() {
		f.err = err
		close(f.done)
	}
}

// runs reports whether what was executed is the program of the given command
// line. Of a script the kernel puts the interpreter, perhaps with one argument,
// before the path of the script, which takes the place of its first argument.
func runs(e Event, args []string) bool {
	if len(args) == 0 {
		return false
	}
	if same(e.Args, args, e.ArgsCut) {
		return true
	}
	for _, at := range []int{1, 2} {
		if len(e.Args) > at && e.Args[at] == e.Path && path.Base(e.Path) == path.Base(args[0]) &&
			same(e.Args[at+1:], args[1:], e.ArgsCut) {
			return true
		}
	}
	return false
}

// same compares as far as what the kernel gave reaches.
func same(seen, args []string, cut bool) bool {
	if !cut {
		return slices.Equal(seen, args)
	}
	n := len(seen)
	return n > 0 && n <= len(args) && slices.Equal(seen[:n-1], args[:n-1]) && strings.HasPrefix(args[n-1], seen[n-1])
}

// since gives what has become of the process that has an id now: when it was
// forked, and its exec of a program since a moment.
func (p *Processes) since(pid int, since time.Duration, args []string) (e Event, born time.Duration, executed bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	l := p.lives[pid]
	if l == nil {
		return Event{}, 0, false
	}
	for _, s := range l.states {
		switch s.by {
		case Fork:
			born, executed = s.from, false
		case Exec:
			this := Event{
				Kind:    Exec,
				Time:    s.from,
				Thread:  Thread{PID: pid, TID: pid},
				Path:    s.path,
				Args:    s.process.Args,
				ArgsCut: s.cut,
			}
			if s.from >= since && !executed && runs(this, args) {
				e, executed = this, true
			}
		}
	}
	return e, born, executed
}
