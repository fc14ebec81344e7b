// Package media moves pages between memory and what extends it: it executes the
// requests of data management through the kernel's own swap, and tells what became of
// them.
//
// It does not decide what moves; it decides how. Runs that lie together become one, and
// gaps too short to matter are bridged; what leaves does so in the order in which it
// was given, which is the order of its use, so that it lies in that order in swap and
// comes back in few reads. It goes chunk by chunk, and between two of them lets those
// go first who matter more: the demand faults of the programs themselves, and whoever
// stands under pressure. It holds writing to a rate and to a day's share of what the
// device is good for.
//
// The kernel keeps the data throughout: whatever happens to this program, between any
// two instructions, a page is in memory or in swap, and where a program looks for it.
//
// A medium is a [Medium], which is small: what distinguishes a swap file, a device and
// a compressed one in memory is what they cost and count, not how pages get there.
package media

import (
	"context"

	"tare/annex"
)

// Mover executes requests: the kernel's [Kernel], or a simulation.
type Mover interface {
	// Do executes one request and returns what became of it. It may be called from several
	// goroutines at once. It returns early, the result saying so, when ctx ends, when the
	// time of the request has come, or when the brake says stop.
	Do(ctx context.Context, r annex.Request) annex.Result
}

// Verdict is what a request may do next.
type Verdict uint8

// The verdicts.
const (
	Proceed Verdict = iota
	// Wait has it wait for somebody who goes first, such as the demand faults of the
	// container whose pages it brings.
	Wait
	// Stop has it leave the rest undone: of evictions, when pressure is above its limit.
	Stop
)

// Brake is asked before each chunk of a request. It must be quick: it is asked every
// fraction of a millisecond while it says [Wait].
type Brake func(annex.Request) Verdict
