// Package perfevent samples what the whole machine does: it opens one software
// clock event a CPU by perf_event_open(2), with the kernel's call chains, and
// with the records that say which process had which file mapped where.
//
// Beside that it counts an event in a control group ([Counter]).
//
// It is not a general perf: no tracepoints, no single process. It gives addresses;
// names are for others to find. Records are copied out of the kernel's rings as
// they are, which is cheap, and decoded later by [Format.Decode], which needs no
// kernel. Layouts are those of include/uapi/linux/perf_event.h; times are
// CLOCK_MONOTONIC.
package perfevent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sampling says what is recorded. The zero value of a field other than Hertz
// takes its default.
type Sampling struct {
	// Hertz is how often each CPU is sampled; the kernel's bound is sysctl
	// kernel.perf_event_max_sample_rate.
	Hertz int
	// RingBytes is the size of one CPU's ring, rounded up to a power of two
	// of pages; 2 MiB by default: two seconds of the longest call chains at
	// 1000 Hz, for a reader that waits its turn on a loaded machine. Where the
	// user may not lock so much memory the rings are made smaller.
	RingBytes int
}

const (
	defaultRingBytes = 2 << 20
	leastRingBytes   = 64 << 10
)

// Refused says that the kernel does not let us sample.
type Refused struct {
	What string // what was tried, and the kernel's answer
	Mend string // the capability or sysctl
	Err  error
}

func (r *Refused) Error() string { return r.What + ": " + r.Mend }
func (r *Refused) Unwrap() error { return r.Err }

// Bits of perf_event_attr that package unix does not name, and their field.
const (
	bitCgroup  = 1 << 32
	bitBuildID = 1 << 34

	formatLost = 1 << 4 // PERF_FORMAT_LOST
)

// sampleType is what each sample holds. Without PERF_SAMPLE_CGROUP before 5.7.
const sampleType = unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CPU |
	unix.PERF_SAMPLE_PERIOD | unix.PERF_SAMPLE_CALLCHAIN

// Sampler is the open events, one a CPU, and their rings. Its methods are for
// one goroutine, but Wake, which any may call.
type Sampler struct {
	rings  []*ring
	format Format
	lost   bool // the kernel counts what it lost
	wake   int  // eventfd that ends a Wait
	poll   []unix.PollFd

	mu     sync.Mutex // guards wake against Close
	closed bool
}

// Open makes the events, at rest. An error is a *[Refused] where a right is
// missing.
func Open(s Sampling) (*Sampler, error) {
	if s.Hertz <= 0 {
		return nil, fmt.Errorf("sample at %d Hz: at least 1 is needed", s.Hertz)
	}
	cpus, err := online()
	if err != nil {
		return nil, err
	}
	sampler := &Sampler{wake: -1}
	if err := sampler.open(s, cpus); err != nil {
		sampler.Close()
		return nil, err
	}
	return sampler, nil
}

func (s *Sampler) open(o Sampling, cpus []int) error {
	var err error
	if s.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	s.poll = append(s.poll, unix.PollFd{Fd: int32(s.wake), Events: unix.POLLIN})
	size := ringSize(o.RingBytes)
	var attr *unix.PerfEventAttr
	for _, cpu := range cpus {
		fd := -1
		if attr == nil {
			attr, fd, err = s.negotiate(o.Hertz, cpu)
		} else {
			fd, err = openEvent(attr, cpu)
		}
		// A CPU may have gone offline since the list was read.
		if errors.Is(err, unix.ENODEV) {
			continue
		}
		if err != nil {
			return refused(err, o.Hertz)
		}
		r, err := mapRing(fd, cpu, &size)
		if err != nil {
			unix.Close(fd)
			return err
		}
		s.rings = append(s.rings, r)
		s.poll = append(s.poll, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	if len(s.rings) == 0 {
		return errors.New("perf_event_open: no CPU is online")
	}
	return nil
}

// negotiate opens the first event with as much as the kernel knows of, newest
// given up first, and says with what.
func (s *Sampler) negotiate(hertz, cpu int) (*unix.PerfEventAttr, int, error) {
	var err error
	for _, with := range []struct{ lost, buildID, cgroup bool }{
		{true, true, true},    // 6.0
		{false, true, true},   // 5.12
		{false, false, true},  // 5.7
		{false, false, false}, // 4.1
	} {
		attr := attributes(hertz)
		s.format = Format{SampleType: sampleType}
		if s.lost = with.lost; with.lost {
			attr.Read_format = formatLost
		}
		if with.buildID {
			attr.Bits |= bitBuildID
		}
		if with.cgroup {
			attr.Bits |= bitCgroup
			s.format.SampleType |= unix.PERF_SAMPLE_CGROUP
		}
		attr.Sample_type = s.format.SampleType
		var fd int
		if fd, err = openEvent(attr, cpu); err == nil {
			return attr, fd, nil
		}
		if !errors.Is(err, unix.EINVAL) {
			break
		}
	}
	return nil, -1, err
}

func attributes(hertz int) *unix.PerfEventAttr {
	return &unix.PerfEventAttr{
		Type:   unix.PERF_TYPE_SOFTWARE,
		Size:   uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Sample: uint64(hertz),
		Bits: unix.PerfBitDisabled | unix.PerfBitFreq | unix.PerfBitWatermark | unix.PerfBitSampleIDAll |
			unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitTask |
			unix.PerfBitUseClockID,
		Clockid: unix.CLOCK_MONOTONIC,
	}
}

// openEvent leaves the watermark at 0, which is half of the ring.
func openEvent(attr *unix.PerfEventAttr, cpu int) (int, error) {
	return unix.PerfEventOpen(attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
}

const (
	paranoidFile = "/proc/sys/kernel/perf_event_paranoid"
	maxRateFile  = "/proc/sys/kernel/perf_event_max_sample_rate"
	mlockFile    = "/proc/sys/kernel/perf_event_mlock_kb"
)

// refused says why an event could not be opened.
func refused(err error, hertz int) error {
	what := fmt.Sprintf("perf_event_open of the CPU clock: %v", err)
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		if level := sysctl(paranoidFile); level != "" {
			what += " (kernel.perf_event_paranoid is " + level + ")"
		}
		return &Refused{what, "run as root or with CAP_PERFMON, or sysctl kernel.perf_event_paranoid=-1; in a container also allow perf_event_open in its seccomp profile", err}
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
		return &Refused{what, "a kernel with CONFIG_PERF_EVENTS", err}
	case errors.Is(err, unix.EMFILE):
		return &Refused{what, "one descriptor a CPU is needed: raise the limit on open files (ulimit -n)", err}
	case errors.Is(err, unix.EINVAL):
		if most, bad := strconv.Atoi(sysctl(maxRateFile)); bad == nil && hertz > most {
			return &Refused{fmt.Sprintf("%s (%d Hz asked, kernel.perf_event_max_sample_rate is %d)", what, hertz, most),
				fmt.Sprintf("ask for at most %d Hz, or sysctl kernel.perf_event_max_sample_rate=%d", most, hertz), err}
		}
	}
	return fmt.Errorf("perf_event_open of the CPU clock: %w", err)
}

// sysctl reads one value, "" where there is none.
func sysctl(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

const onlineFile = "/sys/devices/system/cpu/online"

// online lists the CPUs that are online.
func online() ([]int, error) {
	b, err := os.ReadFile(onlineFile)
	if err != nil {
		return nil, err
	}
	cpus, err := parseCPUs(string(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", onlineFile, err)
	}
	return cpus, nil
}

// parseCPUs parses the kernel's list format: "0-3,8".
func parseCPUs(list string) ([]int, error) {
	var cpus []int
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.ParseUint(from, 10, 16)
		last := first
		if err == nil && isRange {
			last, err = strconv.ParseUint(to, 10, 16)
		}
		if err != nil || last < first {
			return nil, fmt.Errorf("%q is no list of CPUs", list)
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, int(cpu))
		}
	}
	return cpus, nil
}

// Format is how the records are laid out.
func (s *Sampler) Format() Format { return s.format }

// CPUs is the number of CPUs that are sampled.
func (s *Sampler) CPUs() int { return len(s.rings) }

// Start lets the events count.
func (s *Sampler) Start() error { return s.control(unix.PERF_EVENT_IOC_ENABLE, "enable") }

// Stop brings them to rest. What they recorded can still be drained.
func (s *Sampler) Stop() error { return s.control(unix.PERF_EVENT_IOC_DISABLE, "disable") }

func (s *Sampler) control(request uint, verb string) error {
	for _, r := range s.rings {
		if err := unix.IoctlSetInt(r.fd, request, 0); err != nil {
			return fmt.Errorf("%s sampling of CPU %d: %w", verb, r.cpu, err)
		}
	}
	return nil
}

// Wait blocks until a ring is half full, [Sampler.Wake] is called, or the time
// is over; a negative time is never over. It reports whether it was woken by Wake.
func (s *Sampler) Wait(atMost time.Duration) (woken bool, err error) {
	limit := -1
	if atMost >= 0 {
		limit = int((atMost + time.Millisecond - 1) / time.Millisecond)
	}
	switch _, err := unix.Poll(s.poll, limit); {
	case errors.Is(err, unix.EINTR):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("poll of %d perf rings: %w", len(s.rings), err)
	}
	for i := range s.poll[1:] {
		// The event of a CPU that went offline hangs up for good: asked again
		// it would answer at once, again and again.
		if p := &s.poll[i+1]; p.Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0 {
			p.Fd = -1
		}
	}
	if s.poll[0].Revents&unix.POLLIN == 0 {
		return false, nil
	}
	var count [8]byte
	unix.Read(s.wake, count[:]) // takes the wake-up back; it cannot block
	return true, nil
}

// Wake ends a Wait, at once or the next one. It may be called from any
// goroutine, and after Close does nothing.
func (s *Sampler) Wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	one := binary.NativeEndian.AppendUint64(nil, 1)
	unix.Write(s.wake, one) // fails only when 2^64-2 wake-ups wait already
}

// Drain copies every record that waits, ring by ring, to the end of into, and
// gives the space back to the kernel. Records of one CPU come nearly in order of
// time, those of several CPUs not.
func (s *Sampler) Drain(into []byte) []byte {
	for _, r := range s.rings {
		into = r.drain(into)
	}
	return into
}

// Lost is how many records the kernel had no room for, by its own count; known
// is false where the kernel does not count (before 6.0): the [Lost] records then
// report all but those after the last one that found room.
func (s *Sampler) Lost() (n uint64, known bool) {
	if !s.lost {
		return 0, false
	}
	for _, r := range s.rings {
		var b [16]byte // the event's count, then the lost
		if got, err := unix.Read(r.fd, b[:]); err != nil || got != len(b) {
			return 0, false
		}
		n += binary.NativeEndian.Uint64(b[8:])
	}
	return n, true
}

// Close removes the events. It may be called again.
func (s *Sampler) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	for _, r := range s.rings {
		errs = append(errs, r.close())
	}
	if s.wake >= 0 {
		errs = append(errs, unix.Close(s.wake))
	}
	return errors.Join(errs...)
}
