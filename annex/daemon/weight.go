package daemon

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"tare/annex"
	"tare/kernel/process"
)

// What the daemon allows itself. Two processors let a scan go on beside the loop. Garbage is
// collected when it is four times what is in use, which is some MiB: at half as much as is in
// use, a third of what the daemon itself computes would be that. GOGC in its environment says
// otherwise.
const (
	processors   = 2
	garbageShare = 400
	// badness has the kernel end others first where it has to end some: without the daemon
	// whatever is in swap comes back by faults alone, which is slow but harmless.
	badness = -500
)

// Light has this program take little, and be ended late: for whoever runs a daemon, once
// at its start. The error says that it cannot be kept from being ended early.
func Light() error {
	runtime.GOMAXPROCS(processors)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbageShare)
	}
	return process.SetOOMScore(badness)
}

// weight is the processor time that the program used, over time.
type weight struct {
	samples []used // the last minute's, oldest first
}

type used struct {
	at      annex.Moment
	cpu     time.Duration
	waited  time.Duration // for a processor
	isKnown bool          // waited is known
}

const (
	weighEvery = 10 * time.Second
	weighOver  = time.Minute
)

// sample notes what was used so far.
func (w *weight) sample(at annex.Moment) {
	cpu, err := process.CPUTime()
	if err != nil {
		return
	}
	waited, err := process.Waited()
	w.samples = append(w.samples, used{at, cpu, waited, err == nil})
	for len(w.samples) > 2 && at.Since(w.samples[1].at) >= weighOver {
		w.samples = w.samples[1:]
	}
}

// share is what was used of one processor; false where that is not known yet.
func (w *weight) share() (float64, bool) {
	if len(w.samples) < 2 {
		return 0, false
	}
	first, last := w.samples[0], w.samples[len(w.samples)-1]
	took := last.at.Since(first.at)
	if took <= 0 {
		return 0, false
	}
	return float64(last.cpu-first.cpu) / float64(took), true
}

// A daemon is starved that waits for a processor for so much of the time, and so many times
// as long as it runs. Measured beside thirty neighbours on two processors: as long as it runs
// where there is room; four times where they are all taken and it weighs as much as all
// others, which it does well with; and 11 to 180 times where it weighs a twentieth of that,
// and neighbours are killed for want of memory.
const (
	starvedShare = 0.3
	starvedTimes = 8
)

// starved says that it gets too little of the processors; empty where it does not.
func (w *weight) starved() string {
	if len(w.samples) < 2 {
		return ""
	}
	first, last := w.samples[0], w.samples[len(w.samples)-1]
	took, ran, waited := last.at.Since(first.at), last.cpu-first.cpu, last.waited-first.waited
	if !first.isKnown || !last.isKnown || float64(waited) < starvedShare*float64(took) || waited < starvedTimes*ran {
		return ""
	}
	return fmt.Sprintf("annexd waits for a processor: its threads were ready to run for %v of the last %v together, and ran for %v, so that what it frees and fetches comes late: raise CPUWeight= of its unit, or cpu.weight (version 1: cpu.shares) of its control group",
		waited.Round(time.Second), took.Round(time.Second), ran.Round(100*time.Millisecond))
}

// residentBytes is the program's own memory; 0 where it is not reported.
func residentBytes() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
