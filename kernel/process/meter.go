package process

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Used is the CPU time of the process, of all its threads, those included that have
// ended; its children's is not in it. It is that of clock_getcpuclockid(3), from the
// scheduler's account in nanoseconds. The time of a thread that runs at this moment lags by
// up to a tick. The error wraps [ErrGone] where the process has been reaped.
func (h *Handle) Used() (time.Duration, error) {
	// MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) of include/linux/posix-timers_types.h.
	const sched = 2
	id := int32(^uint32(h.PID)<<3 | sched)
	var used unix.Timespec
	err := unix.ClockGettime(id, &used)
	// The clock goes by the id. What was read is this process' only if it has its id still.
	if gone := h.Signal(0); errors.Is(err, unix.EINVAL) || errors.Is(gone, ErrGone) {
		return 0, fmt.Errorf("process %d: %w", h.PID, ErrGone)
	}
	if err != nil {
		return 0, fmt.Errorf("reading the CPU time of process %d: %w", h.PID, err)
	}
	return time.Duration(used.Nano()), nil
}

// Meter adds up the CPU time of several processes. A reading takes two system calls for
// each of them, however many threads it has. Its methods may be called from several
// goroutines.
type Meter struct {
	mu        sync.Mutex
	processes []metered
}

type metered struct {
	handle *Handle
	used   time.Duration // when it was read last
}

// NewMeter takes hold of the processes. Those that have ended already are left out.
func NewMeter(pids []int) (*Meter, error) {
	m := &Meter{}
	for _, pid := range pids {
		id, err := Identify(pid)
		if err != nil {
			continue
		}
		handle, err := id.Open()
		if errors.Is(err, ErrGone) {
			continue
		}
		if err != nil {
			m.Close()
			return nil, err
		}
		m.processes = append(m.processes, metered{handle: handle})
	}
	return m, nil
}

// Read is the time that they have used so far. Of a process that has ended, or after
// Close, it is what was read last.
func (m *Meter) Read() (time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var total time.Duration
	for n := range m.processes {
		p := &m.processes[n]
		if p.handle != nil {
			used, err := p.handle.Used()
			switch {
			case errors.Is(err, ErrGone):
				_ = p.handle.Close()
				p.handle = nil
			case err != nil:
				return 0, err
			default:
				p.used = used
			}
		}
		total += p.used
	}
	return total, nil
}

// Close lets go of the processes. It may be called again.
func (m *Meter) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n := range m.processes {
		if p := &m.processes[n]; p.handle != nil {
			_ = p.handle.Close()
			p.handle = nil
		}
	}
}
