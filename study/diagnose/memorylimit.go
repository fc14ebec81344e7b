package diagnose

import (
	"fmt"
	"os"

	"tare/kernel/cgroup"
)

const (
	// readBack is what one page that was pushed out and is used again costs where nothing tells
	// the time: a read from a fast disk.
	readBack = 100e-6 // seconds
	// leastRefaults is the number a second below which a limit is large enough.
	leastRefaults = 10
)

// memoryLimit finds a limit below the working set: pages that were pushed out are used again
// (workingset_refault of memory.stat) while usage is at the limit. What it costs is the time of
// reading pages and of making room for them, on a CPU and off it, as far as the pages read were
// those: the others had to be read anyway. Where that was not recorded, memory pressure (PSI) is
// a bound from below, since it counts only pages that had been in active use; elsewhere the
// cost is estimated from the number.
func memoryLimit(_ *Host, f *Facts) []Finding {
	m, k := f.Used.Memory, &f.InKernel
	refaults := float64(m.Refaults) / f.Span.Seconds()
	isAtLimit := m.AtLimit > 0 || m.IsFull && f.Memory.Version == 1
	if f.Limit <= 0 || !isAtLimit || refaults < leastRefaults {
		return nil
	}
	cost := Cost{Rate: refaults * readBack, Events: refaults}
	based := Estimated
	part := 1.0
	if m.Read > 0 {
		part = min(1, float64(m.Refaults*page)/float64(m.Read))
	}
	switch {
	case k.BlockedIn > 0:
		used := k.Sampled.time(float64(k.Sampled.ReadBack))
		cost.Rate = part * (rate(used, f.Watched) + rate(k.ReadBack, k.BlockedIn))
		if m.Read >= 0 {
			based = Measured
		}
	case f.Used.HasStall:
		cost.Rate = rate(f.Used.MemoryStall, f.Span)
	}
	one := finding(f.Container, MemoryLimit, cost)
	one.Based = based
	one.Says = fmt.Sprintf("reads back %s/s that its memory limit pushed out", bytes(int64(refaults)*page))
	one.Evidence = []Fact{
		{"limit", bytes(f.Limit), "memory.max, or memory.limit_in_bytes"},
		{"usage", bytes(m.Usage), "memory.current, or memory.usage_in_bytes"},
		{"limit reached", reached(m), "memory.events; or memory.failcnt, memory.memsw.failcnt and usage"},
		{"pages used again", fmt.Sprintf("%d", m.Refaults), "workingset_refault of memory.stat"},
		{"major faults", fmt.Sprintf("%d", m.MajorFaults), "memory.stat"},
	}
	if k.BlockedIn > 0 {
		one.Evidence = append(one.Evidence,
			sampled("reading pages and making room, on a CPU", f, float64(k.Sampled.ReadBack)),
			Fact{"waiting for that", short(k.ReadBack) + " in " + short(k.BlockedIn), "sched_switch"},
			Fact{"of the pages read, those that had been pushed out", fmt.Sprintf("%.0f %%", 100*part), "workingset_refault, io.stat or blkio"})
	}
	if f.Used.HasStall {
		one.Evidence = append(one.Evidence, Fact{"time waited for memory", short(f.Used.MemoryStall) + " in " + short(f.Span), "memory.pressure"})
	}
	// What came back within the time is at most what is missing.
	more := min(m.Refaults*page, f.Limit)
	to := (f.Limit + more + mebibyte - 1) / mebibyte * mebibyte
	one.Set = []Remedy{{
		Says: fmt.Sprintf("a memory limit of at most %s", bytes(to)), Command: memoryCommand(f, to),
		Change: map[string]string{"memory": fmt.Sprintf("%db", to)},
	}}
	return []Finding{one}
}

func reached(m cgroup.Reclaim) string {
	if m.IsFull && m.AtLimit == 0 { // version 1, where recent kernels do not count
		return "now"
	}
	return fmt.Sprintf("%d times", m.AtLimit)
}

const mebibyte = 1 << 20

// page is the size of one, in bytes.
var page = int64(os.Getpagesize())
