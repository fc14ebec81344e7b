package diagnose

import (
	"fmt"
	"os"

	"tare/kernel/cgroup"
	"tare/report"
)

const (
	// assumedRead is what one page that was pushed out and is used again costs where nothing tells
	// the time: a read from a fast disk.
	assumedRead = 100e-6 // seconds
	// wholePart is the part of the pages read from which the cost is measured. Below, what is read otherwise (past the
	// page cache, by a swap in memory) may be no part of the time.
	wholePart = 0.9
	// leastRefaults is the number a second below which a limit is large enough.
	leastRefaults = 10
)

// memoryLimit finds a limit below the working set: pages that were pushed out are used again
// (workingset_refault of memory.stat) while usage is at the limit. It costs the time of
// reading pages and of making room for them, on a CPU and off it. That counts by the part of the
// pages read that had been pushed out: the others had to be read anyway. Where nothing was
// recorded, memory pressure (PSI) stands for it. It leaves out waits for pages that had not been
// in active use. Elsewhere the cost is estimated from the number of pages.
func memoryLimit(_ *Host, f *Facts) []Finding {
	m, k := f.Used.Memory, &f.InKernel
	if f.Limit > 0 && m.OOMKills > 0 {
		return []Finding{killed(f)}
	}
	refaults := float64(m.Refaults) / f.Span.Seconds()
	if f.Limit <= 0 || m.AtLimit == 0 && !m.HasMet || refaults < leastRefaults {
		return nil
	}
	cost := Cost{Rate: refaults * assumedRead, Events: refaults}
	based := Estimated
	// Fewer bytes read than came back: they are not counted, as by a network's file system.
	part, isCounted := 1.0, m.Read > 0 && m.Read >= m.Refaults*page*9/10
	if isCounted {
		part = min(1, float64(m.Refaults*page)/float64(m.Read))
	}
	switch {
	case k.hasReclaim():
		used := k.Sampled.time(float64(k.Sampled.Reclaim))
		cost.Rate = part * (rate(used, f.Watched) + rate(k.ReclaimWait, k.BlockedIn))
		if isCounted && part > wholePart && k.BlockedLost == 0 {
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
		{"limit reached", reached(m), "memory.events; or memory.failcnt, memory.max_usage_in_bytes"},
		{"pages used again", fmt.Sprintf("%d", m.Refaults), "workingset_refault of memory.stat"},
		{"major faults", fmt.Sprintf("%d", m.MajorFaults), "memory.stat"},
	}
	if k.hasReclaim() {
		one.Evidence = append(one.Evidence,
			sampled("reading pages and making room, on a CPU", f, float64(k.Sampled.Reclaim)),
			Fact{"waiting for that", short(k.ReclaimWait) + " in " + short(k.BlockedIn), "sched_switch"})
	}
	if isCounted {
		one.Evidence = append(one.Evidence, Fact{
			"of the bytes read, those that had been pushed out", fmt.Sprintf("%.0f %%", 100*part), "workingset_refault, io.stat or blkio",
		})
	}
	if f.Used.HasStall {
		one.Evidence = append(one.Evidence, Fact{"time waited for memory", short(f.Used.MemoryStall) + " in " + short(f.Span), "memory.pressure"})
	}
	// What came back within the time is at most what is missing. Where that is more than the limit, pages came
	// back again and again, and twice the limit is a step.
	says := "a memory limit of at most %s"
	more := m.Refaults * page
	if more > f.Limit {
		says, more = "a memory limit of %s as a first step, and another look", f.Limit
	}
	to := (f.Limit + more + mebibyte - 1) / mebibyte * mebibyte
	one.Set = []Remedy{{
		Says: fmt.Sprintf(says, bytes(to)), Command: memoryCommand(f, to),
		Change: map[string]string{"memory": fmt.Sprintf("%db", to)},
	}}
	return []Finding{one}
}

// killed is a limit at which the kernel killed processes. What that costs is unknown.
func killed(f *Facts) Finding {
	m := f.Used.Memory
	one := finding(f.Container, MemoryLimit, Cost{Events: float64(m.OOMKills) / f.Span.Seconds(), IsUnknown: true})
	one.Level = High
	one.Says = fmt.Sprintf("needs more memory than its limit of %s: %s killed", bytes(f.Limit), report.Counted(int(m.OOMKills), "process"))
	one.Evidence = []Fact{
		{"limit", bytes(f.Limit), "memory.max, or memory.limit_in_bytes"},
		{"killed", fmt.Sprintf("%d in %s", m.OOMKills, short(f.Span)), "oom_kill of memory.events, or of memory.oom_control"},
	}
	one.Set = []Remedy{{
		Says:    fmt.Sprintf("a memory limit of %s as a first step, and another look", bytes(2*f.Limit)),
		Command: memoryCommand(f, 2*f.Limit),
		Change:  map[string]string{"memory": fmt.Sprintf("%db", 2*f.Limit)},
	}}
	return one
}

// hasReclaim reports whether the time of reading pages and making room was recorded. Where no function of the kernel
// was met that does so, it has other names for them.
func (k *InKernel) hasReclaim() bool {
	return k.BlockedIn > 0 && k.Sampled.All > 0 && (k.Sampled.Reclaim > 0 || k.ReclaimWait > 0)
}

func reached(m cgroup.Reclaim) string {
	if m.AtLimit == 0 { // version 1
		return "once at least"
	}
	return fmt.Sprintf("%d times", m.AtLimit)
}

const mebibyte = 1 << 20

// page is the size of one, in bytes.
var page = int64(os.Getpagesize())
