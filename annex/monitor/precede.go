package monitor

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"tare/annex"
	"tare/kernel/clock"
	"tare/kernel/process"
)

const (
	// glance is how long GiveWay sleeps before it looks again, twice as long each time. A request of
	// a service takes as long or some times that.
	glance = 50 * time.Microsecond
	// believed is for how long after one began to wait others give way to it. Who still waits then
	// waits for somebody else, or, having a quota of CPU time, for the next period; of one that was
	// moved to another control group nobody hears that it waits no more.
	believed = 100 * time.Millisecond
)

// Precede has a container come first: all processes in a control group and below it, given
// as for [Monitor.Watch]. [Monitor.GiveWay] gives way to them, and nothing else is reported of
// them. Unwatch ends it. Without BPF it has no effect.
func (m *Monitor) Precede(id annex.ID, dir string) error { return m.add(id, dir, true) }

// GiveWay sleeps while a task of a container that comes first waits for the CPU that the
// caller runs on, 50 us at first and then twice as long each time, and returns for how long it did: no
// longer than most, but for the last time. Who has waited for 100 ms is not helped by it, and not given
// way to any more.
//
// That is more than the scheduler does for them by itself: between control groups it divides a CPU by
// what each has waiting there, so that a service that seldom runs, of a group of many whose
// others wait elsewhere, comes after whoever works alone (update_cfs_group in the kernel's
// kernel/sched/fair.c); and sched_yield gives way within one's own control group only.
func (m *Monitor) GiveWay(most time.Duration) (gave time.Duration) {
	if !m.source.keepsWaiting() {
		return 0
	}
	defer func() { m.gave.Add(int64(gave)) }()
	began := clock.Monotonic()
	for now, sleep := began, glance; gave < most && clock.SleepUntil(now+min(sleep, most-gave)) == nil; sleep *= 2 {
		now = clock.Monotonic()
		if gave = now - began; !m.source.keepsWaiting() {
			break
		}
	}
	return gave
}

// Given is for how long all callers of GiveWay have slept together.
func (m *Monitor) Given() time.Duration { return time.Duration(m.gave.Load()) }

// waits is where tasks of containers that come first wait for CPUs, as bpf/monitor.c tells.
type waits struct{ memory *ebpf.Memory }

func openWaits(c *ebpf.Collection) (waits, error) {
	memory, err := c.Maps[objectMapWaits].Memory()
	if err != nil {
		return waits{}, fmt.Errorf("map where tasks wait: %w", err)
	}
	return waits{memory}, nil
}

// since is from when one waits for a CPU; false where none does.
func (w waits) since(cpu int) (annex.Moment, bool) {
	var value [8]byte
	if _, err := w.memory.ReadAt(value[:], int64(cpu)*int64(len(value))); err != nil {
		return 0, false
	}
	at := annex.Moment(binary.NativeEndian.Uint64(value[:]))
	return at, at != 0
}

// keepsWaiting tells that one waits for the CPU that the caller runs on.
func (s *stream) keepsWaiting() bool {
	cpu, err := process.CPU()
	if err != nil {
		return false
	}
	at, waiting := s.waits.since(cpu)
	return waiting && annex.Moment(clock.Monotonic()).Since(at) < believed
}

// keepsWaiting tells nothing: who waits is not seen.
func (p *poll) keepsWaiting() bool { return false }
