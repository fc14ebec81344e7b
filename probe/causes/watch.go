package causes

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"tare/kernel/clock"
	"tare/kernel/host"
	"tare/kernel/kallsyms"
	"tare/probe"
	"tare/probe/bursts"
)

// The parts of a reading that may be absent.
const (
	partSwitches   = "switches"
	partInterrupts = "interrupts"
	partStacks     = "stacks"
	partAccounting = "accounting"
	partThrottling = "throttling"
)

// hertz is how often a CPU is sampled: see [tare/probe/profile.DefaultHertz].
const hertz = 997

// Watch goes on until it is stopped.
type Watch struct {
	began     time.Duration
	recording *bursts.Recording // nil where switches are absent
	names     *names            // nil where no stacks are kept
	quota     *quota            // nil where throttling is absent
	absent    []Absence

	mu   sync.Mutex
	done *Reading
	err  error
}

// Start begins to watch. What this kernel lacks is absent from the reading, part by
// part; the error is a [*probe.Missing] where nothing is left to report.
func Start(t Target, o Options) (*Watch, error) {
	if t.Cgroup == "" && len(t.PIDs) == 0 {
		return nil, errors.New("watch for causes: the target names neither a control group nor processes")
	}
	w := &Watch{}
	noQuota := w.startThrottling(t)
	if err := w.startRecording(t, o); err != nil {
		missing := (*probe.Missing)(nil)
		if !errors.As(err, &missing) {
			if w.quota != nil {
				_, _, _, _ = w.quota.stop() // what was read is of no use by itself
			}
			return nil, fmt.Errorf("watch for causes: %w", err)
		}
		if noQuota {
			return nil, err
		}
		w.lacks(partSwitches, err)
	}
	if w.recording != nil && o.Stacks {
		if _, absent := (&Reading{Absent: w.absent}).Lacks(partStacks); !absent {
			w.names = startNames(w.recording)
		}
	}
	w.began = clock.Monotonic()
	return w, nil
}

func (w *Watch) lacks(part string, reason error) {
	w.absent = append(w.absent, Absence{part, reason.Error()})
}

func (w *Watch) startThrottling(t Target) (absent bool) {
	group, err := quotaGroup(t)
	if err == nil {
		w.quota, err = startQuota(counted(group), clock.Monotonic)
	}
	if err != nil {
		w.lacks(partThrottling, err)
		return true
	}
	return false
}

// startRecording begins with all that is asked for. Where the kernel does not take
// that, each part is tried by itself, so that one does not take the others with it.
func (w *Watch) startRecording(t Target, o Options) error {
	targets := []bursts.Target{{Name: "target", Cgroup: t.Cgroup, PIDs: t.PIDs}}
	counting := bursts.Options{ExplainFrom: -1, Weigh: o.Weigh}
	parts := []struct {
		name string
		on   bool
		add  func(*bursts.Options)
	}{
		{partInterrupts, true, func(b *bursts.Options) { b.Interrupts = true }},
		{partStacks, o.Stacks, func(b *bursts.Options) { b.Stacks = true }},
		{partAccounting, o.Accounting, func(b *bursts.Options) { b.Hertz = hertz }},
	}
	all := counting
	for _, p := range parts {
		if p.on {
			p.add(&all)
		}
	}
	recording, err := bursts.Start(targets, all)
	if err == nil {
		w.recording = recording
		return nil
	}
	if recording, err = bursts.Start(targets, counting); err != nil {
		return err
	}
	have := counting
	for _, p := range parts {
		if !p.on {
			continue
		}
		with := have
		p.add(&with)
		better, err := bursts.Start(targets, with)
		if err != nil {
			w.lacks(p.name, err)
			continue
		}
		_, _ = recording.Stop()
		recording, have = better, with
	}
	w.recording = recording
	return nil
}

// Stop ends it and gives what was seen, after which nothing of it is left in the
// kernel. It may be called again.
func (w *Watch) Stop() (Reading, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done == nil {
		r := Reading{Span: clock.Monotonic() - w.began, CPUs: host.ReadTopology("/").CPUs(), Absent: w.absent}
		w.stopThrottling(&r)
		w.err = w.stopRecording(&r)
		w.done = &r
	}
	return *w.done, w.err
}

func (w *Watch) stopThrottling(r *Reading) {
	if w.quota == nil {
		return
	}
	before, after, stale, err := w.quota.stop()
	if err != nil {
		r.Absent = append(r.Absent, Absence{partThrottling, err.Error()})
		return
	}
	r.Throttling = Throttling{
		Periods:   after.Periods - before.Periods,
		Throttled: after.Throttled - before.Throttled,
		Time:      after.ThrottledTime - before.ThrottledTime,
		Stale:     stale,
	}
	if w.recording == nil {
		r.CPUTime = after.CPU - before.CPU
	}
}

func (w *Watch) stopRecording(r *Reading) error {
	if w.recording == nil {
		return nil
	}
	if w.names != nil {
		w.names.stop()
		defer w.names.close()
	}
	seen, err := w.recording.Stop()
	if err != nil {
		return fmt.Errorf("watch for causes: %w", err)
	}
	g := &seen.Groups[0]
	r.Span, r.CPUTime = seen.Span(), g.CPUTime
	for _, c := range g.PerCPU {
		if c.CPUTime > 0 {
			r.Used++
		}
	}
	r.Burst, r.Wait = distributionOf(g.AllBursts()), distributionOf(g.AllWaits())
	r.Run, r.Blocked = distributionOf(&g.Run), distributionOf(&g.Blocked)
	r.Wakeups, r.Voluntary, r.Involuntary, r.Migrations = g.Wakeups, g.Voluntary, g.Involuntary, g.Migrations
	if _, absent := r.Lacks(partInterrupts); !absent {
		r.Interrupts = Interrupts{
			Hard: g.Hard, Soft: g.Soft, Wakeups: g.InterruptWakeups, Elsewhere: g.InterruptElsewhere,
			Other: g.Wakeups - min(g.Wakeups, g.InterruptWakeups), OtherElsewhere: g.OtherElsewhere,
		}
	}
	r.Lost, r.Weight = seen.Lost, seen.Weight.Time
	return w.name(r, seen)
}

// name gives stacks and samples their functions' names.
func (w *Watch) name(r *Reading, seen *bursts.Reading) error {
	g := &seen.Groups[0]
	if len(g.Absences) == 0 && len(g.Samples) == 0 {
		return nil
	}
	table, err := kallsyms.Load()
	if err != nil {
		for _, part := range []string{partStacks, partAccounting} {
			if _, absent := r.Lacks(part); !absent && (part == partAccounting && len(g.Samples) > 0 ||
				part == partStacks && w.names != nil) {
				r.Absent = append(r.Absent, Absence{part, "the kernel's functions have no names: " + err.Error()})
			}
		}
		return nil
	}
	kernel := func(address uint64) string {
		s, _, _ := table.Lookup(address)
		return s.Name
	}
	if len(g.Samples) > 0 {
		r.Accounting = accountingOf(g.Samples, seen.Precise, kernel)
		if !seen.Precise {
			r.Absent = append(r.Absent, Absence{partAccounting, blind})
		}
	}
	if w.names != nil {
		r.Off = w.names.stacks(g.Absences, kernel)
	}
	return nil
}
