package workload

import (
	"context"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Sliced is a service whose load can be cut into slices: short stretches, each on a
// program that stands frozen between two of them. Instances of several conditions stay
// up at once, and are loaded in turn.
type Sliced interface {
	Readier
	// Drives lists the kinds of load that slices alternate between. The error says why
	// the load of these parameters cannot be sliced, and what to do.
	Drives(p Params) ([]Drive, error)
	// SliceMetrics lists what slices yield, the most important first.
	SliceMetrics(p Params) []Metric
	// Slices makes a ready program ready for slices: puts in the data that it is asked
	// for, and opens the connections that stay open. Seed determines what is drawn.
	Slices(ctx context.Context, t Trial, seed uint64) (Slicer, error)
}

// Drive is one kind of load.
type Drive struct {
	Name string // "get"
	// HalfOf names the drive at half of whose saturated rate requests arrive, by a
	// schedule that does not wait for answers; empty is a closed loop.
	HalfOf string
	// Rate is that at which the user has requests arrive; 0 is not fixed.
	Rate float64
	// Least is how much a slice has to hold, in the unit of [Measured.Worked].
	Least float64
	// Whole tells that a slice is one execution of a load program, however long that takes:
	// it is neither begun by a settling time nor bounded by a duration.
	Whole bool
}

// Slicer loads one instance, slice by slice. It is for one goroutine at a time.
type Slicer interface {
	// Load loads the program once and tells what came of it. What it has asked for has
	// been answered when it returns, so that the program rests. An answer that is wrong or
	// does not come is an error.
	Load(ctx context.Context, s Stretch) ([]Measured, error)
	Close() error
}

// Stretch is one stretch of load.
type Stretch struct {
	Drive    string
	Duration time.Duration // by the clock; at least one operation is done
	Ramp     time.Duration // at its beginning, which counts as work alone
	Rate     float64       // requests per second of an open loop; 0 is a closed one
	Seed     uint64        // of an open loop's moments
}

// Measured is what a stretch of load yielded for one part.
type Measured struct {
	Part   string
	Window time.Duration // in which Amount was counted
	Amount float64       // operations or bytes within Window
	Worked float64       // operations of the whole stretch
	Load   time.Duration // CPU time of the load generator for them; negative: unknown
	// Latencies are from the intended start, in microseconds; nil where none are kept.
	Latencies *hdrhistogram.Histogram
}
