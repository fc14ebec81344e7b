package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"tare/kernel/procfs"
)

// Policy is how the kernel's scheduler treats a thread: sched(7).
type Policy string

// The policies of threads. [SetClass] gives the real-time ones.
const (
	Other Policy = "other" // the ordinary one
	Batch Policy = "batch" // ordinary, and taken to need the CPU without being in haste
	Idle  Policy = "idle"  // when nobody else wants the CPU
	FIFO  Policy = "fifo"  // real-time: runs until it blocks
	RR    Policy = "rr"    // real-time: takes turns with those of its priority
)

// policies are the kernel's numbers (include/uapi/linux/sched.h).
var policies = map[Policy]uint32{
	Other: unix.SCHED_NORMAL, Batch: unix.SCHED_BATCH, Idle: unix.SCHED_IDLE, FIFO: unix.SCHED_FIFO, RR: unix.SCHED_RR,
}

// Class is a thread's scheduling class.
type Class struct {
	Policy Policy
	// Priority among real-time threads, 1 to 99; 0 of the others.
	Priority int
}

// RealTime reports whether threads of this class go before all ordinary ones.
func (c Class) RealTime() bool { return c.Policy == FIFO || c.Policy == RR }

// String writes the class as "fifo 1", "batch".
func (c Class) String() string {
	if !c.RealTime() {
		return string(c.Policy)
	}
	return fmt.Sprintf("%s %d", c.Policy, c.Priority)
}

func (c Class) check() error {
	if !c.RealTime() {
		return fmt.Errorf("scheduling policy %q: want fifo or rr", c.Policy)
	}
	if c.Priority < 1 || c.Priority > 99 {
		return fmt.Errorf("priority %d of scheduling policy %s: want 1 to 99", c.Priority, c.Policy)
	}
	return nil
}

// ClassRefused says that the kernel does not give a thread a class.
type ClassRefused struct {
	PID   int // the process
	Class Class
	Err   error
}

func (r *ClassRefused) Error() string {
	text := fmt.Sprintf("give process %d the scheduling class %s: %v", r.PID, r.Class, r.Err)
	if errors.Is(r.Err, unix.EPERM) {
		text += ": it takes CAP_SYS_NICE and, in a control group of a kernel with CONFIG_RT_GROUP_SCHED, cpu.rt_runtime_us above 0 there"
	}
	return text
}

func (r *ClassRefused) Unwrap() error { return r.Err }

// ClassOf is the class of a thread, by its id. The error wraps [ErrGone] where
// there is no such thread.
func ClassOf(tid int) (Class, error) {
	attr, err := attributes(tid)
	if err != nil {
		return Class{}, err
	}
	for policy, number := range policies {
		if number == attr.Policy {
			return Class{policy, int(attr.Priority)}, nil
		}
	}
	return Class{}, fmt.Errorf("thread %d has scheduling policy %d, which is none of those that tare gives", tid, attr.Policy)
}

func attributes(tid int) (*unix.SchedAttr, error) {
	attr, err := unix.SchedGetAttr(tid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, fmt.Errorf("thread %d: %w", tid, ErrGone)
	}
	if err != nil {
		return nil, fmt.Errorf("read the scheduling class of thread %d: %w", tid, err)
	}
	return attr, nil
}

// threadOf names a thread for as long as the host is up.
type threadOf struct {
	id    int
	start uint64 // clock ticks since boot: ids are used again
}

// SetClass gives every thread of a process that real-time class: the threads that
// it has, and, since threads inherit, those that these start. restore gives each thread
// back what it had, and the threads born meanwhile what the first one had; a
// thread whose class somebody else has changed since is left as it is. The
// process' children are processes of their own, and have to be named. The error
// is a [*ClassRefused], or wraps [ErrGone]; nothing is changed then.
func SetClass(pid int, class Class) (restore func() error, err error) {
	if err := class.check(); err != nil {
		return nil, err
	}
	id, err := Identify(pid)
	if err != nil {
		if procfs.Gone(err) {
			err = fmt.Errorf("process %d: %w", pid, ErrGone)
		}
		return nil, err
	}
	c := &classChange{process: id, class: class, before: map[threadOf]*unix.SchedAttr{}}
	if err := c.set(); err != nil {
		return nil, errors.Join(err, c.restore())
	}
	return c.restore, nil
}

// classChange is a class that a process' threads have been given.
type classChange struct {
	process Identity
	class   Class
	before  map[threadOf]*unix.SchedAttr
	first   *unix.SchedAttr // what the process' first thread had
	done    bool
}

// set gives the class to threads until it meets none that has not got it: one
// that is born of a thread not yet met has the class from before.
func (c *classChange) set() error {
	first := true
	err := afterBirths(func() error {
		for met := true; met; first = false {
			var err error
			if met, err = c.setNew(first); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && len(c.before) == 0 {
		err = fmt.Errorf("process %d: %w", c.process.PID, ErrGone)
	}
	return err
}

// setNew gives the class to the threads that were not met before; met reports
// whether there were any.
func (c *classChange) setNew(first bool) (met bool, err error) {
	threads, err := threadsOf(c.process)
	if err != nil {
		return false, err
	}
	for _, t := range threads {
		if _, ok := c.before[t]; ok {
			continue
		}
		met = true
		if err := c.setOne(t, first); err != nil {
			return false, err
		}
	}
	return met, nil
}

// setOne gives one thread the class. listed means that it was there before any
// thread was given it.
func (c *classChange) setOne(t threadOf, listed bool) error {
	attr, err := attributes(t.id)
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	if c.first == nil || t.id == c.process.PID {
		c.first = attr
	}
	if !listed && c.has(attr) {
		// Born of one that had been given it: what it would have without that is
		// not to be known.
		c.before[t] = c.first
		return nil
	}
	wanted := unix.SchedAttr{
		Size:     uint32(unsafe.Sizeof(unix.SchedAttr{})),
		Policy:   policies[c.class.Policy],
		Priority: uint32(c.class.Priority),
		Nice:     attr.Nice, // of no account to a real-time class
	}
	switch err := unix.SchedSetAttr(t.id, &wanted, 0); {
	case errors.Is(err, unix.ESRCH):
		return nil
	case err != nil:
		return &ClassRefused{PID: c.process.PID, Class: c.class, Err: err}
	}
	c.before[t] = attr
	return nil
}

// has reports whether a thread has the class.
func (c *classChange) has(attr *unix.SchedAttr) bool {
	return attr.Policy == policies[c.class.Policy] && attr.Priority == uint32(c.class.Priority)
}

// restore gives back what was. It may be called again.
func (c *classChange) restore() error {
	if c.done {
		return nil
	}
	var all []error
	given := map[threadOf]bool{}
	for {
		threads, err := threadsOf(c.process)
		if err != nil {
			all = append(all, err)
			break
		}
		threads = slices.DeleteFunc(threads, func(t threadOf) bool { return given[t] })
		if len(threads) == 0 {
			break
		}
		for _, t := range threads {
			given[t] = true
			all = append(all, c.restoreOne(t))
		}
	}
	err := errors.Join(all...)
	c.done = err == nil
	return err
}

func (c *classChange) restoreOne(t threadOf) error {
	before, ok := c.before[t]
	if !ok {
		before = c.first
	}
	now, err := attributes(t.id)
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	if before == nil || !c.has(now) {
		return nil
	}
	attr := *before
	attr.Size = uint32(unsafe.Sizeof(attr))
	if err := unix.SchedSetAttr(t.id, &attr, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("give thread %d of process %d its scheduling class back: %w", t.id, c.process.PID, err)
	}
	return nil
}

// threadsOf lists the threads of a process; none where it has ended.
func threadsOf(process Identity) ([]threadOf, error) {
	pid := process.PID
	if now, err := Identify(pid); err != nil || now != process {
		if err != nil && !procfs.Gone(err) {
			return nil, err
		}
		return nil, nil
	}
	entries, err := os.ReadDir(procfs.Host.Process(pid).Path("task"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the threads of process %d: %w", pid, err)
	}
	var threads []threadOf
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			return nil, fmt.Errorf("list the threads of process %d: %q is not a thread id", pid, e.Name())
		}
		// /proc does not list threads, and answers all the same where it is asked for one.
		stat, err := procfs.Host.Process(id).Stat()
		if procfs.Gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		threads = append(threads, threadOf{id, stat.StartTicks})
	}
	return threads, nil
}
