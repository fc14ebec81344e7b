package perfevent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// FaultCount is the page faults of a thread and of what it made since.
type FaultCount struct {
	All   uint64 // refused ones among them
	User  uint64 // those of All that were not taken in the kernel
	Minor uint64 // served without a device
	Major uint64
}

// FaultCounter counts the page faults of one thread, and of every thread and
// process that it makes from then on, for as long as they live.
type FaultCounter struct {
	tid int
	fds []int // in the order of faultEvents
}

// faultEvents are what a FaultCounter opens.
var faultEvents = []struct {
	config uint64
	bits   uint64
}{
	{unix.PERF_COUNT_SW_PAGE_FAULTS, 0},
	{unix.PERF_COUNT_SW_PAGE_FAULTS, unix.PerfBitExcludeKernel},
	{unix.PERF_COUNT_SW_PAGE_FAULTS_MIN, 0},
	{unix.PERF_COUNT_SW_PAGE_FAULTS_MAJ, 0},
}

// CountFaults begins to count. Its error is a *[Refused] where a right is
// missing, and unix.ESRCH where the thread has ended.
func CountFaults(tid int) (*FaultCounter, error) {
	c := &FaultCounter{tid: tid}
	for _, e := range faultEvents {
		attr := &unix.PerfEventAttr{
			Type: unix.PERF_TYPE_SOFTWARE, Config: e.config, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
			Bits: unix.PerfBitInherit | e.bits,
		}
		fd, err := unix.PerfEventOpen(attr, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			_ = c.Close()
			return nil, faultsRefused(err, tid)
		}
		c.fds = append(c.fds, fd)
	}
	return c, nil
}

func faultsRefused(err error, tid int) error {
	what := fmt.Sprintf("counting the page faults of thread %d: perf_event_open: %v", tid, err)
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		if level := sysctl(paranoidFile); level != "" {
			what += " (kernel.perf_event_paranoid is " + level + ")"
		}
		return &Refused{what, "run as root or with CAP_PERFMON", err}
	case errors.Is(err, unix.ENOSYS):
		return &Refused{what, "a kernel with CONFIG_PERF_EVENTS", err}
	case errors.Is(err, unix.EMFILE):
		return &Refused{what, "four descriptors a thread are needed: raise the limit on open files (ulimit -n)", err}
	}
	return fmt.Errorf("counting the page faults of thread %d: perf_event_open: %w", tid, err)
}

// Read gives the count since the beginning.
func (c *FaultCounter) Read() (FaultCount, error) {
	var values [4]uint64
	for i, fd := range c.fds {
		var b [8]byte
		if n, err := unix.Read(fd, b[:]); err != nil || n != len(b) {
			return FaultCount{}, fmt.Errorf("reading the count of page faults of thread %d: %d bytes: %w", c.tid, n, err)
		}
		values[i] = binary.NativeEndian.Uint64(b[:])
	}
	// Read one after the other, while they may count on.
	return FaultCount{All: max(values[0], values[1]), User: values[1], Minor: values[2], Major: values[3]}, nil
}

// Close ends the counting.
func (c *FaultCounter) Close() error {
	var errs []error
	for _, fd := range c.fds {
		errs = append(errs, unix.Close(fd))
	}
	c.fds = nil
	return errors.Join(errs...)
}
