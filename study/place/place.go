// Package place asks of running containers: *which of them answer, which of them
// compute, and does an answer wait for a CPU behind a computation?*, and gives
// those that answer CPUs of their own where it does and that helps.
//
// It is the further work of S4 (published study of service latency): latency-critical containers are
// recognised by their behaviour, and others share the rest of the CPUs. How they behave is
// what [tare/probe/bursts] adds up of the scheduler's events; what is in force is
// read from the control groups. Watching changes nothing. [Apply] changes the
// control groups of the containers that it was given and of no others, tries each change in
// windows with and without it, and leaves only what helped; a [Journal] is written
// before the first change, by which [Undo] gives back what was, however tare ended.
//
// It is no scheduler and no daemon: it looks for a while, says or does one
// thing, and ends.
package place

import (
	"errors"
	"time"
)

// ErrStopped says that a trial of a change was ended early; what was
// changed has been reverted.
var ErrStopped = errors.New("stopped early")

// Thresholds decide which behaviour a container has, and when a wait is too long.
type Thresholds struct {
	// A container that had less of a CPU than this, and was woken less often a
	// second, is idle.
	IdleShare   float64
	IdleWakeups float64

	// One that answers is woken at least so often a second (or would be, did it not
	// wait for a CPU), blocks again within so long, in the middle and nearly always,
	// and uses at most this part of the CPUs that it may use.
	Wakeups     float64
	BurstMedian time.Duration
	BurstP99    time.Duration
	LowDemand   float64

	// One that computes spends at least this part of its CPU time in bursts
	// longer than this, and wants at least so much of a CPU, running or waiting.
	LongBurst  time.Duration
	LongShare  float64
	HighDemand float64

	// Wait is the p99 of the waits for a CPU from which on one that answers
	// suffers; WaitShare is the part of its waiting time, as far as it is known behind
	// whom that was, that must have been behind containers that compute; FewestWaits is how many waits a p99 takes.
	Wait        time.Duration
	WaitShare   float64
	FewestWaits uint64
}

// Defaults are the thresholds where nothing else is asked for. S4's service was
// woken some 4,000 times a second and answered within 100 µs of CPU time; a
// tenth of that rate, and ten times that burst, still leave room to distinguish it from a
// computation, which the kernel takes a CPU from after 3 ms at the earliest (its
// base slice). An idle CPU is had within some 50 µs.
func Defaults() Thresholds {
	return Thresholds{
		IdleShare: 0.002, IdleWakeups: 5,
		Wakeups: 20, BurstMedian: time.Millisecond, BurstP99: 10 * time.Millisecond, LowDemand: 0.5,
		LongBurst: 5 * time.Millisecond, LongShare: 0.5, HighDemand: 0.3,
		Wait: 100 * time.Microsecond, WaitShare: 0.25, FewestWaits: 100,
	}
}
