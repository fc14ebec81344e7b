package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Thread is the CPU time that the calling thread has used, the kernel's work for
// it among it. The caller holds on to its thread (runtime.LockOSThread).
func Thread() time.Duration {
	var used unix.Timespec
	// It fails for a clock that does not exist or an address that is not ours.
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used); err != nil {
		panic("clock_gettime(CLOCK_THREAD_CPUTIME_ID): " + err.Error())
	}
	return time.Duration(used.Nano())
}
