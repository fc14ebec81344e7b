package sched

import (
	"slices"
	"time"
)

// State is what a thread does.
type State string

// The states.
const (
	Running State = "running"
	// Ready: it could run, and waits for a CPU.
	Ready State = "waits for a CPU"
	// Blocked: it waits for something else.
	Blocked State = "blocked"
)

// Segment is a stretch of a [CriticalPath]: one thread in one state, executing
// one program.
type Segment struct {
	From, To time.Duration
	PID, TID int
	State    State
	// Of a blocked one: what it waited for, the kernel's functions in which it
	// did, the innermost first, and the thread that woke it, where one did.
	Cause Cause
	Stack []string
	Waker int
}

// Moment is where a path ends: a thread at a time. Where TID is 0 it is the
// thread of the process, or of one that it forked, that ran last by then.
type Moment struct {
	Time     time.Duration
	PID, TID int
}

// CriticalPath gives what the thread of a moment was waiting for, back to an
// earlier time. Its segments follow each other without a gap and fill the whole
// interval.
//
// It goes backwards. While the thread ran, the path is its own; while it could
// have run, it waited for a CPU. Where it was blocked and another program's
// thread woke it, that thread is what it waited for, and the path goes on there,
// at the moment of waking. A thread that was born goes on in the one that made it.
//
// Where a thread waits for what no program does (an interrupt, a timer, a
// kernel thread woke it, or its stack shows a grace period, a disk), the
// path stays with it and has the cause. Where it waits for a kernel lock the
// path looks at who held it, and comes back: for who had the lock before is none
// of the start's business.
//
// So it does with a thread that looks after the others of its process from time
// to time.
//
// It knows threads, not goroutines: a Go program whose threads wake each other
// to share work is followed as if they waited for each other, which is the
// truth of the threads and may be another goroutine's. So the path is of use
// where a host does one start at a time: of two that one engine makes at once it
// may leave one for the other.
//
// events are in the order of time, all from one recording; what a thread did
// before its first event is inferred from that.
func CriticalPath(events []Event, from time.Duration, to Moment, symbols Symbols) []Segment {
	w := &walker{events: events, lanes: lanes(events), symbols: symbols}
	last, _ := slices.BinarySearchFunc(events, to.Time, func(e Event, t time.Duration) int {
		if e.Time <= t {
			return -1
		}
		return 1
	})
	tid := to.TID
	if tid == 0 {
		tid = w.lastToRun(to.PID, last)
	}
	w.walk(place{tid: tid, pid: to.PID, before: last, at: to.Time}, from)
	slices.Reverse(w.path)
	return w.path
}

// walker goes back along a path.
type walker struct {
	events  []Event
	lanes   map[int][]turn
	symbols Symbols
	path    []Segment // the latest first
	// apart: what is added next is of another program than what was added last.
	apart bool
}

// place is where the walker stands: at a thread, before an event, at a time no
// earlier than the event before that.
type place struct {
	pid, tid int
	before   int // index of an event
	at       time.Duration
}

// turn is where a thread's state changes.
type turn struct {
	kind  turnKind
	event int // index
}

type turnKind uint8

const (
	switchedIn turnKind = iota
	preempted           // switched out, and ready
	blockedOut          // switched out to wait
	diedOut             // switched out for good
	woken               // made ready by another
	born                // made by another
	executed            // another program, perhaps in another thread's place
)

// lanes sorts events by the threads that they are turns of.
func lanes(events []Event) map[int][]turn {
	all := map[int][]turn{}
	add := func(tid int, kind turnKind, event int) {
		if tid != 0 {
			all[tid] = append(all[tid], turn{kind, event})
		}
	}
	for i, e := range events {
		switch e.Kind {
		case Fork:
			add(e.Other.TID, born, i)
		case Exec:
			add(e.Thread.TID, executed, i)
		case Wake:
			add(e.Other.TID, woken, i)
		case Switch:
			switch {
			case e.blocks():
				add(e.Thread.TID, blockedOut, i)
			case e.State != 0:
				add(e.Thread.TID, diedOut, i)
			default:
				add(e.Thread.TID, preempted, i)
			}
			add(e.Other.TID, switchedIn, i)
		}
	}
	return all
}

// turnBefore finds the last turn of a thread before an event; -1 where there is
// none.
func (w *walker) turnBefore(tid, event int) int {
	i, _ := slices.BinarySearchFunc(w.lanes[tid], event, func(t turn, event int) int { return t.event - event })
	return i - 1
}

func (w *walker) kind(tid, turn int) (turnKind, bool) {
	if lane := w.lanes[tid]; turn >= 0 && turn < len(lane) {
		return lane[turn].kind, true
	}
	return 0, false
}

// lastToRun is the thread of a process' family that ran last before an event;
// the process' first where none did.
func (w *walker) lastToRun(pid, before int) int {
	family := map[int]bool{pid: true}
	for _, e := range w.events[:before] {
		if e.Kind == Fork && family[e.Thread.PID] {
			family[e.Other.PID] = true
		}
	}
	for i := before - 1; i >= 0; i-- {
		e := w.events[i]
		switch {
		case e.Kind == Switch && family[e.Other.PID]:
			return e.Other.TID
		case e.Kind == Switch && family[e.Thread.PID], e.Kind == Exec && family[e.Thread.PID]:
			return e.Thread.TID
		}
	}
	return pid
}

// walk goes back to floor.
func (w *walker) walk(p place, floor time.Duration) {
	for p.at > floor {
		p = w.step(p, floor)
	}
}

// step goes back by one turn. Every step goes to an earlier event, or ends at
// the floor, so that there is an end.
func (w *walker) step(p place, floor time.Duration) place {
	i := w.turnBefore(p.tid, p.before)
	if i < 0 {
		w.add(p, floor, w.unseen(p))
		p.at = floor
		return p
	}
	t := w.lanes[p.tid][i]
	e := w.events[t.event]
	if e.Thread.TID == p.tid {
		p.pid = e.Thread.PID
	} else {
		p.pid = e.Other.PID
	}
	previous, hasPrevious := w.kind(p.tid, i-1)
	there := place{pid: p.pid, tid: p.tid, before: t.event, at: e.Time}
	switch t.kind {
	case switchedIn:
		w.add(p, max(e.Time, floor), Segment{State: Running})
		return there
	case preempted:
		w.add(p, max(e.Time, floor), Segment{State: Ready})
		return there
	case blockedOut:
		// Woken between its decision to wait and its leaving the CPU, it left and
		// was put back at once.
		if next, ok := w.kind(p.tid, i+1); ok && next == switchedIn && hasPrevious && previous == woken {
			w.add(p, max(e.Time, floor), Segment{State: Ready})
			return there
		}
		w.add(p, max(e.Time, floor), w.blocked(e, 0))
		return there
	case diedOut:
		w.add(p, max(e.Time, floor), Segment{State: Blocked, Cause: Other})
		return there
	case executed:
		w.add(p, max(e.Time, floor), Segment{State: Running})
		w.apart = true
		there.tid = e.FormerTID
		return there
	case born:
		w.add(p, max(e.Time, floor), Segment{State: Ready})
		return place{pid: e.Thread.PID, tid: e.Thread.TID, before: t.event, at: e.Time}
	}
	// Woken. Who was not waiting needs no waking; and the first of two counts.
	if !e.Newborn && hasPrevious && previous != blockedOut {
		there.at = p.at
		return there
	}
	w.add(p, max(e.Time, floor), Segment{State: Ready})
	there.at = e.Time
	if e.Time <= floor {
		return there
	}
	waker := place{pid: e.Thread.PID, tid: e.Thread.TID, before: t.event, at: e.Time}
	if e.Newborn {
		return waker
	}
	return w.woken(there, waker, i-1, floor)
}

// woken goes back from the moment at which a thread was woken. wait is its turn
// of leaving the CPU; -1 where that was before the recording.
func (w *walker) woken(p, waker place, wait int, floor time.Duration) place {
	wake := w.events[p.before]
	left, since := Event{}, floor
	if wait >= 0 {
		p.before = w.lanes[p.tid][wait].event
		left = w.events[p.before]
		since = max(left.Time, floor)
	}
	segment := w.blocked(left, wake.Thread.TID)
	byThread := byThread(wake, w.symbols)
	if !byThread && wake.Context&Timer != 0 && segment.Cause == IPC {
		segment.Cause = Sleep // what it waited for did not come in time
	}
	if byThread {
		switch segment.Cause {
		case IPC, Child, Other:
			if !w.watches(waker, p.pid) {
				return waker
			}
			fallthrough
		case Lock:
			w.walk(waker, since)
			p.at = since
			return p
		}
	}
	if !byThread && wake.Thread.TID != 0 && !wake.Thread.Kernel {
		segment.Waker = 0 // it was only there when the interrupt came
	}
	w.add(p, since, segment)
	p.at = since
	return p
}

// watches: the waker, of the same process, had slept for a time and looked
// around then, as the Go runtime's sysmon does. What it did before that says
// nothing of why the other waited.
func (w *walker) watches(waker place, pid int) bool {
	if waker.pid != pid {
		return false
	}
	for i := w.turnBefore(waker.tid, waker.before); i >= 0; i-- {
		if t := w.lanes[waker.tid][i]; t.kind == blockedOut {
			return w.blocked(w.events[t.event], 0).Cause == Sleep
		}
	}
	return false
}

func (w *walker) blocked(left Event, waker int) Segment {
	stack := Frames(left.Stack, w.symbols)
	return Segment{State: Blocked, Cause: CauseOf(stack), Stack: stack, Waker: waker}
}

// unseen infers from a thread's next turn what it did before its first.
func (w *walker) unseen(p place) Segment {
	next, ok := w.kind(p.tid, w.turnBefore(p.tid, p.before)+1)
	switch {
	case !ok, next == woken:
		return Segment{State: Blocked, Cause: Other}
	case next == switchedIn:
		return Segment{State: Ready}
	}
	return Segment{State: Running}
}

// add puts a segment of the thread at p before all that the path has.
func (w *walker) add(p place, from time.Duration, s Segment) {
	if from >= p.at {
		return
	}
	s.From, s.To, s.PID, s.TID = from, p.at, p.pid, p.tid
	apart := w.apart
	w.apart = false
	if n := len(w.path); n > 0 && !apart {
		if after := &w.path[n-1]; after.TID == s.TID && after.PID == s.PID && after.State == s.State &&
			after.Cause == s.Cause &&
			after.Waker == s.Waker &&
			slices.Equal(after.Stack, s.Stack) {
			after.From = s.From
			return
		}
	}
	w.path = append(w.path, s)
}
