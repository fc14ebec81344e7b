package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Threads lists the ids of a process' threads. The error wraps [ErrGone] where the
// process has ended.
func Threads(pid int) ([]int, error) {
	dirs, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("process %d: %w", pid, ErrGone)
	}
	if err != nil {
		return nil, err
	}
	var tids []int
	for _, d := range dirs {
		if tid, err := strconv.Atoi(d.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids, nil
}

// SetAffinityOf restricts one thread of any process, and what it starts from then
// on, to those CPUs. The error wraps [ErrGone] where there is no such thread.
func SetAffinityOf(tid int, cpus []int) error {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	err := unix.SchedSetaffinity(tid, &set)
	if errors.Is(err, unix.ESRCH) {
		err = ErrGone
	}
	if err != nil {
		return fmt.Errorf("restricting thread %d to CPUs %v: %w", tid, cpus, err)
	}
	return nil
}

// AffinityOf lists the CPUs that a thread may run on. The error wraps [ErrGone]
// where there is no such thread.
func AffinityOf(tid int) ([]int, error) {
	var set unix.CPUSet
	err := unix.SchedGetaffinity(tid, &set)
	if errors.Is(err, unix.ESRCH) {
		err = ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("reading the CPUs of thread %d: %w", tid, err)
	}
	return cpusOf(set), nil
}
