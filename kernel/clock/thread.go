package clock

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Thread is the CPU time that the calling thread has used, the kernel's work for
// it among it. The caller holds on to its thread (runtime.LockOSThread). The call does not block, so that Go's
// runtime need not know of it: where the call took long, other work would go on in another thread.
func Thread() time.Duration {
	var used unix.Timespec
	_, _, errno := unix.RawSyscall(
		unix.SYS_CLOCK_GETTIME, unix.CLOCK_THREAD_CPUTIME_ID, uintptr(unsafe.Pointer(&used)), 0)
	// It fails for a clock that does not exist or an address that is not ours.
	if errno != 0 {
		panic("clock_gettime(CLOCK_THREAD_CPUTIME_ID): " + errno.Error())
	}
	return time.Duration(used.Nano())
}

// Exact has the calling thread's timeouts end when they are due. Otherwise the kernel may
// delay them by 50 us to let several end together (PR_SET_TIMERSLACK, prctl(2)). The caller
// holds on to its thread until restore, which sets the slack that the thread began with.
func Exact() (restore func() error, err error) {
	set := func(nanoseconds uintptr) error {
		if err := unix.Prctl(unix.PR_SET_TIMERSLACK, nanoseconds, 0, 0, 0); err != nil {
			return fmt.Errorf("prctl(PR_SET_TIMERSLACK): %w", err)
		}
		return nil
	}
	if err := set(1); err != nil {
		return nil, err
	}
	return func() error { return set(0) }, nil
}
