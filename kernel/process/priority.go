package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Prefer gives all threads that this program has now a nice value below the
// usual, so that it wakes on time beside busy programs; restore takes that back.
// What it starts meanwhile, programs and threads, has the usual priority: the
// kernel resets it on fork (SCHED_RESET_ON_FORK, sched(7)). The error wraps
// EPERM or EACCES where this is not allowed.
func Prefer(nice int) (restore func() error, err error) {
	threads, err := ownThreads()
	if err != nil {
		return nil, err
	}
	set := func(nice int32, flags uint64) error {
		var errs []error
		for _, tid := range threads {
			attr := unix.SchedAttr{Size: uint32(unsafe.Sizeof(unix.SchedAttr{})), Policy: unix.SCHED_NORMAL, Nice: nice, Flags: flags}
			if err := unix.SchedSetAttr(tid, &attr, 0); err != nil && !errors.Is(err, unix.ESRCH) {
				errs = append(errs, fmt.Errorf("set the nice value of thread %d to %d: %w", tid, nice, err))
			}
		}
		return errors.Join(errs...)
	}
	restore = func() error { return set(0, 0) }
	if err := set(int32(nice), unix.SCHED_FLAG_RESET_ON_FORK); err != nil {
		return nil, errors.Join(err, restore())
	}
	return restore, nil
}

func ownThreads() ([]int, error) {
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, err
	}
	var threads []int
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			threads = append(threads, tid)
		}
	}
	return threads, nil
}
