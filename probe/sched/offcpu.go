package sched

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"tare/probe"
)

// OffCPU adds up, in the kernel, how long each process' threads were off the
// CPU, by what they did then: blocked, by kernel stack, and waiting for a CPU.
// It costs two look-ups in a table for each switch, and nothing reads along, so
// it may run under load.
type OffCPU struct {
	attachment *attachment
	began      time.Duration
}

// OffTimes are the times off the CPU of the whole host between two moments. They
// are of threads, so a second of the host holds many; and they hold every wait,
// those of threads with nothing to do too: see [OffTime.Parked]. An absence
// counts when it ends: what lasts from before the beginning or beyond the end
// is not in it.
type OffTimes struct {
	Began, Ended time.Duration
	Absences     []Absence // the longest first
	// Lost counts absences that found no room, or only for their time and not
	// their stack.
	Lost uint64
}

// Absence is the time that threads of one process spent off the CPU in one way.
type Absence struct {
	PID    int
	Comm   string // of one of its threads
	Kernel bool   // a kernel thread
	State  State  // Blocked, or Ready: for all its waits for a CPU together
	Stack  []uint64
	Time   time.Duration
	Count  uint64
	// Last is when the last ended: a moment at which the process was what it was
	// during all of them.
	Last time.Duration
}

// StartOffCPU attaches, until Stop. Its error is a [*probe.Missing] where this
// host lacks what it needs.
func StartOffCPU() (*OffCPU, error) {
	a, err := attach([]string{objectProgOffWaking, objectProgOffSwitch}, setState)
	if err != nil {
		return nil, err
	}
	return &OffCPU{attachment: a, began: Now()}, nil
}

// offKey and offTime are as bpf/sched.c lays them out.
type offKey struct {
	Memory uint64
	PID    int32
	Stack  int32
}

type offTime struct {
	Nanoseconds, Count, Last uint64
	Kernel                   uint32
	Comm                     [16]byte
	_                        uint32
}

// The stacks that are none.
const (
	noStack     = -1
	waitsForCPU = -2
)

// frameRoom is how many frames a stack has at most.
const frameRoom = 64

// Stop detaches, after which nothing of it is left in the kernel, and gives what
// was added up. It is called once.
func (o *OffCPU) Stop() (*OffTimes, error) {
	ended := Now()
	err := o.attachment.detach()
	times, readErr := o.read()
	if err = errors.Join(err, readErr, o.attachment.close()); err != nil {
		return nil, fmt.Errorf("stop adding up the time off the CPU: %w", err)
	}
	times.Began, times.Ended = o.began, ended
	return times, nil
}

func (o *OffCPU) read() (*OffTimes, error) {
	lost, err := o.attachment.lost()
	if err != nil {
		return nil, err
	}
	all := &OffTimes{Lost: lost}
	maps := o.attachment.collection.Maps
	var key offKey
	var value offTime
	each := maps[objectMapOffTimes].Iterate()
	for each.Next(&key, &value) {
		a := Absence{
			PID:    int(key.PID),
			Comm:   text(value.Comm[:]),
			Kernel: value.Kernel != 0,
			State:  Blocked,
			Time:   time.Duration(value.Nanoseconds),
			Count:  value.Count,
			Last:   time.Duration(value.Last),
		}
		switch key.Stack {
		case waitsForCPU:
			a.State = Ready
		case noStack:
		default:
			var stack [frameRoom]uint64
			if err := maps[objectMapStacks].Lookup(uint32(key.Stack), &stack); err != nil {
				return nil, fmt.Errorf("read kernel stack %d: %w", key.Stack, err)
			}
			a.Stack = slices.DeleteFunc(stack[:], func(address uint64) bool { return address == 0 })
		}
		all.Absences = append(all.Absences, a)
	}
	if err := each.Err(); err != nil {
		return nil, fmt.Errorf("read the table of absences: %w", err)
	}
	slices.SortFunc(all.Absences, func(a, b Absence) int { return int(b.Time - a.Time) })
	return all, nil
}

// OffTime is an [Absence] with names.
type OffTime struct {
	Process probe.Process
	State   State
	Cause   Cause    // of a blocked one
	Stack   []string // the innermost function first
	// Parked: threads wait in this way for the next thing to do, in a futex, in
	// epoll, asleep for a while, or as a kernel thread. Whether one waits so on
	// behalf of a start cannot be known from outside: a Go program's threads do
	// when they have nothing to do, and its goroutines' waits are in them too. The
	// waits that are not parked (RCU, disk, locks, children, pipes, sockets) are
	// somebody's who is in the middle of something.
	Parked bool
	Time   time.Duration
	Count  uint64
}

// Named gives the absences their names and causes. at gives what a process was,
// as [Processes.At] does; one that it does not know is known by its thread's
// name alone.
func (o *OffTimes) Named(at func(pid int, t time.Duration) (probe.Process, bool), symbols Symbols) []OffTime {
	named := make([]OffTime, 0, len(o.Absences))
	for _, a := range o.Absences {
		process, ok := at(a.PID, a.Last)
		if !ok {
			process = probe.Process{PID: a.PID, Comm: a.Comm, KernelThread: a.Kernel}
		}
		t := OffTime{Process: process, State: a.State, Time: a.Time, Count: a.Count}
		if a.State == Blocked {
			t.Stack = Frames(a.Stack, symbols)
			t.Cause = CauseOf(t.Stack)
			t.Parked = parked(t.Stack, t.Cause, process.KernelThread)
		}
		named = append(named, t)
	}
	return named
}

// parking are the functions in which threads wait for the next thing to do.
var parking = []string{
	"futex_*", "__futex_*", "ep_poll", "do_epoll_*", "do_select", "do_sys_poll", "do_poll*", "inet_csk_accept", "unix_accept",
	"hrtimer_nanosleep", "timerfd_read", "io_cqring_wait", "do_sigtimedwait", "sigsuspend", "signalfd_*", "pause", "__x64_sys_pause",
}

func parked(stack []string, cause Cause, kernelThread bool) bool {
	switch {
	case kernelThread:
		// It is at work only where it waits for what the others do.
		return cause == Other || cause == IPC || cause == Sleep
	case cause != IPC && cause != Sleep:
		return false
	}
	return slices.ContainsFunc(stack, func(frame string) bool {
		return slices.ContainsFunc(parking, func(function string) bool { return matches(frame, function) })
	})
}
