// Package pages asks how much of the page tables of containers of one image is
// the same, and which page faults several of them take: S1's second study
// (Characterization of containers, sections 5.2 and 5.3).
//
// Several containers of one image run on one CPU, each under a load of its own.
// The entries of their page tables are counted just after the start and again in
// the steady state, and their page faults are recorded for a while. A function,
// which has no steady state, is counted when its work is done and it still holds
// all that it mapped, and its faults are those of its whole life.
//
// An entry is counted twice: over processes, as S1 did, where a web server's own
// workers make entries groupable; and across containers, which is what an
// operator could save. With address-space randomisation off, as S1 assumed
// within a tenant, the same library lies at the same address in all copies; with
// it on, which is every host's default, it hardly ever does: both are conditions.
//
// Where S1 and this study differ: S1's kernel (4.4) had no fault-around to speak
// of in its figures, no large folios, and AUFS below its containers; the zero
// page is apart here; and S1 does not say when after the start it counted.
package pages

import (
	"time"

	"tare/probe/faults"
	"tare/workload"
)

// Name is the study's, in the store.
const Name = "pages"

// moment is when a census is taken.
type moment string

// The moments.
const (
	start  moment = "start"
	steady moment = "steady"
)

// The names of what a census yields, after the moment: "start-groupable". Shares
// are in percent of all entries with memory of their own behind them, the page of zeros apart.
const (
	entries       = "entries"
	groupable     = "groupable" // over processes
	asS1          = "groupable-with-zeros"
	sharedFrame   = "shared-frame"
	exclusive     = "exclusive"
	zeroPage      = "zero-page"
	across        = "across" // groupable across containers
	sharedAcross  = "shared-across"
	exclusiveOne  = "exclusive-across"
	active        = "active"
	activeGroup   = "active-groupable" // of all entries
	groupOfActive = "groupable-of-active"
	acrossActive  = "across-of-active"
	hugeOfActive  = "huge-of-active"
	hugeOfGroup   = "huge-of-groupable"
	largeFolio    = "large-folio"
	mapped        = "mapped"   // bytes, each entry counted
	resident      = "resident" // bytes, each frame counted once
	tables        = "tables"   // bytes of page tables
	tablesSaved   = "tables-saved"
)

// The names of what a recording of faults yields.
const (
	rate           = "faults"
	total          = "life-faults"
	duplicated     = "duplicated"
	duplicatedFile = "duplicated-file"
	kernelMode     = "kernel-mode"
	major          = "major"
	lost           = "lost"
	copying        = "copying"
	perMillion     = "per-million"
)

// types are S1's six, in the order of its table.
var types = []faults.Type{
	faults.Read,
	faults.CopyOnWrite,
	faults.Shared,
	faults.Anonymous,
	faults.Swap,
	faults.WriteProtect,
}

// share is a metric that may be nothing, in percent.
func share(name, doc string) workload.Metric {
	return workload.Metric{Name: name, Unit: "%", Better: workload.Higher, Count: true, Doc: doc}
}

func amount(name, unit, doc string) workload.Metric {
	return workload.Metric{Name: name, Unit: unit, Better: workload.Lower, Count: true, Doc: doc}
}

// censusMetrics are those of a census at a moment.
func censusMetrics(at moment, flags bool) []workload.Metric {
	of := func(name string) string { return string(at) + "-" + name }
	first := share(of(groupable), "entries with the same page and frame in two processes or more")
	first.Primary = true
	m := []workload.Metric{
		first,
		share(of(asS1), "the same with the page of zeros counted as any other, as S1 counted"),
		share(of(sharedFrame), "entries whose frame another process, or the same, maps at another address"),
		share(of(exclusive), "entries whose frame nobody else maps"),
		share(of(zeroPage), "entries of the kernel's page of zeros, of all with those; they are in no other share"),
		share(of(across), "entries with the same page and frame in two containers or more"),
		share(of(sharedAcross), "entries whose frame another container maps, at another address"),
		share(of(exclusiveOne), "entries whose frame no other container maps"),
		amount(of(entries), "entries", "present entries with memory behind them, of all copies"),
		amount(of(mapped), "B", "memory that the entries map, each counted"),
		amount(of(resident), "B", "memory that the entries map, each frame counted once"),
		amount(of(tables), "B", "page tables"),
		amount(of(tablesSaved), "B", "page tables of the last level that another container has the same"),
	}
	if flags {
		m = append(m,
			share(of(active), "entries whose page the kernel has on its active list"),
			share(of(activeGroup), "active and groupable, of all entries"),
			share(of(groupOfActive), "groupable among active entries"),
			share(of(acrossActive), "groupable across containers among active entries"),
			share(of(hugeOfActive), "entries in transparent huge pages of anonymous memory, among active ones"),
			share(of(hugeOfGroup), "entries in transparent huge pages of anonymous memory, among groupable ones"),
			share(of(largeFolio), "entries of large folios, of whatever size, a file's among them"),
		)
	}
	return m
}

// faultMetrics are those of a recording.
func faultMetrics(primary, life, instructions bool) []workload.Metric {
	m := []workload.Metric{
		{Name: duplicated, Unit: "%", Better: workload.Higher, Count: true, Primary: primary, Doc: "faults on a page and file page on which another container faulted too"},
		share(duplicatedFile, "faults on a file page on which another container faulted too, at whatever address"),
	}
	if life {
		m = append(m, amount(total, "faults", "page faults in user mode of a copy's life"))
	} else {
		m = append(m, amount(rate, "faults/s", "page faults in user mode, of all copies"))
	}
	for _, t := range types {
		m = append(m, share(typeMetric(t), "faults of this type, of those of S1's six types"))
	}
	m = append(m,
		share(copying, "faults that end, or may end, in a private copy: copy-on-write, and write-protect in private mappings but of the page of zeros"),
		amount(kernelMode, "%", "faults that the kernel took on the program's memory, of all"),
		amount(major, "faults", "faults that waited for a device"),
		amount(lost, "faults", "faults that the recorder lost: they are in the rate, and in nothing else"),
	)
	if instructions {
		m = append(m, amount(perMillion, "faults", "page faults in a million instructions"))
	}
	return m
}

func typeMetric(t faults.Type) string { return "type-" + t.String() }

// Limits of what may be asked for.
const (
	MostCopies = 200
	LongSteady = 24 * time.Hour
)

// readyLimit is how long a copy may take to be ready, unless the user says.
const readyLimit = 2 * time.Minute
