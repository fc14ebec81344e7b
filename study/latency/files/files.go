// Package files asks what a container's file system costs the operations on it:
// S4's experiments on files (The Impact of Docker Containers on Service Latency,
// section 3.6).
//
//	write    to an open file, handed to the kernel (what flush() of Python does)
//	         and brought to the disk (fsync), by size: in the container's layer, a
//	         volume, memory, on bare metal, against a directory mounted into it
//	open     a file that is there, and make one that is not: in the layer, by the
//	         number of layers, against the mounted directory
//	copyup   the first opening for writing of a file in a lower layer, by its size
//	walk     a tree as ls -R does it, which every layer has once more and the
//	         uppermost hides, by the number of layers; and after flattening
//
// Every operation is timed by a program inside (programs/files), so that neither
// launch nor pipe is in a figure. Each trial has a container of its own: nothing is
// copied up when it begins. What is read is in the host's page cache, and what a
// layered file system keeps of names is not: the first opening and the first walk
// stand apart.
//
// A time is the mean of the middle half of a trial's, which neither an interrupt
// nor the steps of the clock move; S4's means stand beside it. A kilobyte is 1024
// bytes, as file systems count.
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

	// factorOperations is what the operations are thought to take: "400ms".
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
	bytesBefore  = "bytes_before" // of an image, by the engine's account, before and after flattening
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
		for _, how := range []struct{ name, doc string }{{flushed, "one write, handed to the kernel"}, {synced, "one write, brought to the disk by fsync"}} {
			all = append(all, primary(timed(how.name, how.doc+": the geometric mean over sizes of the middle half's means")))
		}
		for _, how := range []string{flushed, synced} {
			for _, size := range o.Sizes {
				name := how + "-" + label(size)
				all = append(all, timed(name, "mean of the middle half"), timed(name+mean, "mean of all"), tail(name))
			}
		}
	case Open:
		all = append(all, primary(timed(open, "one opening for reading: mean of the middle half")), timed(open+mean, "mean of all"), tail(open),
			timed(openFirst, "the first opening of a container's life"), timed(create, "one new file, made and closed: mean of the middle half"),
			timed(create+mean, "mean of all"), timed(openWrite, "one opening for writing, but for the first: mean of the middle half"))
	case CopyUp:
		for i, size := range image.FilesLowerSizes {
			first := timed(firstOpen+"-"+label(size.Bytes), "first opening for writing")
			first.Primary = i == len(image.FilesLowerSizes)-1
			all = append(all, first, timed(firstWrite+"-"+label(size.Bytes), "first write of a byte, after it"), timed(secondOpen+"-"+label(size.Bytes), "second opening for writing"))
		}
	case Walk:
		all = append(all, primary(timed(walk, "one walk: mean of the middle half")), timed(walk+mean, "mean of all"), timed(walkFirst, "the first walk of a container's life"))
		if flat {
			all = append(all, workload.Metric{Name: flattening, Unit: "s", Better: workload.Lower, Doc: "export of a container and import of what came"})
		}
	}
	return all
}
