// Package bandwidth asks whether a program in a container reaches the machine's own
// memory bandwidth: S5's first experiment (Measuring the IO Overhead of Container
// Technology, section on STREAM).
//
// A cell is a number of elements and a number of MPI processes that share them; in
// each, bare metal is set against containers whose data lie in the layer, in a volume
// and on a bind mount. The program touches none of these, so that volume and bind
// mount are each other's negative control.
//
// Figures are the program's own (programs/stream): a kernel's best iteration, as the
// benchmark prescribes; all of them are kept beside it. Elements are of each whole
// array, over all processes. Where an array is smaller than four times the caches
// that the processes reach, the figure is of those and decides nothing.
package bandwidth

import (
	"strconv"

	"tare/study/io/place"
)

// Factors of a condition, besides those of its place.
const (
	factorElements  = "elements"
	factorProcesses = "processes"
)

// The programs.
const (
	program = "stream-mpi"
	peer    = "stream-peer"
)

// peerName is what the peer runs, as a condition's floor names it.
const peerName = "likwid-bench"

// Metrics of the program, beside the kernels' own.
const (
	average       = "-average"
	cacheResident = "cache-resident"
)

// kernels in the order in which the benchmark has them.
var kernels = []string{"copy", "scale", "add", "triad"}

// PublishedElements and PublishedProcesses are S5's grid.
var (
	PublishedElements  = []int64{1e6, 2e6, 5e6, 10e6, 25e6, 50e6, 100e6, 250e6, 500e6}
	PublishedProcesses = []int{1, 2, 4, 8}
)

// publishedCell is how many elements S5's figures are of.
const publishedCell = 50_000_000

// leastElements is the least size of an array that counts as larger than the caches where
// their size is unknown: the benchmark's own default.
const leastElements = 10_000_000

// cell is a pair of levels.
type cell struct {
	elements  int64
	processes int
}

func (c cell) group() string {
	return place.Group(place.Stream,
		place.Cell{Factor: factorElements, Level: strconv.FormatInt(c.elements, 10)},
		place.Cell{Factor: factorProcesses, Level: strconv.Itoa(c.processes)})
}

// text names it as people say it: "50 M x 2".
func (c cell) text() string { return millions(c.elements) + " x " + strconv.Itoa(c.processes) }

// millions is a number of elements as S5 writes it.
func millions(n int64) string {
	if n >= 100_000 && n%100_000 == 0 {
		return strconv.FormatFloat(float64(n)/1e6, 'f', -1, 64) + " M"
	}
	return strconv.FormatInt(n, 10)
}
