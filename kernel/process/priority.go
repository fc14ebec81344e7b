package process

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Punctual gives the calling thread, to which the goroutine is locked, the least
// real-time priority: it runs as soon as it wakes, whatever ordinary programs
// keep the CPUs busy. restore takes that back. What the thread starts meanwhile,
// programs and threads, is ordinary: the kernel resets it on fork
// (SCHED_RESET_ON_FORK, sched(7)). The error wraps EPERM where this is not
// allowed.
func Punctual() (restore func() error, err error) {
	set := func(attr unix.SchedAttr) error {
		attr.Size = uint32(unsafe.Sizeof(attr))
		if err := unix.SchedSetAttr(0, &attr, 0); err != nil {
			return fmt.Errorf("set the thread's scheduling policy: %w", err)
		}
		return nil
	}
	first := unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 1, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	if err := set(first); err != nil {
		return nil, err
	}
	return func() error { return set(unix.SchedAttr{Policy: unix.SCHED_NORMAL}) }, nil
}
