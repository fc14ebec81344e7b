package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Precedence is how a program goes before ordinary ones: by a real-time class, or by
// its niceness. The zero value is not at all.
type Precedence struct {
	Class Class // where it is real-time
	Nice  int   // below 0 otherwise
}

// String writes the precedence as "rr 1", "nice -20", "none".
func (p Precedence) String() string {
	switch {
	case p.Class.RealTime():
		return p.Class.String()
	case p.Nice != 0:
		return fmt.Sprintf("nice %d", p.Nice)
	}
	return "none"
}

// precedences are tried in order. The real-time ones take turns, so that no thread of
// a program can keep its others from a CPU.
var precedences = []Precedence{{Class: Class{RR, 1}}, {Nice: -20}}

// NotAhead says why a program is not put ahead of ordinary ones.
type NotAhead struct{ RealTime, Nice error }

func (n *NotAhead) Error() string {
	return fmt.Sprintf("this program goes before no others: real-time: %v; nice: %v: grant it CAP_SYS_NICE", n.RealTime, n.Nice)
}

func (n *NotAhead) Unwrap() []error { return []error{n.RealTime, n.Nice} }

// sweep is how soon a thread that is born is put ahead too.
const sweep = 100 * time.Millisecond

// Ahead puts every thread of this program ahead of the host's ordinary ones: what a
// measuring program does to be on time beside programs that keep the CPUs busy. Where
// it may have a real-time class, and the kernel keeps some CPU time from such
// (sched_rt_runtime_us, sched(7)), it is given the least; else the least niceness,
// which puts it ahead within its CPU control group alone. A thread that goes before
// ordinary ones already stays as it is, and one that called [StayOrdinary].
//
// What the program starts meanwhile is ordinary, since the kernel resets it on fork:
// programs, which are to be behind; and threads, which are put ahead within a tenth
// of a second. restore gives each thread back what it had, and those born meanwhile
// what the calling one had; one whose class somebody else has changed since is left
// as it is. It may be called again. The error is a [*NotAhead] where none of it is
// allowed; nothing is changed then.
func Ahead() (by Precedence, restore func() error, err error) {
	refused := make([]error, len(precedences))
	for i, p := range precedences {
		restore, err := ahead(p)
		if err == nil {
			return p, restore, nil
		}
		if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) && !errors.Is(err, errUnbounded) {
			return Precedence{}, nil, err
		}
		refused[i] = err
	}
	return Precedence{}, nil, &NotAhead{RealTime: refused[0], Nice: refused[1]}
}

// StayOrdinary keeps the calling thread, to which its goroutine is locked, where the
// host's ordinary programs are though the rest of this one goes ahead of them: for
// what works in their stead, such as reclaiming their memory. The mark of it is
// SCHED_RESET_ON_FORK, which changes nothing for an ordinary thread: sched(7).
func StayOrdinary() error {
	now, err := attributes(0)
	if err != nil {
		return err
	}
	to := unix.SchedAttr{Policy: unix.SCHED_NORMAL, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	if now.Policy == unix.SCHED_NORMAL {
		to.Nice = max(now.Nice, 0)
	}
	return setAttributes(0, to)
}

func staysOrdinary(now *unix.SchedAttr) bool {
	return now.Policy == unix.SCHED_NORMAL && now.Nice >= 0 && now.Flags&unix.SCHED_FLAG_RESET_ON_FORK != 0
}

// errUnbounded is why a program is given no real-time class: one that spins would
// have the host to itself.
var errUnbounded = errors.New("the kernel keeps no CPU time from real-time programs (sched_rt_runtime_us is -1)")

// realTimeBounded reports whether the kernel does. Since Linux 6.8 ordinary programs have
// a server of their own for that, but the file is what its owner says of it.
func realTimeBounded() error {
	const file = "/proc/sys/kernel/sched_rt_runtime_us"
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has no such knob to turn it off by
	}
	if err != nil {
		return err
	}
	micros, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if micros < 0 {
		return errUnbounded
	}
	return nil
}

func ahead(p Precedence) (func() error, error) {
	if p.Class.RealTime() {
		if err := realTimeBounded(); err != nil {
			return nil, err
		}
	}
	usual, err := attributes(0)
	if err != nil {
		return nil, err
	}
	a := &precedence{
		to: unix.SchedAttr{
			Size: uint32(unsafe.Sizeof(unix.SchedAttr{})), Flags: unix.SCHED_FLAG_RESET_ON_FORK,
			Policy: unix.SCHED_NORMAL, Nice: int32(p.Nice),
		},
		usual: *usual, had: map[int]unix.SchedAttr{}, done: make(chan struct{}),
	}
	if p.Class.RealTime() {
		a.to.Policy, a.to.Priority = policies[p.Class.Policy], uint32(p.Class.Priority)
	}
	// First, what all have: threads met later were born of some that were ahead.
	if err := eachThread(a.remember); err != nil {
		return nil, err
	}
	if err := eachThread(a.put); err != nil {
		return nil, errors.Join(fmt.Errorf("put this program ahead by %s: %w", p, err), a.back())
	}
	a.sweeping.Go(a.sweep)
	return a.restore, nil
}

// precedence is what a program's threads have been given.
type precedence struct {
	to, usual unix.SchedAttr
	had       map[int]unix.SchedAttr

	sweeping sync.WaitGroup
	swept    error // why threads born meanwhile were not put ahead
	mu       sync.Mutex
	done     chan struct{}
	restored bool
}

func (a *precedence) remember(thread int) (done bool, err error) {
	if _, known := a.had[thread]; known {
		return true, nil
	}
	now, err := attributes(thread)
	if err != nil {
		return false, unlessGone(err)
	}
	a.had[thread] = *now
	return false, nil
}

func (a *precedence) put(thread int) (done bool, err error) {
	now, err := attributes(thread)
	if err != nil {
		return true, unlessGone(err)
	}
	if a.has(now) || staysOrdinary(now) || now.Policy == unix.SCHED_FIFO || now.Policy == unix.SCHED_RR ||
		now.Policy == unix.SCHED_DEADLINE {
		return true, nil
	}
	return false, setAttributes(thread, a.to)
}

func (a *precedence) has(now *unix.SchedAttr) bool {
	return now.Policy == a.to.Policy && now.Priority == a.to.Priority && now.Flags&unix.SCHED_FLAG_RESET_ON_FORK != 0 &&
		(now.Policy != unix.SCHED_NORMAL || now.Nice == a.to.Nice)
}

func (a *precedence) sweep() {
	tick := time.NewTicker(sweep)
	defer tick.Stop()
	for a.swept == nil {
		select {
		case <-a.done:
			return
		case <-tick.C:
			a.swept = eachThread(a.put)
		}
	}
}

func (a *precedence) restore() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.restored {
		return nil
	}
	select {
	case <-a.done: // it failed before
	default:
		close(a.done)
	}
	a.sweeping.Wait()
	if a.swept == nil {
		// The last that were born are to have what the program had, not what the
		// kernel resets to.
		a.swept = eachThread(a.put)
	}
	err := errors.Join(a.swept, a.back())
	a.restored = err == nil
	return err
}

// back gives every thread what it had.
func (a *precedence) back() error {
	err := eachThread(func(thread int) (done bool, err error) {
		now, err := attributes(thread)
		if err != nil {
			return true, unlessGone(err)
		}
		before, known := a.had[thread]
		if !known {
			before = a.usual
		}
		if !a.has(now) || a.has(&before) {
			return true, nil
		}
		return false, setAttributes(thread, before)
	})
	if err != nil {
		return fmt.Errorf("give this program's threads their scheduling class back: %w", err)
	}
	return nil
}

// setAttributes is sched_setattr(2) of a thread; one that has ended has all it needs.
func setAttributes(thread int, attr unix.SchedAttr) error {
	attr.Size = uint32(unsafe.Sizeof(attr))
	if err := unix.SchedSetAttr(thread, &attr, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return os.NewSyscallError("sched_setattr", err)
	}
	return nil
}

func unlessGone(err error) error {
	if errors.Is(err, ErrGone) {
		return nil
	}
	return err
}
