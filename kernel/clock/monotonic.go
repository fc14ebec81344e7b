package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic reads CLOCK_MONOTONIC, by which the kernel stamps what its
// tracepoints and samples report. Package time reads the same clock, and does
// not tell its value.
func Monotonic() time.Duration {
	var now unix.Timespec
	// It fails for a clock that does not exist or an address that is not ours.
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic("clock_gettime(CLOCK_MONOTONIC): " + err.Error())
	}
	return time.Duration(now.Nano())
}
