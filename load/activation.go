package load

import (
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
	// shape 1.5, and services by Zipf's law, so that some are hardly ever asked.
	HeavyTailedTarget Pattern = "heavy-tailed"
	// DriftingTarget asks few services at a time; which ones shifts as time passes.
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
	Burst    int
	Seed     uint64
	Duration time.Duration
	Timeout  time.Duration // of one request; 0 is DefaultTimeout
	// Each, where set, is told when a burst begins, of the service turned to.
	Each func(target int)
}

// ActivationResult is what came of it.
type ActivationResult struct {
	Result
	// Bursts are from a burst's intended start to its last answer, in microseconds.
	Bursts *hdrhistogram.Histogram
	// First is the first request of each burst alone, in microseconds.
	First *hdrhistogram.Histogram
	// Turned counts the bursts of each service.
	Turned []int64
}
