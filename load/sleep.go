package load

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"tare/kernel/clock"
	"tare/kernel/process"
)

// sleeper waits until a moment. Closing it ends a Sleep under way, with an error.
type sleeper interface {
	Sleep(time.Duration) error
	Close() error
}

// newSleeper makes the most exact one that there is.
func newSleeper() sleeper {
	if alarm, err := clock.NewAlarm(); err == nil {
		return alarm
	}
	return newTimerSleeper()
}

// timerSleeper sleeps by a timer of the runtime, where descriptors ran out. Its
// coarseness shows in Result.Lateness.
type timerSleeper struct {
	once   sync.Once
	closed chan struct{}
}

func newTimerSleeper() sleeper { return &timerSleeper{closed: make(chan struct{})} }

var errSleeperClosed = errors.New("sleeper closed")

func (t *timerSleeper) Sleep(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.closed:
		return errSleeperClosed
	}
}

func (t *timerSleeper) Close() error {
	t.once.Do(func() { close(t.closed) })
	return nil
}

// threadSleeper sleeps in the kernel with its whole thread, which no other thread
// then has to wake, and spins for the last of it: to wake takes tens of
// microseconds, and the CPU is the thread's own.
type threadSleeper struct{ closed atomic.Bool }

func newThreadSleeper() sleeper { return new(threadSleeper) }

const (
	nap   = 10 * time.Millisecond // for which a closed sleeper may go on sleeping
	early = 100 * time.Microsecond
)

func (t *threadSleeper) Sleep(d time.Duration) error {
	for until := clock.Monotonic() + d; ; {
		if t.closed.Load() {
			return errSleeperClosed
		}
		left := until - clock.Monotonic()
		if left <= 0 {
			return nil
		}
		if left > early {
			if err := clock.SleepUntil(until - max(early, left-nap)); err != nil {
				return err
			}
		}
	}
}

func (t *threadSleeper) Close() error {
	t.closed.Store(true)
	return nil
}

// punctually gives the goroutine a thread of its own at real-time priority, until
// restore. Not being allowed is no error: the lateness is reported.
func punctually() (restore func()) {
	runtime.LockOSThread()
	ordinary, err := process.Punctual()
	if err != nil {
		return runtime.UnlockOSThread
	}
	return func() {
		if ordinary() == nil {
			runtime.UnlockOSThread() // or the thread ends with the goroutine
		}
	}
}
