package simulate

import (
	"math"
	"slices"
	"time"

	"tare/annex"
)

// Quantiles are of how long something took; all are 0 where there was nothing.
type Quantiles struct {
	Count int           `json:"count"`
	P50   time.Duration `json:"p50_ns"`
	P99   time.Duration `json:"p99_ns"`
	P999  time.Duration `json:"p999_ns"`
	Most  time.Duration `json:"max_ns"`
}

func quantiles(all []time.Duration) Quantiles {
	if len(all) == 0 {
		return Quantiles{}
	}
	slices.Sort(all)
	at := func(q float64) time.Duration {
		return all[min(max(int(math.Ceil(q*float64(len(all))))-1, 0), len(all)-1)]
	}
	return Quantiles{len(all), at(0.5), at(0.99), at(0.999), all[len(all)-1]}
}

// Report is what a policy did to a trace, counted from the end of the warm-up on.
type Report struct {
	Policy string `json:"policy"`
	// Seconds is over how long it was counted.
	Seconds float64 `json:"seconds"`
	// Critical are the requests of critical containers, from when they came; Requests those of the
	// others.
	Critical Quantiles `json:"critical_requests"`
	Requests Quantiles `json:"other_requests"`
	// Bursts are activations of containers that are not critical, from when they were to begin;
	// Delays is what of that was not their own work.
	Bursts Quantiles `json:"bursts"`
	Delays Quantiles `json:"burst_delays"`

	// Touches are uses of pages; of these Demand waited for the device to read one, Late for one
	// that was on its way, and Minor found it there, but not mapped.
	Touches int `json:"touches"`
	Demand  int `json:"demand_faults"`
	Late    int `json:"late_faults"`
	Minor   int `json:"minor_faults"`
	// Reclaims are how often a container had to reclaim for itself.
	Reclaims int `json:"direct_reclaims"`
	// In and Out are pages that the device read and wrote. Ahead are those of In that nobody
	// waited for yet, and Wasted those that left again without having been used.
	In     int `json:"pages_in"`
	Out    int `json:"pages_out"`
	Ahead  int `json:"pages_ahead"`
	Wasted int `json:"pages_wasted"`
	// Errors are pages that were missed within two seconds of having left.
	Errors int `json:"evict_errors"`
	// CriticalStall is how long critical containers waited for memory in all.
	CriticalStall time.Duration `json:"critical_stall_ns"`
}

// report tells what was counted.
func (w *world) report() *Report {
	r := &Report{
		Policy: w.policy.Name, Seconds: max(w.last.Since(origin.After(w.host.Warm)), 0).Seconds(),
		Touches: w.touches, Demand: w.demand, Late: w.late, Minor: w.minor, Reclaims: w.reclaims,
		In: w.in, Out: w.out, Ahead: w.ahead, Wasted: w.wasted, Errors: w.errors, CriticalStall: w.stalled,
	}
	var critical, requests, bursts, delays []time.Duration
	for _, c := range w.containers {
		if c.class == annex.Critical {
			critical = append(critical, c.requests...)
			continue
		}
		requests = append(requests, c.requests...)
		bursts = append(bursts, c.bursts...)
		delays = append(delays, c.delays...)
	}
	r.Critical, r.Requests = quantiles(critical), quantiles(requests)
	r.Bursts, r.Delays = quantiles(bursts), quantiles(delays)
	return r
}
