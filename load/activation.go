package load

import (
	"fmt"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Pattern is how a client turns to one of many services after another.
type Pattern string

// The patterns. In all of them the rate of requests is the same however many services
// there are.
const (
	// RandomTarget asks a service drawn evenly for each request (S3).
	RandomTarget Pattern = "random"
	// PeriodicTarget gives each service its turn, in an order drawn once, for a burst.
	PeriodicTarget Pattern = "periodic"
	// PoissonTarget draws the time to the next burst exponentially, and its service evenly.
	PoissonTarget Pattern = "poisson"
	// HeavyTailedTarget draws the time to the next burst from a Pareto distribution, of
	// shape 1.5, and services by Zipf's law, so that some are hardly ever asked. Its rate
	// converges slowly: over a few dozen bursts it is mostly higher, and at times far lower.
	HeavyTailedTarget Pattern = "heavy-tailed"
	// DriftingTarget asks an eighth of the services at a time, in the order drawn once,
	// and goes on by one of them every eight bursts. The seed says where it begins.
	DriftingTarget Pattern = "drifting"
)

// Patterns lists the patterns.
var Patterns = []Pattern{RandomTarget, PeriodicTarget, PoissonTarget, HeavyTailedTarget, DriftingTarget}

// ActivationOptions say how one client asks many services.
type ActivationOptions struct {
	Pattern Pattern
	// Think is the pause between two requests in the mean: after an answer where the
	// loop is closed, between intended starts where it is open.
	Think time.Duration
	// Open has requests, or bursts, come by a schedule, with latency from the intended
	// start; else the one client waits for its answer and then for Think.
	Open bool
	// Burst is how many requests follow one another without a pause when a service is
	// turned to; 0 is 1. The pause between bursts is as much longer.
	Burst int
	// Seed determines the moments, and whom each turns to. By the same seed and pattern
	// the moments are the same however many services there are.
	Seed uint64
	// After is how many turns of the same pattern and seed lie behind, [ActivationResult.Turns]
	// of the loads before this one: it goes on with the turn that follows them, by draws that
	// none of them had.
	After    int64
	Duration time.Duration // 0 is until End
	// End, where not nil, ends the load when it is closed, as the end of Duration does:
	// no burst begins that was not due before, and what is under way is still answered.
	End     <-chan struct{}
	Timeout time.Duration // of one request; 0 is DefaultTimeout
	// Connections bounds the bursts that are under way at a time in an open loop; 0 is
	// as many as are due within Timeout, that a service that does not answer holds up no
	// other, but at least DefaultConnections and at most MostBursts.
	Connections int
	// Each, where set, is called when a burst begins, with the service turned to. No other
	// begins meanwhile, so it has to be quick.
	Each func(target int)
}

// MostBursts is the most bursts that are under way at a time unless more are asked for.
const MostBursts = 256

// mostTurns bounds ActivationOptions.After, whose draws are made over again.
const mostTurns = 1 << 32

// ActivationResult is what came of it.
//
// In an open loop only the first request of a burst comes by the schedule, and can be
// late or queued; the others come when the one before is answered. Where a request
// fails and takes its connection with it, its burst is over, and what of it is left
// counts as [KindUnsent]. BacklogMax is of bursts.
type ActivationResult struct {
	Result
	// Bursts are from a burst's intended start to its last answer, in microseconds;
	// those alone of which every request was answered rightly.
	Bursts *hdrhistogram.Histogram
	// First is the first request of each burst alone, in microseconds, where it was
	// answered rightly.
	First *hdrhistogram.Histogram
	// Turned counts the bursts of each service that were begun.
	Turned []int64
	// Turns are all that were due, those too that came so late that none was begun.
	Turns int64
	// Opened counts the connections that were made meanwhile: as many requests took
	// longer by connecting.
	Opened int64
}

// pause is the mean one before a burst.
func (o ActivationOptions) pause() time.Duration { return time.Duration(o.Burst) * o.Think }

// withDefaults fills in the zero values, or says what is wrong.
func (o ActivationOptions) withDefaults() (ActivationOptions, error) {
	if o.Burst == 0 {
		o.Burst = 1
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	switch {
	case !slices.Contains(Patterns, o.Pattern):
		return o, fmt.Errorf("load: activation pattern %q: want one of %q", o.Pattern, Patterns)
	case o.Think < time.Microsecond || o.Think > longest:
		return o, fmt.Errorf("load: %v between requests: want 1us to %v", o.Think, longest)
	case o.Burst < 1 || o.Burst > int(longest/o.Think):
		return o, fmt.Errorf("load: bursts of %d requests: want 1 or more, less than %v apart", o.Burst, longest)
	case o.Duration < 0 || o.Timeout < 0 || max(o.Duration, o.Timeout) > longest:
		return o, fmt.Errorf("load: a duration or timeout that is negative or above %v", longest)
	case o.Duration == 0 && o.End == nil:
		return o, fmt.Errorf("load: neither duration nor end bounds it: set one")
	case o.After < 0 || o.After > mostTurns:
		return o, fmt.Errorf("load: to go on after %d turns: want 0 to %d", o.After, int64(mostTurns))
	case o.Connections < 0 || o.Connections > 1<<16:
		return o, fmt.Errorf("load: %d connections: want 1 to %d, or 0 for as many as it takes", o.Connections, 1<<16)
	}
	switch {
	case !o.Open:
		o.Connections = 1
	case o.Connections == 0:
		o.Connections = int(min(max(o.Timeout/o.pause()+1, DefaultConnections), MostBursts))
	}
	return o, nil
}
