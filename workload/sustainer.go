package workload

import "context"

// Sustainer is a workload that can be watched at work for as long as one
// likes: what a study of a program's memory needs, which looks at it just after
// the start and again in its steady state, with nothing to be timed.
type Sustainer interface {
	// Readier's check is also the end of a batch program's start: its work
	// has begun, or, where the program has no steady state, it is done and the
	// program holds what it has mapped.
	Readier
	// Sustained gives the parameters under which the program goes on until it is
	// stopped. They win over the defaults, and lose to what the user set. steady
	// tells that it reaches a steady state: a service does, a function that has
	// one input does not.
	Sustained() (p Params, steady bool)
	// Sustain keeps the program at its work, from its readiness until ctx ends,
	// and then returns nil. The error says why what was seen is not valid: the
	// program ended, or answered wrongly. Seed makes the requests differ from those of
	// another copy; the same seed makes the same ones.
	Sustain(ctx context.Context, t Trial, seed uint64) error
}
