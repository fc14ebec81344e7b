// Package diagnose finds what a running container pays for the way in which it is
// contained, and which setting ends it.
//
// It first reads the counters of every container twice (triage). Only those that used a
// CPU, or waited for one or for memory, are then watched by the scheduler's tracepoints ([tare/probe/bursts]).
// Nothing is changed. Each rule is a function of what was read of one container, so that
// its figures can be checked by hand; the rules are in the files that have their names.
//
// A cost is time lost in each second of wall time, by all work together: two threads that
// would work and wait instead cost 2 s/s. A piece of work is what a thread runs between two
// blockings, as a request often is.
package diagnose

import (
	"cmp"
	"slices"
	"time"

	"tare/container"
)

// Kind is what a container pays for.
type Kind string

// The kinds.
const (
	Throttled   Kind = "throttled"       // it has used up its CPU quota
	WaitsForCPU Kind = "waits-for-cpu"   // behind its own threads, or the host's processes
	Neighbour   Kind = "noisy-neighbour" // behind another container
	MemoryLimit Kind = "memory-limit"    // pages that its limit pushed out are read again
	Checks      Kind = "health-check"    // what its health check takes of the CPUs
	Log         Kind = "log"             // what writing its output to the log takes
	Proxy       Kind = "userland-proxy"  // what passing on its published ports takes
	Translation Kind = "bridge-and-nat"  // what its packets take on the way
	Layers      Kind = "image-layers"    // what looking up files in them takes
	CopyUps     Kind = "copy-up"         // what writing to files of its image takes
	Seccomp     Kind = "seccomp"         // what the filter of its system calls takes
	Duplicated  Kind = "duplicated"      // memory that its image's other containers hold too
	Unpinned    Kind = "unpinned"        // few CPUs' time, spread over many CPUs
	Needless    Kind = "needless-quota"  // CPU shares would do
)

// Level is how much a finding costs.
type Level string

// The levels, by the time lost in each second: see [levelOf].
const (
	High     Level = "high"
	Medium   Level = "medium"
	Low      Level = "low"
	Harmless Level = "harmless"
)

// Levels lists them, the costliest first.
var Levels = []Level{High, Medium, Low, Harmless}

// Confidence is what a cost rests on.
type Confidence string

// The kinds of confidence.
const (
	Measured  Confidence = "measured"  // that time was counted
	Estimated Confidence = "estimated" // a count times a cost, or a model
)

// Finding is one thing that a container pays for.
type Finding struct {
	ID        string `json:"id"` // CONTAINER/KIND
	Kind      Kind   `json:"kind"`
	Container string `json:"container"`
	// Node is that of a cluster; empty where one host is looked at.
	Node  string `json:"node,omitempty"`
	Level Level  `json:"level"`
	Says  string `json:"says"` // a clause
	Cost  Cost   `json:"cost"`
	// Within is the finding of which the cost is this one's too: another view of the same time,
	// which is not to be added up twice.
	Within string     `json:"within,omitempty"`
	Based  Confidence `json:"confidence"`
	// Set are settings that would end it, each with the command; the first is preferred.
	// It is empty where nothing needs to be set.
	Set      []Remedy `json:"set,omitempty"`
	Evidence []Fact   `json:"evidence"`
	// Detail is the command that shows more of it; empty where there is none.
	Detail string `json:"detail,omitempty"`
}

// Cost is what a finding costs.
type Cost struct {
	// Rate is the time lost in each second, in seconds.
	Rate float64 `json:"seconds_per_second"`
	// IsUnknown tells that nothing but Events is known, as of processes that were killed.
	IsUnknown bool `json:"unknown,omitempty"`
	// Each is the time lost by each of Events operations a second; both 0 where unknown.
	Each   time.Duration `json:"each_ns,omitempty"`
	Events float64       `json:"events_per_second,omitempty"`
	// PerRequest is the time lost for each request; 0 where requests were not counted.
	PerRequest time.Duration `json:"per_request_ns,omitempty"`
	// Bytes is the memory held; 0 where it is time that is lost.
	Bytes int64 `json:"held_bytes,omitempty"`
}

// Remedy is a setting, and the command that makes it.
type Remedy struct {
	Says    string `json:"says"`
	Command string `json:"command,omitempty"`
	// Patch is the command of kubectl that gives it to what made the pod; empty where that is unknown.
	Patch string `json:"patch,omitempty"`
	// Saves is the time in each second that it would save; 0 where that is the whole cost, or unknown.
	Saves float64 `json:"saves_seconds_per_second,omitempty"`
	// P99 is the 99th percentile of the time that a piece of work takes with it, by the model, and P99Now that
	// without it; both 0 where they are unknown.
	P99    time.Duration `json:"predicted_p99_ns,omitempty"`
	P99Now time.Duration `json:"predicted_p99_now_ns,omitempty"`
	// Change is the same in the keys of a [platform.Setting], for a copy of the container; an
	// empty value takes a limit away. It is empty where no copy could be given that.
	Change map[string]string `json:"change,omitempty"`
}

// Fact is one figure that a finding rests on.
type Fact struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

// levelOf ranks time lost in each second. A tenth is what users notice; below a hundredth
// no setting is worth the trouble.
func levelOf(rate float64) Level {
	switch {
	case rate >= 0.1:
		return High
	case rate >= 0.01:
		return Medium
	}
	return Low
}

// finding begins a finding of a container.
func finding(c container.Container, k Kind, cost Cost) Finding {
	return Finding{
		ID: idOf(c.Name, k), Kind: k, Container: c.Name,
		Level: levelOf(cost.Rate), Cost: cost, Based: Measured,
	}
}

// Orders are those in which findings are shown.
var Orders = []string{"cost", "name"}

// Sort sorts findings: the costliest first, or, by name, those of one container together.
func Sort(all []Finding, order string) {
	slices.SortStableFunc(all, func(a, b Finding) int {
		byName := 0
		if order == "name" {
			byName = cmp.Compare(a.Container, b.Container)
		}
		return cmp.Or(
			byName,
			cmp.Compare(slices.Index(Levels, a.Level), slices.Index(Levels, b.Level)),
			cmp.Compare(b.Cost.Rate, a.Cost.Rate),
			cmp.Compare(b.Cost.Bytes, a.Cost.Bytes),
			cmp.Compare(a.Within, b.Within),
			cmp.Compare(a.ID, b.ID),
		)
	})
}
