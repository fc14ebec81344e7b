// Package size separates what a platform costs into a part of its type and a part of
// its size, and predicts the cost at a size that was not measured.
//
// S2 (The Art of CPU-Pinning, 2020, sections IV and V) reports two overheads and
// leaves their formula open: a platform-type overhead (PTO), the same ratio at every
// size, and a platform-size overhead (PSO), which vanilla containers have where they
// are given a small share of the host's CPUs (the container-to-host core ratio, CHR),
// the more so the more they do input and output and the more tasks they run. Here
//
//	log(time on the platform / time on bare metal of the same size)
//	    = Platform + g(CHR) * (Size + IO * intensity + Tasks * log2(tasks per CPU)) + rest
//
// is fitted, each term with an interval. g is 0 at a CHR of 1, so that Platform is the
// overhead of a container that has the whole host; which g is a question of its own
// ([Form]), which the points are asked and often do not decide. Everything that hangs
// on it is then given for all that they allow.
//
// The terms are a description of what was measured, not a mechanism: what causes an
// overhead of size is for the probes to say, and [Correlate] sets their figures beside
// it. docs/platforms-model.md has the definitions, and how the fit was validated on a
// simulator whose truth is known ([Machine]).
//
// It knows no trial: points are handed in.
package size

import (
	"fmt"
	"math"
)

// Point is the overhead of one platform at one size, for one workload.
type Point struct {
	// Workload names what ran. Points of several are fitted together where each has
	// its own Platform and all share the other terms.
	Workload string
	CPUs     float64 // that the program is granted; may be a fraction
	HostCPUs int     // that its kernel's host has on line
	// Intensity is how much of the workload is input and output: wakings by interrupt
	// per second of CPU time, in thousands; 0 where it computes alone.
	Intensity float64
	Tasks     float64 // that can run at once, at least 1
	// Log is the natural logarithm of the ratio of the times; SE its standard error, and
	// N the blocks that it rests on.
	Log, SE float64
	N       int
}

// CHR is the container-to-host core ratio.
func (p Point) CHR() float64 { return p.CPUs / float64(p.HostCPUs) }

// crowding is the doublings of tasks that a CPU has above one.
func (p Point) crowding() float64 { return math.Log2(max(1, p.Tasks/p.CPUs)) }

// Bounds of what a point can be. Beyond them a figure is no measurement but an error
// before it, and arithmetic no longer shows it.
const (
	mostHostCPUs  = 1 << 20
	leastCPUs     = 1e-3 // the kernel's least quota is 1 ms of at most 1 s
	mostIntensity = 1e9
	mostTasks     = 1e9
	mostLog       = 50 // exp(50) is 5e21 times
	leastSE       = 1e-9
)

// BadPoint says what of a point is no measurement.
type BadPoint struct {
	Index  int
	Point  Point
	Reason string
}

func (e *BadPoint) Error() string {
	return fmt.Sprintf("point %d (%s, %g of %d CPUs): %s", e.Index, e.Point.Workload, e.Point.CPUs, e.Point.HostCPUs, e.Reason)
}

// check looks at a point that was measured.
func (p Point) check(index int) error {
	reason := p.misplaced()
	switch {
	case reason != "":
	case !(math.Abs(p.Log) <= mostLog):
		reason = fmt.Sprintf("a logarithm of the ratio of %v: want %d at most, either way", p.Log, mostLog)
	case p.N < 2:
		reason = fmt.Sprintf("it rests on %d blocks: it takes 2 or more for an error", p.N)
	case !(p.SE >= leastSE && p.SE <= mostLog):
		reason = fmt.Sprintf("a standard error of %v: want %v to %d", p.SE, leastSE, mostLog)
	}
	if reason == "" {
		return nil
	}
	return &BadPoint{Index: index, Point: p, Reason: reason}
}

// misplaced says why a point cannot lie where it does; empty where it can.
func (p Point) misplaced() string {
	switch {
	case p.HostCPUs < 1 || p.HostCPUs > mostHostCPUs:
		return fmt.Sprintf("a host of %d CPUs: want 1 to %d", p.HostCPUs, mostHostCPUs)
	case !(p.CPUs >= leastCPUs && p.CPUs <= float64(p.HostCPUs)):
		return fmt.Sprintf("%v CPUs: want %v to the host's", p.CPUs, leastCPUs)
	case !(p.Intensity >= 0 && p.Intensity <= mostIntensity):
		return fmt.Sprintf("an intensity of %v: want 0 to %v thousand wakings a second", p.Intensity, float64(mostIntensity))
	case !(p.Tasks >= 1 && p.Tasks <= mostTasks):
		return fmt.Sprintf("%v tasks: want 1 to %v", p.Tasks, float64(mostTasks))
	}
	return ""
}
