package process

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// ShortestSlice is the shortest slice that the scheduler takes (0.1 ms: a tenth of
// NSEC_PER_MSEC, __setparam_fair of kernel/sched/syscalls.c).
const ShortestSlice = 100 * time.Microsecond

// Brief has every thread of this program, and those that are made later, which inherit
// from their makers, run for the [ShortestSlice] at a stretch where others wait for the
// processor, instead of some milliseconds. How much of the processors the program has in
// all stays what its weight gives it, and so do its class and nice value; programs that it
// starts inherit it too. Linux 6.12 and newer heed it; older kernels take it for nothing.
//
// The kernel looks whether a slice is over at its ticks, when a thread wakes, and when
// one yields: see [Yield].
func Brief() error {
	done := map[int]bool{}
	err := eachThread(func(thread int) (bool, error) {
		if done[thread] {
			return true, nil
		}
		now, err := attributes(thread)
		if err != nil {
			return false, unlessGone(err)
		}
		done[thread] = true
		if now.Policy != unix.SCHED_NORMAL && now.Policy != unix.SCHED_BATCH {
			return false, nil // it has no slice
		}
		now.Runtime = uint64(ShortestSlice)
		return false, setAttributes(thread, *now)
	})
	if err != nil {
		return fmt.Errorf("shorten the slices of this program's threads: %w", err)
	}
	return nil
}

// Slice is how long a thread runs at a stretch where others wait for the processor; 0
// where the kernel does not tell, as before Linux 6.12.
func Slice(thread int) (time.Duration, error) {
	now, err := attributes(thread)
	if err != nil {
		return 0, err
	}
	if now.Policy != unix.SCHED_NORMAL && now.Policy != unix.SCHED_BATCH {
		return 0, errors.New("threads of its scheduling class have no slice")
	}
	return time.Duration(now.Runtime), nil
}

// Yield lets who waits for this processor run first: sched_yield(2). The thread gives up
// what is left of its slice, so that it costs little beside [Brief], and one system call
// where nobody waits. A kernel without preemption (preempt=none) otherwise has those wait for its
// next tick, some milliseconds.
func Yield() {
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // it cannot fail
}
