package place

import (
	"fmt"
	"time"

	"tare/probe/bursts"
	"tare/study/kit"
)

// Behaviour is how a container uses CPUs.
type Behaviour string

// The behaviours.
const (
	Critical Behaviour = "latency-critical" // short bursts, often woken, low demand
	CPUBound Behaviour = "CPU-bound"        // long bursts, seldom blocked, high demand
	Idle     Behaviour = "idle"
	Mixed    Behaviour = "mixed" // neither, or both
)

// Evidence holds the figures by which a container's behaviour is classified.
type Evidence struct {
	Span time.Duration
	// Share is the CPU time, in CPUs; Wanted that with the time of waiting for one.
	Share, Wanted float64
	Wakeups       float64 // a second
	// Unhindered is how often it would be woken if it never waited for a CPU: who
	// is kept from answering is asked less often.
	Unhindered float64
	Switches   float64 // a second, of both kinds
	// Voluntary is the part of the switches that were its own.
	Voluntary                 float64
	BurstMedian, BurstP99     time.Duration
	LongShare                 float64 // of the CPU time, in bursts longer than the threshold
	Waits                     uint64
	WaitMedian, WaitP99       time.Duration
	BlockedMedian, LongestRun time.Duration
	// PerCPU is the CPU time on each CPU, in CPUs.
	PerCPU []float64
}

// evidence reads it off what was recorded of a container.
func evidence(g *bursts.Group, span time.Duration, t Thresholds) Evidence {
	seconds := span.Seconds()
	if seconds <= 0 {
		return Evidence{}
	}
	all, waits := g.AllBursts(), g.AllWaits()
	e := Evidence{
		Span:  span,
		Share: g.CPUTime.Seconds() / seconds, Wakeups: float64(g.Wakeups) / seconds,
		Switches:    float64(g.Voluntary+g.Involuntary) / seconds,
		BurstMedian: all.Quantile(0.5), BurstP99: all.Quantile(0.99), LongestRun: all.Quantile(1),
		Waits: waits.Count(), WaitMedian: waits.Quantile(0.5), WaitP99: waits.Quantile(0.99),
		BlockedMedian: g.Blocked.Quantile(0.5),
		LongShare:     longShare(all, t.LongBurst),
	}
	e.Wanted = e.Share + waits.Sum().Seconds()/seconds
	e.Unhindered = e.Wakeups
	if free := g.CPUTime + g.Blocked.Sum(); free > 0 {
		e.Unhindered *= float64(free+waits.Sum()) / float64(free)
	}
	if n := g.Voluntary + g.Involuntary; n > 0 {
		e.Voluntary = float64(g.Voluntary) / float64(n)
	}
	for _, c := range g.PerCPU {
		e.PerCPU = append(e.PerCPU, c.CPUTime.Seconds()/seconds)
	}
	return e
}

// longShare is the part of the time in bursts longer than long.
func longShare(h *bursts.Histogram, long time.Duration) float64 {
	var longer, all float64
	for step, n := range h.Steps {
		time := float64(n) * float64(step.Low+step.High) / 2
		if all += time; step.Low >= long {
			longer += time
		}
	}
	if all == 0 {
		return 0
	}
	return longer / all
}

// Classify gives a behaviour, and the reason. cpus is how many the container may use.
func Classify(e Evidence, cpus int, t Thresholds) (Behaviour, string) {
	switch {
	case e.Share < t.IdleShare && e.Wanted < t.HighDemand && e.Wakeups < t.IdleWakeups:
		return Idle, fmt.Sprintf("%s of a CPU, %s wake-ups/s", percent(e.Share), digits(e.Wakeups))
	case e.LongShare >= t.LongShare && e.Wanted >= t.HighDemand:
		return CPUBound, fmt.Sprintf("%s of CPU time in bursts longer than %v, demand %s CPUs", percent(e.LongShare), t.LongBurst, digits(e.Wanted))
	}
	var not string
	switch demand := e.Share / float64(max(1, cpus)); {
	case e.Unhindered < t.Wakeups:
		not = fmt.Sprintf("%s wake-ups/s, under %s", digits(e.Unhindered), digits(t.Wakeups))
	case e.BurstMedian > t.BurstMedian:
		not = fmt.Sprintf("burst p50 %v, over %v", kit.Short(e.BurstMedian), kit.Exact(t.BurstMedian))
	case e.BurstP99 > t.BurstP99:
		not = fmt.Sprintf("burst p99 %v, over %v", kit.Short(e.BurstP99), kit.Exact(t.BurstP99))
	case demand > t.LowDemand:
		not = fmt.Sprintf("uses %s of its CPUs, over %s", percent(demand), percent(t.LowDemand))
	default:
		if e.Unhindered > 2*e.Wakeups {
			return Critical, fmt.Sprintf("%s wake-ups/s if it did not wait, burst p50 %v, %s of a CPU",
				digits(e.Unhindered), kit.Short(e.BurstMedian), percent(e.Share))
		}
		return Critical, fmt.Sprintf("%s wake-ups/s, burst p50 %v, %s of a CPU", digits(e.Wakeups), kit.Short(e.BurstMedian), percent(e.Share))
	}
	return Mixed, not
}

func percent(share float64) string { return digits(100*share) + " %" }

// digits writes three of them or so.
func digits(v float64) string {
	switch {
	case v >= 99.5:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
