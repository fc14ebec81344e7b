package clock

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic reads CLOCK_MONOTONIC, by which the kernel stamps what its
// tracepoints and samples report. Package time reads the same clock, and does
// not report its value.
func Monotonic() time.Duration {
	var now unix.Timespec
	// It fails for a clock that does not exist or an address that is not ours.
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic("clock_gettime(CLOCK_MONOTONIC): " + err.Error())
	}
	return time.Duration(now.Nano())
}

// SleepUntil returns at a moment of that clock, at once where it has passed. It
// holds the thread: one at real-time priority wakes within microseconds.
func SleepUntil(moment time.Duration) error {
	at := unix.NsecToTimespec(int64(moment))
	for {
		switch err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &at, nil); err {
		case nil:
			return nil
		case unix.EINTR: // the Go runtime's own signals
		default:
			return fmt.Errorf("clock_nanosleep: %w", err)
		}
	}
}
