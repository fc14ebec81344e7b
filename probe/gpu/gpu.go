// Package gpu records what a CUDA program did and how long it took: kernels, calls of the
// API, copies, the compilation of PTX, each with its distribution; without changing the
// program.
//
// A library in C, which [Build] compiles from the source that lies in this package, is
// loaded into the program by the environment that [Probe] makes. Where CUPTI is there it
// records by that; where it is not, it stands before the driver's functions itself and
// times what the device does by events. docs/gpu.md says what each figure is and what
// taking it costs. What it writes, one file a process, docs/gpu-trace.md specifies;
// [Read] reads it, and [Summarize] makes figures of it.
//
// It neither needs a GPU nor CUDA to be built, read or tested.
package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const name = "gpu"

// Method is by what a process was recorded.
type Method string

// The methods. Auto is no outcome: it asks for CUPTI, and for interposition where that
// is not there.
const (
	Auto          Method = "auto"
	CUPTI         Method = "cupti"
	Interposition Method = "interpose"
	None          Method = "none" // nothing was recorded: Trace.Complaints says why
)

// Memory is a kind of memory that is copied from or to.
type Memory string

// The kinds of memory. Those of the host are pageable or pinned.
const (
	UnknownMemory Memory = "unknown"
	Pageable      Memory = "pageable"
	Pinned        Memory = "pinned"
	DeviceMemory  Memory = "device"
	Array         Memory = "array"
	Managed       Memory = "managed"
)

// Direction is from where to where a copy goes.
type Direction string

// The directions.
const (
	UnknownDirection Direction = "unknown"
	HostToDevice     Direction = "host to device"
	DeviceToHost     Direction = "device to host"
	DeviceToDevice   Direction = "device to device"
	HostToHost       Direction = "host to host"
	PeerToPeer       Direction = "device to another"
	HostToArray      Direction = "host to array"
	ArrayToHost      Direction = "array to host"
	ArrayToArray     Direction = "array to array"
	ArrayToDevice    Direction = "array to device"
	DeviceToArray    Direction = "device to array"
)

// Trace is what one process did, from its first call of the driver on. All moments are
// of CLOCK_MONOTONIC; those of what CUPTI recorded were converted to it.
type Trace struct {
	PID, Parent int
	// Program is the file that it executed; empty where it could not be read.
	Program   string
	Arguments []string
	Method    Method
	// Sample: of so many launches one was timed by events; 0 is none. It says nothing of
	// what CUPTI recorded.
	Sample int
	// Began and Ended are when recording did; Ended is 0 of a process that was killed,
	// executed another program, or still runs. RealTime is Began by the host's calendar.
	Began, Ended time.Duration
	RealTime     time.Time
	// Driver is the driver's CUDA version, 12040; CUPTI's is that of its API; 0 is not known.
	Driver, CUPTI int
	// Loading is when the driver loads kernels: "eager", "lazy"; empty where it does not say.
	Loading string
	// Compiler: the driver's compiler of PTX was mapped at the end; nil where that was not seen.
	Compiler *bool
	// Complaints say in a line each why something is not as it was asked for.
	Complaints []string
	Devices    []Device
	Calls      []Call // by Start
	Work       []Work // by Start
	JIT        []JIT
	Overheads  []Overhead
	Modules    []Module
	Lost       Lost
	// Cut: the file ends within what its head says is there, or is longer than is read, so that some is missing.
	Cut bool
}

// Device is one that the driver serves the process.
type Device struct {
	Ordinal         int
	Name            string
	UUID            string // "GPU-2f5a...", of a divided device its instance's
	Major, Minor    int    // compute capability
	Multiprocessors int
	ComputeMode     int   // 0 default, 2 prohibited, 3 exclusive to a process
	Memory          int64 // bytes
}

// Call is one call of the driver or the runtime.
type Call struct {
	// Name is the function's, without what distinguishes its versions: "cuMemAlloc",
	// "cudaMemcpyAsync".
	Name        string
	Start, Took time.Duration
	Bytes       int64 // that it is about; -1 where there are none, or it is not known
	Status      int   // 0 is success
	Thread      int
	Correlation uint32
	// First: its kernel was not launched before.
	First bool
	// Outer: it is no part of another call of the same thread, as the driver's are of the
	// runtime's.
	Outer bool
}

// Timing is by what the time of a piece of work is known.
type Timing string

// The timings.
const (
	ByCUPTI  Timing = "cupti"
	ByEvents Timing = "events"
	ByCall   Timing = "call" // it is the call's, not the device's
)

// WorkKind is what the device was given to do.
type WorkKind string

// The kinds of work.
const (
	Kernel WorkKind = "kernel"
	Copy   WorkKind = "copy"
	Set    WorkKind = "set"   // of memory
	Graph  WorkKind = "graph" // all of one launch; by events alone
)

// Work is a piece of it.
type Work struct {
	Kind        WorkKind
	Name        string // the kernel's, as the linker has it; empty where it is not known
	Start, Took time.Duration
	Bytes       int64
	Timing      Timing
	Async       bool
	Direction   Direction // of copies
	From, To    Memory    // of copies; To of sets
	Device      int       // ordinal; -1 where it is not known
	Context     int
	Stream      int
	Thread      int // that asked for it; 0 where it is not known
	Correlation uint32
}

// JITKind is what the driver did about PTX.
type JITKind string

// The kinds of just-in-time operations.
const (
	Compile    JITKind = "compile"
	CacheLoad  JITKind = "cache load"
	CacheStore JITKind = "cache store"
)

// JIT is one such operation, which CUPTI alone reports.
type JIT struct {
	Kind        JITKind
	Start, Took time.Duration
	CacheBytes  int64
	Device      int
	Correlation uint32
}

// Overhead is time that CUPTI attributes to no call.
type Overhead struct {
	Kind        string // "driver compiler", "lazy loading of a function"
	Start, Took time.Duration
	Thread      int
}

// Form is what a module that is loaded consists of.
type Form string

// The forms.
const (
	UnknownForm Form = "unknown"
	Cubin       Form = "cubin"
	PTX         Form = "ptx"
	Fat         Form = "fat binary"
)

// Module is one that was loaded. Only interposition reports it.
type Module struct {
	Form        Form
	Start, Took time.Duration // of the call
	Bytes       int64         // 0 where it is not known
	Cubins, PTX int           // entries
	// Arch is 10 * major + minor of the device that it was loaded for, 0 where that is not known.
	Arch int
	// Compiles: there is PTX in it and no cubin that runs on the device; nil where that
	// cannot be known.
	Compiles *bool
	Status   int
	Thread   int
}

// Lost is what is not among the records.
type Lost struct {
	// For want of room (TARE_GPU_MIB): calls and how long they took, in all and by name.
	Calls     int64
	CallsTime time.Duration
	ByName    map[string]LostCalls
	Work      int64
	WorkTime  time.Duration
	Other     int64
	// Launches and copies that were not timed by events: the sample left them out; all
	// events were under way; a graph was being made; the driver refused, or CUPTI had no time; they had
	// not ended when their context or the process did.
	Sampled, Full, Capture, Failed, Unfinished int64
	// CUPTI had no buffer for them; they were of a kind or form that is not known here.
	Dropped, Unknown int64
	// Functions that were handed out as of a version that is not known here: none of
	// their calls is seen.
	Versions int64
}

// LostCalls are calls of one function that found no room.
type LostCalls struct {
	Count int64
	Time  time.Duration
}

// Any reports whether anything is missing that would have been among the figures.
func (l Lost) Any() bool {
	return l.Calls+l.Work+l.Other+l.Full+l.Capture+l.Failed+l.Unfinished+l.Dropped+l.Unknown+l.Versions > 0
}

// Device gives the device of an ordinal; false where nothing is known of it.
func (t *Trace) Device(ordinal int) (Device, bool) {
	i := slices.IndexFunc(t.Devices, func(d Device) bool { return d.Ordinal == ordinal })
	if i < 0 {
		return Device{}, false
	}
	return t.Devices[i], true
}

// Title is how one names the process: "pid 17 (lud)".
func (t *Trace) Title() string {
	if t.Program == "" {
		return fmt.Sprintf("pid %d", t.PID)
	}
	return fmt.Sprintf("pid %d (%s)", t.PID, t.Program)
}

func byStart[T any](all []T, start func(T) time.Duration) {
	slices.SortStableFunc(all, func(a, b T) int { return cmp.Compare(start(a), start(b)) })
}
