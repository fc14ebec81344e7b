package offcpu

import (
	"fmt"
	"math"
	"time"

	"tare/probe/causes"
	"tare/study/kit"
)

// The parts of a reading that this page knows by name.
const (
	partSwitches   = "switches"
	partInterrupts = "interrupts"
	partStacks     = "stacks"
	partThrottling = "throttling"
)

// nearly is the share of time off the CPU below which nothing notable kept a program from
// running.
const nearly = 0.01

// hardly is the share of the time watched below which a program slept: its threads ran, or
// wanted to, for too little time to name a cause.
const hardly = 0.1

// Answer is the headline: what kept the program from running most.
func (w *Watched) Answer() string {
	r := &w.Reading
	name := w.Container.Name
	if why, absent := r.Lacks(partSwitches); absent {
		if r.Throttling.Throttled > 0 {
			return fmt.Sprintf("%s %s. Whether anything else kept it from running is unknown: %s.", name, throttledText(r), why)
		}
		return fmt.Sprintf("What kept %s from running is unknown: %s.", name, why)
	}
	blocked, idle := delays(r)
	off := blocked + r.Wait.Sum
	switch {
	case r.CPUTime == 0 && r.Blocked.Sum+r.Wait.Sum == 0:
		return fmt.Sprintf("%s did not run at all in %v: nothing woke it.", name, kit.Short(r.Span))
	case r.Throttling.Throttled == 0 && (off+r.CPUTime).Seconds() < hardly*r.Span.Seconds():
		// A sleep that outlasts the watching is not counted as blocked time.
		return fmt.Sprintf("%s slept for most of %v. Its threads wanted a CPU for %v, and waited for one for %s of that time.",
			name, kit.Short(r.Span), kit.Short(r.Wait.Sum+r.CPUTime), w.waited())
	case off.Seconds() < nearly*(off+r.CPUTime).Seconds():
		return fmt.Sprintf("%s was hardly kept from running: its threads ran for %s of their time.", name, percent(r.CPUTime, off+r.CPUTime)) + waitedForWork(idle)
	case r.Wait.Sum > blocked:
		waited := fmt.Sprintf("Its threads waited for a CPU for %s of the time in which they wanted one (%v in all).", w.waited(), kit.Short(r.Wait.Sum))
		switch {
		case throttled(r):
			return fmt.Sprintf("%s was held back mostly by its own CPU quota: it %s. %s", name, throttledText(r), waited) + waitedForWork(idle)
		case r.Throttling.Throttled > 0:
			return fmt.Sprintf("%s was held back mostly by other threads and its own CPU quota: it %s. %s", name, throttledText(r), waited) + waitedForWork(idle)
		}
		return fmt.Sprintf("%s was held back mostly by other threads. %s", name, waited) + waitedForWork(idle)
	}
	text := fmt.Sprintf("%s was mostly blocked: for %s of its threads' time", name, percent(blocked, off+r.CPUTime))
	if all, sum := obstacles(r.Off); blocked > 0 && len(all) > 0 && all[0].cause != work {
		text += fmt.Sprintf(
			", chiefly %s: %s (%s of that)",
			words[all[0].cause],
			all[0].through,
			percent(all[0].time, time.Duration(float64(sum)*blocked.Seconds()/r.Blocked.Sum.Seconds())),
		)
	}
	text += fmt.Sprintf(". Its threads waited for a CPU for %s of the time in which they wanted one.", w.waited())
	if r.Throttling.Throttled > 0 {
		text += " It " + throttledText(r) + "."
	}
	return text + waitedForWork(idle)
}

// waitedForWork says what is left out of a sentence.
func waitedForWork(idle time.Duration) string {
	if idle == 0 {
		return ""
	}
	return fmt.Sprintf(" Besides, they waited in accept, poll, select or sleep for %v in all: for work, or for another program's answer.", kit.Short(idle))
}

// waited is the share of the time in which threads wanted a CPU that they had none.
func (w *Watched) waited() string {
	return percent(w.Reading.Wait.Sum, w.Reading.Wait.Sum+w.Reading.CPUTime)
}

// throttled reports that threads waited for the quota rather than for other threads: it
// was used up in most periods, or for most of the waiting. The kernel counts a CPU's
// throttled time once for all threads that wait there, so it is a lower bound.
func throttled(r *causes.Reading) bool {
	t := r.Throttling
	return 2*t.Throttled > t.Periods || t.Throttled > 0 && 2*t.Time > r.Wait.Sum
}

func throttledText(r *causes.Reading) string {
	t := r.Throttling
	return fmt.Sprintf("was throttled in %d of %d periods, for %v of the %v watched", t.Throttled, t.Periods, kit.Short(t.Time), kit.Short(r.Span))
}

func percent(part, of time.Duration) string {
	if of <= 0 {
		return "none"
	}
	return digits(100*part.Seconds()/of.Seconds()) + " %"
}

// digits writes about three digits.
func digits(v float64) string {
	switch v = math.Abs(v); {
	case v == 0:
		return "0"
	case v >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
