// Package quota predicts what a CPU quota does to a service's latency, before
// any quota is set: a discrete-event model of the kernel's bandwidth control
// (cpu.max, cfs_quota_us), driven by the CPU time that the service takes for a
// request and by how its requests arrive.
//
// # What it rests on
//
// The service's demand, its latency and its arrivals are measured without a
// quota; nothing is ever fitted to a measurement with one. The algorithm is the
// kernel's: Documentation/scheduler/sched-bwc.rst, kernel/sched/fair.c, and
// Turner, Rao and Rao, "CPU bandwidth control for CFS" (Linux Symposium 2010).
// See [Bandwidth] for the rules, and pool.go, which follows them one by one.
//
// # What it leaves out
//
//   - Demand is drawn independently for each request. A garbage collector, a
//     cache that is filled, a burst of dear requests comes in runs, and stalls
//     more requests at a time than the model says.
//   - The latency of the network and the client, which the quota does not touch,
//     is drawn independently too, from the measured latencies.
//   - The service has its CPUs to itself. Others there delay it more with a quota
//     than without: a task that is released does not preempt what runs
//     (unthrottle_cfs_rq reschedules an idle CPU alone), so what was held waits for
//     the next tick besides. On a CPU shared with busy tasks, stalls were seen to
//     last up to a tick longer than predicted.
//   - A request's work is one stretch on a CPU, and its reply leaves at the
//     stretch's end.
//   - The order in which tasks that wait for one CPU run. The kernel picks by what
//     each has had, which the model does not know: it draws one of them. In order of
//     arrival none would wait while others have a whole period's quota. A task gives
//     way to others at the first tick after 3 ms.
//   - Since Linux 6.18 a throttled task is held when it next returns to user
//     mode. What the kernel still does for it before that is not held here, and
//     not there; the model holds it at once, before its work.
//   - A parent group's quota, and timers that fire late.
package quota

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Bandwidth is a limit of CPU time, as the kernel enforces it:
//
//   - a pool of CPU time is filled up by Quota at each Period's end, to at most
//     Quota + Burst;
//   - a CPU that runs the group takes slices of [Kernel.Slice] from the pool, and
//     gives back all but 1 ms when its last task sleeps. What it keeps does not
//     expire;
//   - time used is accounted for when a task sleeps, when another wakes on its
//     CPU, and at the tick. So a CPU may run past what it has; it owes the rest,
//     which the next periods pay first;
//   - a CPU that has nothing left and gets nothing from the pool is throttled
//     until the pool is filled, or until another CPU gives back enough;
//   - the timer that fills the pool stops after a period in which no CPU took
//     anything, and starts again with the next that does, in its old phase.
type Bandwidth struct {
	Quota  time.Duration // in each period; 0 is no limit
	Period time.Duration // 0 is [DefaultPeriod]
	Burst  time.Duration // at most Quota, as the kernel wants it
}

// What the kernel accepts.
const (
	MinQuota      = time.Millisecond
	MinPeriod     = time.Millisecond
	MaxPeriod     = time.Second
	DefaultPeriod = 100 * time.Millisecond
)

func (b Bandwidth) check() error {
	if b.Quota == 0 {
		return nil
	}
	switch {
	case b.Quota < MinQuota:
		return fmt.Errorf("quota %v: the kernel takes none below %v", b.Quota, MinQuota)
	case b.Period < MinPeriod || b.Period > MaxPeriod:
		return fmt.Errorf("period %v: the kernel takes %v to %v", b.Period, MinPeriod, MaxPeriod)
	case b.Burst < 0 || b.Burst > b.Quota:
		return fmt.Errorf("burst %v: the kernel takes 0 to the quota, which is %v", b.Burst, b.Quota)
	}
	return nil
}

// Service is what is known of a service from running it without a quota.
type Service struct {
	Demand Demand
	// Base is its latency without a quota under the very [Arrival] that is
	// predicted, in microseconds, from the intended moments.
	Base *hdrhistogram.Histogram
	// Threads serve in parallel; 0 is one for each connection.
	Threads int
	// CPUs that it may run on; 0 is 1.
	CPUs int
}

// Demand is the CPU time of a request, user and system.
type Demand struct {
	Mean time.Duration
	// Low and High are the interval of the mean; both 0 where there is none.
	Low, High time.Duration
	// Shape is the spread between requests where it was measured: values of equal
	// probability, in ascending order, as multiples of the mean. Empty is none.
	Shape []float64
}

// Arrival is how requests come.
type Arrival struct {
	// Rate is that of an open loop, in requests per second; 0 is a closed loop.
	Rate float64
	// Poisson marks an open loop's exponential gaps, instead of even ones.
	Poisson bool
	// Connections carry one request at a time each; 0 is 1. In an open loop a
	// request that is due while all are busy waits, and the wait counts.
	Connections int
	// Think is how long a closed loop's connection waits after an answer.
	Think time.Duration
}

// Options say how long and how often it is simulated; the zero value will do.
type Options struct {
	// Requests of each rerun; 0 is [DefaultRequests]. Where an open loop asks for
	// more CPU time than the quota gives, latency grows for as long as one goes
	// on, so this should be the number that is to be predicted.
	Requests int
	// Reruns with other phases and other draws; 0 is [DefaultReruns]. A container's
	// period keeps its phase against the tick for life, and where a request's work
	// is near the quota the tail hangs on it: so there are several.
	Reruns int
	Seed   uint64
	// Stall is the latency above which a request counts as stalled; 0 is 1 ms.
	Stall time.Duration
	// Kernel is the host's; the zero value is [DefaultKernel].
	Kernel Kernel
}

// Defaults of [Options].
const (
	DefaultRequests = 50_000
	DefaultReruns   = 16
	DefaultStall    = time.Millisecond
)

// Figure is a predicted figure. Low and High are the least and the greatest of
// the reruns, those at the ends of the demand's interval among them.
type Figure struct{ Value, Low, High float64 }

// Prediction is what a service will do under a bandwidth.
type Prediction struct {
	Bandwidth Bandwidth
	// Latency is of all reruns at the mean demand, in microseconds, from the
	// intended moments.
	Latency *hdrhistogram.Histogram

	Mean, P50, P99, P999 Figure // microseconds
	Stalled              Figure // requests above the stall threshold, of a million
	ThrottledPeriods     Figure // in percent of the periods in which the timer ran
	ThrottledTime        Figure // for which CPUs with waiting tasks were held, in percent of the time
	Throughput           Figure // requests per second
	Share                Figure // CPU time used, in percent of one CPU

	// Overloaded says that an open loop asks for more CPU time than the group may
	// have, so that latency grows without end and describes this number of
	// requests only.
	Overloaded bool
}

func (s Service) withDefaults() (Service, error) {
	if s.CPUs == 0 {
		s.CPUs = 1
	}
	d := s.Demand
	switch {
	case d.Mean <= 0:
		return s, errors.New("the CPU time of a request is unknown: measure it without a quota")
	case d.Low < 0 || d.High < d.Low || d.High > 0 && (d.Mean < d.Low || d.Mean > d.High):
		return s, fmt.Errorf("CPU time of a request: mean %v lies outside its interval, %v to %v", d.Mean, d.Low, d.High)
	case s.Base == nil || s.Base.TotalCount() == 0:
		return s, errors.New("there are no latencies without a quota: measure them first")
	case s.CPUs < 0 || s.CPUs > maxCPUs:
		return s, fmt.Errorf("%d CPUs: want 1 to %d", s.CPUs, maxCPUs)
	case s.Threads < 0:
		return s, fmt.Errorf("%d threads: want 1 or more, or 0 for one a connection", s.Threads)
	}
	for i, v := range d.Shape {
		if math.IsNaN(v) || v < 0 || v > maxShape || i > 0 && v < d.Shape[i-1] {
			return s, fmt.Errorf("the demand's shape is no ascending list of multiples from 0 to %g", maxShape)
		}
	}
	return s, nil
}

// Bounds that keep a simulation finite.
const (
	maxCPUs        = 4096
	maxConnections = 1 << 16
	leastRequests  = 100
	maxRequests    = 10_000_000
	maxShape       = 1e6
)

func (a Arrival) withDefaults() (Arrival, error) {
	if a.Connections == 0 {
		a.Connections = 1
	}
	switch {
	case math.IsNaN(a.Rate) || a.Rate < 0 || a.Rate > 1e6 || a.Rate > 0 && a.Rate < 1e-3:
		return a, fmt.Errorf("rate %v: want 0 (closed loop), or 0.001 to 1e6 requests per second", a.Rate)
	case a.Connections < 1 || a.Connections > maxConnections:
		return a, fmt.Errorf("%d connections: want 1 to %d", a.Connections, maxConnections)
	case a.Think < 0:
		return a, fmt.Errorf("think time %v: want none, or more", a.Think)
	case a.Think > 0 && a.Rate > 0:
		return a, fmt.Errorf("think time %v: an open loop has none", a.Think)
	}
	return a, nil
}

func (o Options) withDefaults() (Options, error) {
	if o.Requests == 0 {
		o.Requests = DefaultRequests
	}
	if o.Reruns == 0 {
		o.Reruns = DefaultReruns
	}
	if o.Stall == 0 {
		o.Stall = DefaultStall
	}
	if o.Kernel == (Kernel{}) {
		o.Kernel = DefaultKernel
	}
	switch {
	case o.Requests < leastRequests || o.Requests > maxRequests:
		return o, fmt.Errorf("%d requests: want %d to %d", o.Requests, leastRequests, maxRequests)
	case o.Reruns < 1 || o.Reruns > 1000:
		return o, fmt.Errorf("%d reruns: want 1 to 1000", o.Reruns)
	case o.Stall < 0:
		return o, fmt.Errorf("a stall of %v: want a positive time", o.Stall)
	}
	return o, o.Kernel.check()
}
