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

// nearly is the share of its time off the CPU below which nothing kept a program from
// running that would be worth a word.
const nearly = 0.01

// hardly is the share of the time watched below which all that its threads did, or were
// kept from, is too little to say what kept the program from running: it slept.
const hardly = 0.1

// Answer is one sentence: what kept the program from running most.
func (w *Watched) Answer() string {
	r := &w.Reading
	name := w.Container.Name
	if why, absent := r.Lacks(partSwitches); absent {
		if r.Throttling.Throttled > 0 {
			return fmt.Sprintf("%s %s; what else kept it from running cannot be told: %s.", name, throttledText(r.Throttling), why)
		}
		return fmt.Sprintf("What kept %s from running cannot be told: %s.", name, why)
	}
	off := r.Blocked.Sum + r.Wait.Sum
	switch {
	case r.CPUTime == 0 && off == 0:
		return fmt.Sprintf("%s did not run at all in %v: nothing woke it.", name, kit.Short(r.Span))
	case r.Throttling.Throttled == 0 && (off+r.CPUTime).Seconds() < hardly*r.Span.Seconds():
		// A sleep that outlasts the watching is no time that was counted.
		return fmt.Sprintf("%s slept: it did not want to run for most of %v; its threads wanted a CPU for %v, and waited for one for %s of that.", name, kit.Short(r.Span), kit.Short(r.Wait.Sum+r.CPUTime), w.waited())
	case off.Seconds() < nearly*(off+r.CPUTime).Seconds():
		return fmt.Sprintf("Nothing kept %s from running: its threads had a CPU for %s of their time.", name, percent(r.CPUTime, off+r.CPUTime))
	case r.Wait.Sum > r.Blocked.Sum:
		waited := fmt.Sprintf("its threads waited for a CPU for %s of the time in which they wanted one, %v in all", w.waited(), kit.Short(r.Wait.Sum))
		switch {
		case throttled(r):
			return fmt.Sprintf("What kept %s from running most is its own quota: it %s, and %s.", name, throttledText(r.Throttling), waited)
		case r.Throttling.Throttled > 0:
			return fmt.Sprintf("What kept %s from running most is waiting, behind other threads and for its quota: %s, and it %s.", name, waited, throttledText(r.Throttling))
		}
		return fmt.Sprintf("What kept %s from running most is waiting behind other threads: %s.", name, waited)
	}
	text := fmt.Sprintf("%s was mostly blocked, %s of its threads' time", name, percent(r.Blocked.Sum, off+r.CPUTime))
	if all, sum := obstacles(r.Off); len(all) > 0 && sum > 0 {
		text += fmt.Sprintf(", chiefly %s: %s (%s of that)", words[all[0].cause], all[0].through, percent(all[0].time, sum))
	}
	text += fmt.Sprintf("; of the time in which they wanted a CPU they waited for one for %s", w.waited())
	if r.Throttling.Throttled > 0 {
		text += ", and it " + throttledText(r.Throttling)
	}
	return text + "."
}

// waited is the share of the time in which threads wanted a CPU that they had none.
func (w *Watched) waited() string {
	return percent(w.Reading.Wait.Sum, w.Reading.Wait.Sum+w.Reading.CPUTime)
}

// throttled tells that it is the quota that threads waited for, rather than other
// threads: it was used up in most periods, or for most of the waiting. The kernel counts a
// CPU's throttled time once, however many threads wait there, so that this is the least of it.
func throttled(r *causes.Reading) bool {
	t := r.Throttling
	return 2*t.Throttled > t.Periods || t.Throttled > 0 && 2*t.Time > r.Wait.Sum
}

func throttledText(t causes.Throttling) string {
	return fmt.Sprintf("was throttled in %d of %d periods, for %v", t.Throttled, t.Periods, kit.Short(t.Time))
}

func percent(part, of time.Duration) string {
	if of <= 0 {
		return "none"
	}
	return digits(100*part.Seconds()/of.Seconds()) + " %"
}

// digits writes three of them or so.
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
