package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// confinePasses bounds the passes over the threads: a program that makes new ones
// without end, each from one not yet confined, is not confined by going on.
const confinePasses = 1000

// unconfined is what this program had before it confined itself; nil while it does not.
var unconfined atomic.Pointer[unix.CPUSet]

// Confine restricts every thread of this program to those CPUs, and so those
// that are made later, which inherit from their makers: what a measuring program
// does to keep off the CPU that it measures. restore gives each thread back what
// it had, and later ones what the program had; it spares threads that have been
// restricted otherwise in between, and may be called again.
//
// Processes started meanwhile inherit it too. The Go runtime follows within a
// second or so by lowering GOMAXPROCS, for which it stops the program once:
// confine before what is to be timed.
func Confine(cpus []int) (restore func() error, err error) {
	to, err := cpuSet(cpus)
	if err != nil {
		return nil, err
	}
	var usual unix.CPUSet
	if err := unix.SchedGetaffinity(0, &usual); err != nil {
		return nil, fmt.Errorf("CPUs of this thread: %w", os.NewSyscallError("sched_getaffinity", err))
	}
	c := confinement{to: to, usual: usual, had: map[int]unix.CPUSet{}}
	// First, what all have: once some are confined, a thread that has these CPUs
	// alone may have had them before or may have inherited them.
	if err := eachThread(c.remember); err != nil {
		return nil, err
	}
	unconfined.CompareAndSwap(nil, &usual)
	if err := afterBirths(func() error { return eachThread(c.confine) }); err != nil {
		return nil, errors.Join(fmt.Errorf("restricting this program to CPUs %v: %w", cpus, err), c.restore())
	}
	return c.restore, nil
}

// confinement remembers what each thread had.
type confinement struct {
	to, usual unix.CPUSet
	had       map[int]unix.CPUSet
}

func (c *confinement) remember(thread int) (done bool, err error) {
	if _, known := c.had[thread]; known {
		return true, nil
	}
	var now unix.CPUSet
	if err := unix.SchedGetaffinity(thread, &now); err != nil {
		return false, os.NewSyscallError("sched_getaffinity", err)
	}
	c.had[thread] = now
	return false, nil
}

func (c *confinement) confine(thread int) (done bool, err error) {
	var now unix.CPUSet
	if err := unix.SchedGetaffinity(thread, &now); err != nil {
		return false, os.NewSyscallError("sched_getaffinity", err)
	}
	if now == c.to {
		return true, nil
	}
	c.had[thread] = now
	if err := unix.SchedSetaffinity(thread, &c.to); err != nil {
		return false, os.NewSyscallError("sched_setaffinity", err)
	}
	// The kernel leaves out, without a word, what the program's cpuset lacks.
	if err := unix.SchedGetaffinity(thread, &now); err != nil {
		return false, os.NewSyscallError("sched_getaffinity", err)
	}
	if now != c.to {
		had := c.had[thread]
		back := unix.SchedSetaffinity(thread, &had) // restore would take it for moved
		return false, errors.Join(fmt.Errorf("some are offline, or not in this program's cpuset: it got %v", cpusOf(now)), back)
	}
	return false, nil
}

func (c *confinement) restore() error {
	back := func(thread int) (done bool, err error) {
		var now unix.CPUSet
		if err := unix.SchedGetaffinity(thread, &now); err != nil {
			return false, os.NewSyscallError("sched_getaffinity", err)
		}
		to, known := c.had[thread]
		if !known {
			to = c.usual
		}
		if now != c.to || now == to {
			return true, nil
		}
		return false, os.NewSyscallError("sched_setaffinity", unix.SchedSetaffinity(thread, &to))
	}
	err := afterBirths(func() error { return eachThread(back) })
	if had := unconfined.Load(); had != nil && *had == c.usual {
		unconfined.CompareAndSwap(had, nil)
	}
	if err != nil {
		return fmt.Errorf("giving this program's threads their CPUs back: %w", err)
	}
	return nil
}

// afterBirths meets all threads a few times, a little apart. One that is being made is listed only when it is
// whole, and has what its maker had when the kernel began to make it.
func afterBirths(meetAll func() error) error {
	for i := range 3 {
		if i > 0 {
			time.Sleep(time.Millisecond)
		}
		if err := meetAll(); err != nil {
			return err
		}
	}
	return nil
}

// eachThread visits the threads of this program, again and again until all that
// there are were done already when they were visited: one made meanwhile comes
// from one that was not, and is met in the next pass. A thread that ends is done.
func eachThread(visit func(thread int) (done bool, err error)) error {
	for range confinePasses {
		entries, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("list threads: %w", err)
		}
		all := true
		for _, e := range entries {
			thread, err := strconv.Atoi(e.Name())
			if err != nil {
				return fmt.Errorf("thread %q: %w", e.Name(), err)
			}
			done, err := visit(thread)
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("thread %d: %w", thread, err)
			}
			all = all && (done || err != nil)
		}
		if all {
			return nil
		}
	}
	return fmt.Errorf("threads are made faster than they are met, %d times over", confinePasses)
}

// cpuSet is those CPUs as the kernel takes them.
func cpuSet(cpus []int) (unix.CPUSet, error) {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu) // what it has no room for is left out
		if cpu < 0 || !set.IsSet(cpu) {
			return set, fmt.Errorf("CPU %d: want 0 to %d", cpu, len(set)*strconv.IntSize-1)
		}
	}
	if set.Count() == 0 {
		return set, errors.New("no CPU to be restricted to: name one")
	}
	return set, nil
}

// cpusOf lists the CPUs of a set.
func cpusOf(set unix.CPUSet) []int {
	var cpus []int
	for cpu, left := 0, set.Count(); left > 0; cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
			left--
		}
	}
	return cpus
}
