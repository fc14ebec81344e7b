// Package size separates what a platform costs into a part of its type and a part of
// its size, and predicts the cost at a size that was not measured.
//
// S2 (The Art of CPU-Pinning, 2020, sections IV and V) tells of two overheads and
// leaves their formula open: a platform-type overhead (PTO), the same ratio at every
// size, and a platform-size overhead (PSO), which vanilla containers have where they
// are given a small share of the host's CPUs (the container-to-host core ratio, CHR),
// the more so the more they do input and output and the more tasks they run. Here
//
//	log(time on the platform / time on bare metal of the same size)
//	    = PTO + PSO * g(CHR) * (1 + IO * intensity + Tasks * log2(tasks per CPU)) + error
//
// is fitted, each term with an interval; docs/platforms.md has the definitions, and how
// the fit was validated on a simulator whose truth is known ([Machine]).
//
// It knows no trial: points are handed in.
package size

// Point is the overhead of one platform at one size, for one workload.
type Point struct {
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
