// Package files measures what a container's file system costs the operations on it.
// It repeats S4's experiments on files (The Impact of Docker Containers on Service
// Latency, section 3.6).
//
//	write    to an open file, without fsync (as flush() of Python) and with it, by
//	         size: in the container's layer, a volume, memory and on bare metal,
//	         against a directory mounted into the container
//	open     an existing file, and create a new one: in the layer, by the number of
//	         layers, against the mounted directory
//	copyup   the first opening for writing of a file in a lower layer, by its size
//	walk     a tree as ls -R does, by the number of layers, and after flattening;
//	         every layer has the tree, and the uppermost hides the others
//
// A program inside the container times each operation (programs/files), so launch
// and pipes are in no figure. Each trial has its own container: nothing is copied up
// when it begins. Files that are read are in the host's page cache. A layered file
// system has no names cached at first, so the first opening and the first walk are
// reported by themselves.
//
// A time is the mean of the middle half of a trial's. Neither an interrupt nor the
// steps of the clock move it. Plain means, as S4 has them, are reported too. A
// kilobyte is 1024 bytes, as in file systems.
package files

import (
	"strconv"

	"tare/image"
	"tare/workload"
)

// The experiments.
const (
	Write  = "write"
	Open   = "open"
	CopyUp = "copyup"
	Walk   = "walk"
)

// Experiments lists them, in the order in which they are shown.
var Experiments = []string{Write, Open, CopyUp, Walk}

// Factors of a condition.
const (
	factorExperiment = "experiment"
	factorStorage    = "storage"   // "bare", or a platform.Storage
	factorLayers     = "layers"    // of the image, where an engine has it in layers
	factorFlattened  = "flattened" // "yes": walked in the image of one layer that was made of it
	factorDriver     = "driver"    // the engine's storage driver: "overlay2 on extfs"

	// factorOperations is the estimated time of the operations: "400ms".
	factorOperations = "operations"
)

// bare names the storage of bare metal, a directory.
const bare = "bare"

// The metrics. Times are in nanoseconds, but for that of a flattening.
const (
	flushed = "flushed" // prefix, and the mean over sizes
	synced  = "synced"

	open      = "open"
	openFirst = "open-first"
	openWrite = "open-write" // again, of a file that is copied up already
	create    = "create"

	firstOpen  = "first" // prefix, before a size
	firstWrite = "write"
	secondOpen = "second"

	walk      = "walk"
	walkFirst = "walk-first"

	flattening = "flattening"

	// suffixes
	mean = "-mean"
	p99  = "-p99"
)

// Covariates.
const (
	bytesBefore  = "bytes_before" // of an image, as the engine reports them, before and after flattening
	bytesAfter   = "bytes_after"
	layersBefore = "layers_before"
	layersAfter  = "layers_after"
	walkEntries  = "entries"
	clockCost    = "clock_ns"
)

// label is a size in the name of a metric: "4k", "16m".
func label(size int64) string {
	switch {
	case size >= 1<<20 && size%(1<<20) == 0:
		return strconv.FormatInt(size>>20, 10) + "m"
	case size >= 1<<10 && size%(1<<10) == 0:
		return strconv.FormatInt(size>>10, 10) + "k"
	}
	return strconv.FormatInt(size, 10) + "b"
}

func timed(name, doc string) workload.Metric {
	return workload.Metric{Name: name, Unit: "ns", Better: workload.Lower, Doc: doc}
}

// metrics are an experiment's, the primary ones first.
func (o Options) metrics(experiment string, flat bool) []workload.Metric {
	var all []workload.Metric
	primary := func(m workload.Metric) workload.Metric { m.Primary = true; return m }
	tail := func(name string) workload.Metric {
		m := timed(name+p99, "99th percentile")
		m.Quantile, m.Histogram = 0.99, name
		return m
	}
	switch experiment {
	case Write:
		for _, how := range []struct{ name, doc string }{{flushed, "one write, without fsync"}, {synced, "one write, with fsync"}} {
			all = append(all, primary(timed(how.name, how.doc+": geometric mean over sizes, of the means of the middle half")))
		}
		for _, how := range []string{flushed, synced} {
			for _, size := range o.Sizes {
				name := how + "-" + label(size)
				all = append(all, timed(name, "mean of the middle half"), timed(name+mean, "mean of all"), tail(name))
			}
		}
	case Open:
		all = append(all,
			primary(timed(open, "one opening for reading: mean of the middle half")), timed(open+mean, "mean of all"), tail(open),
			timed(openFirst, "the first opening in a container"),
			timed(create, "one new file, created and closed: mean of the middle half"), timed(create+mean, "mean of all"),
			timed(openWrite, "one opening for writing, the first excluded: mean of the middle half"))
	case CopyUp:
		for i, size := range image.FilesLowerSizes {
			first := timed(firstOpen+"-"+label(size.Bytes), "first opening for writing")
			first.Primary = i == len(image.FilesLowerSizes)-1
			all = append(all, first, timed(firstWrite+"-"+label(size.Bytes), "first write of a byte, after it"),
				timed(secondOpen+"-"+label(size.Bytes), "second opening for writing"))
		}
	case Walk:
		all = append(all, primary(timed(walk, "one walk: mean of the middle half")), timed(walk+mean, "mean of all"),
			timed(walkFirst, "the first walk in a container"))
		if flat {
			all = append(all, workload.Metric{Name: flattening, Unit: "s", Better: workload.Lower, Doc: "export of a container, and import as an image"})
		}
	}
	return all
}
