package perfevent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Event is something that a [Counter] counts.
type Event struct {
	Name   string // "instructions"
	kind   uint32 // PERF_TYPE_
	config uint64
}

// The events.
var (
	// Instructions that were retired, by the processor's own counters, which many
	// virtual machines have none of.
	Instructions = Event{"instructions", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_INSTRUCTIONS}
	// PageFaults by the kernel's own count, there on every host.
	PageFaults = Event{"page faults", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_PAGE_FAULTS}
)

// Counter counts an event in user mode, in all processes of a control group and
// below, those to come among them.
type Counter struct {
	event Event
	dir   string
	fds   []int // one a CPU
}

// Count is what a counter has come to.
type Count struct {
	Value uint64
	// Share is the part of the time in which the event was really counted: below 1
	// where the processor's few counters went round, and Value is then projected.
	Share float64
}

// CountGroup begins to count in a control group, which is a directory of the
// hierarchy that carries perf_event (the second version's, where no first version's
// does). It needs root or CAP_PERFMON; an error is a *[Refused] where a right or the
// hardware is missing.
func CountGroup(e Event, dir string) (*Counter, error) {
	group, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(group) // the events hold the group themselves
	cpus, err := online()
	if err != nil {
		return nil, err
	}
	c := &Counter{event: e, dir: dir}
	attr := &unix.PerfEventAttr{
		Type: e.kind, Config: e.config, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Bits:        unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
	}
	for _, cpu := range cpus {
		fd, err := unix.PerfEventOpen(attr, group, cpu, -1, unix.PERF_FLAG_PID_CGROUP|unix.PERF_FLAG_FD_CLOEXEC)
		// A CPU may have gone offline since the list was read.
		if errors.Is(err, unix.ENODEV) && len(c.fds) > 0 {
			continue
		}
		if err != nil {
			_ = c.Close()
			return nil, uncounted(err, e, dir)
		}
		c.fds = append(c.fds, fd)
	}
	return c, nil
}

// Read gives the count since the beginning.
func (c *Counter) Read() (Count, error) {
	var sum Count
	var enabled, running uint64
	for _, fd := range c.fds {
		var b [24]byte // u64 value, time_enabled, time_running
		if n, err := unix.Read(fd, b[:]); err != nil || n != len(b) {
			return Count{}, fmt.Errorf("reading the count of %s in %s: %d bytes: %w", c.event.Name, c.dir, n, err)
		}
		r := reading{
			binary.NativeEndian.Uint64(b[:]),
			binary.NativeEndian.Uint64(b[8:]),
			binary.NativeEndian.Uint64(b[16:]),
		}
		sum.Value += r.projected()
		enabled, running = enabled+r.enabled, running+r.running
	}
	sum.Share = 1
	if enabled > 0 {
		sum.Share = float64(running) / float64(enabled)
	}
	return sum, nil
}

// reading is what one CPU's event says.
type reading struct{ value, enabled, running uint64 }

// projected is the value that the whole time would have had.
func (r reading) projected() uint64 {
	if r.running == 0 || r.running >= r.enabled {
		return r.value
	}
	return uint64(float64(r.value) * (float64(r.enabled) / float64(r.running)))
}

// Close ends the counting.
func (c *Counter) Close() error {
	var errs []error
	for _, fd := range c.fds {
		errs = append(errs, unix.Close(fd))
	}
	c.fds = nil
	return errors.Join(errs...)
}

// uncounted says why an event cannot be counted.
func uncounted(err error, e Event, dir string) error {
	what := fmt.Sprintf("counting %s in %s: perf_event_open: %v", e.Name, dir, err)
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		if level := sysctl(paranoidFile); level != "" {
			what += " (kernel.perf_event_paranoid is " + level + ")"
		}
		return &Refused{what, "run as root or with CAP_PERFMON", err}
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENODEV):
		return &Refused{what, "this host has no counter for it: a machine whose processor's counters are visible (a virtual one with a virtual PMU)", err}
	case errors.Is(err, unix.EBADF), errors.Is(err, unix.EINVAL):
		return &Refused{what, "the directory must be of the hierarchy that carries perf_event, and the kernel have CONFIG_CGROUP_PERF", err}
	case errors.Is(err, unix.EMFILE):
		return &Refused{what, "one descriptor a CPU is needed: raise the limit on open files (ulimit -n)", err}
	}
	return fmt.Errorf("counting %s in %s: perf_event_open: %w", e.Name, dir, err)
}
