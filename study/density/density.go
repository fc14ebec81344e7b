package density

import (
	"tare/workload"
)

// DefaultCritical and DefaultNoise are S3's services, in our own words: a booking site of
// three programs, and a web server with large objects in its memory.
const (
	DefaultCritical = "booking"
	DefaultNoise    = "static"
)

// Noises lists the workloads that can be idle neighbours.
func Noises() []string {
	var names []string
	for _, w := range workload.All() {
		if _, ok := w.(workload.Idling); ok {
			names = append(names, w.Name())
		}
	}
	return names
}

// S3's proportions: a neighbour of 34 GiB on a host of 256.
const (
	proportion   = 34
	proportionOf = 256
)

// NeighbourShare is what a neighbour holds of a box's memory by S3's proportion, in whole
// MiB.
func NeighbourShare(box int64) int64 {
	return max(box*proportion/proportionOf>>20, 1) << 20
}
