package perfevent

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ticks are events that strike so often a second on each CPU, for a BPF program to
// be attached to: they have no ring.
//
// Where the processor's counters are visible, its cycles strike, on amd64 by an
// interrupt that cannot be masked: code that lets no interrupt in, as much of the
// scheduler does, is hit like any other. Elsewhere the CPU's clock strikes, whose
// interrupt waits there until interrupts are let in again: what it hits then is the
// place behind.
type Ticks struct {
	fds     []int
	precise bool
}

// OpenTicks makes them, at rest. An error is a *[Refused] where a right is missing.
func OpenTicks(hertz int) (*Ticks, error) {
	if hertz <= 0 {
		return nil, fmt.Errorf("strike at %d Hz: at least 1 is needed", hertz)
	}
	cycles := &unix.PerfEventAttr{Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_CPU_CYCLES}
	if t, err := openTicks(cycles, hertz); err == nil {
		t.precise = runtime.GOARCH == "amd64"
		return t, nil
	}
	return openTicks(&unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK}, hertz)
}

func openTicks(attr *unix.PerfEventAttr, hertz int) (*Ticks, error) {
	attr.Size = uint32(unsafe.Sizeof(*attr))
	attr.Sample = uint64(hertz)
	attr.Bits = unix.PerfBitDisabled | unix.PerfBitFreq
	cpus, err := online()
	if err != nil {
		return nil, err
	}
	t := &Ticks{}
	for _, cpu := range cpus {
		fd, err := openEvent(attr, cpu)
		// A CPU may have gone offline since the list was read.
		if errors.Is(err, unix.ENODEV) && len(t.fds) > 0 {
			continue
		}
		if err != nil {
			_ = t.Close()
			return nil, refused(err, hertz)
		}
		t.fds = append(t.fds, fd)
	}
	return t, nil
}

// Precise says that they strike where no interrupt is let in, too.
func (t *Ticks) Precise() bool { return t.precise }

// Descriptors are the events, one a CPU, which stay the Ticks'.
func (t *Ticks) Descriptors() []int { return t.fds }

// Start lets them strike.
func (t *Ticks) Start() error {
	for _, fd := range t.fds {
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
			return fmt.Errorf("let the CPUs' clocks strike: %w", err)
		}
	}
	return nil
}

// Close removes them. It may be called again.
func (t *Ticks) Close() error {
	var errs []error
	for _, fd := range t.fds {
		errs = append(errs, unix.Close(fd))
	}
	t.fds = nil
	return errors.Join(errs...)
}
