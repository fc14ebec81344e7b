package diagnose

import (
	"fmt"
	"os"
)

const (
	// readBack is what one page that was pushed out and is used again costs where the
	// kernel does not count the time: a read from a fast disk. With PSI it is not used.
	readBack = 100e-6 // seconds
	// leastRefaults is the number a second below which a limit is large enough.
	leastRefaults = 10
)

// memoryLimit finds a limit below the working set: pages that were pushed out are used again
// (workingset_refault of memory.stat) while usage is at the limit. What it costs is the
// group's own memory pressure (PSI, version 2); elsewhere it is estimated from the number.
func memoryLimit(_ *Host, f *Facts) []Finding {
	m := f.Used.Memory
	refaults := float64(m.Refaults) / f.Span.Seconds()
	if f.Limit <= 0 || m.AtLimit == 0 || refaults < leastRefaults {
		return nil
	}
	cost := Cost{Rate: refaults * readBack, Events: refaults}
	based := Estimated
	if f.Used.HasStall {
		cost.Rate, based = rate(f.Used.MemoryStall, f.Span), Measured
	}
	one := finding(f.Container, MemoryLimit, cost)
	one.Based = based
	one.Says = fmt.Sprintf("reads back %s/s that its memory limit pushed out", bytes(int64(refaults)*page))
	one.Evidence = []Fact{
		{"limit", bytes(f.Limit), "memory.max, or memory.limit_in_bytes"},
		{"usage", bytes(m.Usage), "memory.current, or memory.usage_in_bytes"},
		{"limit reached", fmt.Sprintf("%d times", m.AtLimit), "memory.events, or memory.failcnt"},
		{"pages used again", fmt.Sprintf("%d", m.Refaults), "workingset_refault of memory.stat"},
		{"major faults", fmt.Sprintf("%d", m.MajorFaults), "memory.stat"},
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

const mebibyte = 1 << 20

// page is the size of one, in bytes.
var page = int64(os.Getpagesize())
