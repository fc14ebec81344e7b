package load

import (
	"fmt"
	"math"
	"time"
)

// Arrival is how the moments of a schedule are spaced.
type Arrival string

// The arrivals. The zero value is Uniform.
const (
	Uniform Arrival = "uniform" // evenly
	Poisson Arrival = "poisson" // independently: exponential gaps
	AtOnce  Arrival = "at-once" // all at the start: there is no rate, and Count tells how many
)

// Defaults of Options.
const (
	DefaultConnections = 16
	DefaultTimeout     = 10 * time.Second
)

// longest keeps sums of durations from overflowing; nobody loads longer.
const longest = 1000 * time.Hour

// Options say how a service is loaded.
type Options struct {
	// Rate is the schedule's mean, in requests per second, up to 1e6. 0 is a
	// closed loop: every connection sends as soon as it has its answer; but where all
	// requests arrive [AtOnce].
	Rate float64
	// Arrival spaces an open loop's requests.
	Arrival Arrival
	// Seed determines a Poisson schedule.
	Seed uint64
	// Moments, where there are any, are the schedule instead, ascending: without a rate, a
	// warm-up, a duration or a count.
	Moments []time.Duration
	// Connections bounds the requests under way; 0 is DefaultConnections.
	Connections int
	// Warmup is loaded like the rest and then forgotten: answers, errors and
	// histograms of requests that were due within it.
	Warmup time.Duration
	// Duration and Count bound the part that is kept, whichever comes first;
	// at least one is set.
	Duration time.Duration
	Count    int64
	// Timeout bounds each request from its sending, and how long after the
	// schedule's end the backlog may drain; 0 is DefaultTimeout.
	Timeout time.Duration
	// Punctual drives the one connection from a thread of its own at the least
	// real-time priority, where the kernel allows it: it sends, and sees answers,
	// when they are due, and not when other programs on its CPU have had their
	// turn. It is for a connection that polls ([Polling]): what is slept for still
	// comes by the runtime's ordinary threads. Polling keeps the CPU from the rest
	// of the host, to which the kernel reserves a twentieth of each second: where
	// something else wants it, a request a second waits for that.
	Punctual bool
	// Batches, where above 0, has the kept part reported in so many spans of equal length,
	// too. Duration alone bounds it then.
	Batches int
	// Each, where set, is called with every request that Result counts as answered, as
	// it is recorded. Nothing else is recorded meanwhile, so it has to be quick.
	Each func(Answered)
}

// Answered is when one request was due, sent and answered, since the load began.
// In a closed loop it is due when it is sent.
type Answered struct {
	Intended, Sent, Answered time.Duration
}

// open tells whether requests come by a schedule, whatever the service does.
func (o Options) open() bool { return o.Rate > 0 || o.Arrival == AtOnce || len(o.Moments) > 0 }

// withDefaults fills in the zero values, or says what is wrong.
func (o Options) withDefaults() (Options, error) {
	if o.Connections == 0 {
		o.Connections = DefaultConnections
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Arrival == "" {
		o.Arrival = Uniform
	}
	switch {
	case math.IsNaN(o.Rate) || o.Rate < 0 || o.Rate > 1e6 || o.Rate > 0 && o.Rate < 1e-3:
		return o, fmt.Errorf("load: rate %v: want 0 (closed loop), or 0.001 to 1e6 requests per second", o.Rate)
	case o.Arrival != Uniform && o.Arrival != Poisson && o.Arrival != AtOnce:
		return o, fmt.Errorf("load: arrival %q: want %s, %s or %s", o.Arrival, Uniform, Poisson, AtOnce)
	case len(o.Moments) > 0 && (o.Rate != 0 || o.Arrival != Uniform || o.Warmup+o.Duration != 0 || o.Count != 0):
		return o, fmt.Errorf("load: moments are a schedule of their own: set neither rate nor arrival, warmup, duration or count")
	case o.Arrival == AtOnce && (o.Rate != 0 || o.Warmup != 0 || o.Duration != 0):
		return o, fmt.Errorf("load: arrival %s has neither rate nor warmup nor duration: set a count alone", AtOnce)
	case o.Connections < 1 || o.Connections > 1<<16:
		return o, fmt.Errorf("load: %d connections: want 1 to %d", o.Connections, 1<<16)
	case o.Warmup < 0 || o.Duration < 0 || o.Timeout < 0 || o.Count < 0:
		return o, fmt.Errorf("load: a negative warmup, duration, timeout or count")
	case max(o.Warmup, o.Duration, o.Timeout) > longest:
		return o, fmt.Errorf("load: a warmup, duration or timeout above %v", longest)
	case o.Punctual && o.Connections != 1:
		return o, fmt.Errorf("load: punctual over %d connections: want 1, for the runtime shares its few processors among their threads", o.Connections)
	case o.Duration == 0 && o.Count == 0 && len(o.Moments) == 0:
		return o, fmt.Errorf("load: neither duration nor count bounds it: set one")
	}
	return o, o.checkBatches()
}
