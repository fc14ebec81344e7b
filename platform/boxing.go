package platform

import (
	"context"
	"fmt"
	"time"
)

// Class is what a program in a box is there for.
type Class string

// The classes of programs in a box.
const (
	Critical Class = "critical" // whose latency is watched
	Idle     Class = "idle"     // which lie there, most of the time, with memory in use
)

// Classes lists the classes.
var Classes = []Class{Critical, Idle}

// BoxKind is what stands for the machine whose memory runs out.
type BoxKind string

// The kinds of boxes.
const (
	// BoxGroup is a cgroup with a memory limit around all programs. It has no reclaimer of
	// its own (kswapd): whoever allocates at the limit reclaims.
	BoxGroup BoxKind = "cgroup"
	// BoxMachine is all memory of the kernel that the programs run under: of a virtual
	// machine by its agent, or, where that is allowed, of the host.
	BoxMachine BoxKind = "machine"
)

// SwapKind is where pages go that leave memory.
type SwapKind string

// The kinds of swap.
const (
	SwapNone  SwapKind = "none"  // nowhere: the programs in the box may not swap
	SwapFile  SwapKind = "file"  // a file on disk
	SwapZRAM  SwapKind = "zram"  // a compressed block device in memory, which counts as the box's
	SwapZswap SwapKind = "zswap" // a file on disk behind a compressed pool in memory, which counts as the box's
)

// SwapKinds lists the kinds of swap.
var SwapKinds = []SwapKind{SwapNone, SwapFile, SwapZRAM, SwapZswap}

// Protection is what is done for the critical class beyond the kernel's defaults.
type Protection string

// The protections. What each writes is in docs/density.md.
const (
	ProtectNone       Protection = "none"
	ProtectSwappiness Protection = "swappiness" // v1: memory.swappiness 0 of the critical class; v2: memory.low above what it has
	ProtectLimit      Protection = "limit"      // a limit of its own around the idle class
	ProtectHeadroom   Protection = "headroom"   // pages of the idle class are reclaimed ahead of need
)

// Protections lists the protections.
var Protections = []Protection{ProtectNone, ProtectSwappiness, ProtectLimit, ProtectHeadroom}

// BoxSpec is a bound around several programs together: a machine's memory in small.
type BoxSpec struct {
	Name   string   `json:"name"` // unique on the host, as [Spec.Name]; the box's group is CgroupParent/Name
	Kind   BoxKind  `json:"kind"`
	Memory int64    `json:"memory_bytes"` // for all programs in it together; of a BoxMachine what it has, for reports
	Swap   SwapKind `json:"swap"`
	// SwapSize is how much may leave memory, in bytes.
	SwapSize int64 `json:"swap_bytes"`
	// PageCluster is vm.page-cluster: 2^n pages are read for one; negative leaves it as it is.
	PageCluster int        `json:"page_cluster"`
	Protect     Protection `json:"protect"`
	// Reserve is what [ProtectLimit] leaves for the critical class, in bytes.
	Reserve int64 `json:"reserve_bytes"`
	// Extend is what runs beside the box, outside of it, to have pages of its idle class
	// leave memory and come back.
	Extend Extension `json:"extend,omitempty"`
	// ExtendConfig is the text of the extension's configuration, with what is the box's
	// left to the box; empty is everything as it is by default.
	ExtendConfig string `json:"extend_config,omitempty"`
}

// Boxing is a Platform whose programs run under another kernel, and which makes boxes
// there. For the others package lab makes them.
type Boxing interface {
	Box(ctx context.Context, spec BoxSpec) (Box, error)
}

// Box is a bound around several programs. Its methods may be called from several
// goroutines.
type Box interface {
	// Group is the [Spec.Group] of a class' programs.
	Group(c Class) string
	// Read reads the box's accounts. A box that is in danger, or puts the host in
	// danger, gives the reading and an *Endangered.
	Read(ctx context.Context) (BoxReading, error)
	// Remove ends what runs in it and puts everything back as it was found.
	Remove(ctx context.Context) error
}

// Watched is a [Box] that is looked after all the time, so that danger is known without a
// reading: those of many groups take ten milliseconds and more, which whoever measures
// what goes on in it would have the programs wait for.
type Watched interface {
	// Danger is what endangers the box or the host, as of the last second or so, and all
	// that did before; nil is nothing.
	Danger() *Endangered
}

// Endangered says that going on would put the host itself in danger, or that the box has
// come to its end.
type Endangered struct {
	Why string
	// Within tells that the box alone has come to its end, and the host is in no danger.
	Within bool `json:",omitempty"`
}

func (e *Endangered) Error() string {
	if e.Within {
		return e.Why
	}
	return fmt.Sprintf("stopped for the host's sake: %s", e.Why)
}

// BoxReading are a box's accounts at one moment. What the kernel does not tell is in
// Absent, by the field's JSON name, with the reason, and 0 here.
type BoxReading struct {
	At       time.Time              `json:"at"`
	Limit    int64                  `json:"limit_bytes"` // in force; what compressed swap holds is taken from it
	Classes  map[Class]ClassReading `json:"classes"`
	SwapIn   int64                  `json:"swap_in_pages"`  // read back, since boot
	SwapOut  int64                  `json:"swap_out_pages"` // written, since boot
	SwapUsed int64                  `json:"swap_used_bytes"`
	SwapSize int64                  `json:"swap_size_bytes"`
	Pool     int64                  `json:"pool_bytes"` // memory that compressed swap holds
	// DeviceWritten and DeviceRead are what went to and came from the device below the swap area, since boot.
	DeviceWritten int64 `json:"device_written_bytes"`
	DeviceRead    int64 `json:"device_read_bytes"`
	// HostAvailable is MemAvailable of the kernel that the box is on.
	HostAvailable int64 `json:"host_available_bytes"`
	// Some and Full are as a class', of everything in the box.
	Some time.Duration `json:"pressure_some_ns"`
	Full time.Duration `json:"pressure_full_ns"`
	// Keeper is the CPU time that tare itself has used for the box: to take what
	// compressed swap holds from its limit, and to keep headroom. Reclaiming is for how
	// long it has waited meanwhile for memory to be reclaimed; the host's pressure counts
	// that, and the box's does not.
	Keeper     time.Duration `json:"keeper_cpu_ns"`
	Reclaiming time.Duration `json:"reclaiming_ns"`
	// Extension is what the box's extension tells; nil where it has none.
	Extension *ExtensionReading `json:"extension,omitempty"`
	Absent    map[string]string `json:"absent,omitempty"`
	// Notes are what else is to be known of the figures, such as swap of the host's own.
	Notes []string `json:"notes,omitempty"`
}

// ClassReading are the accounts of a class.
type ClassReading struct {
	Resident    int64         `json:"resident_bytes"` // charged memory
	Anonymous   int64         `json:"anonymous_bytes"`
	Swapped     int64         `json:"swapped_bytes"`
	MajorFaults int64         `json:"major_faults"`     // since the class was made
	Some        time.Duration `json:"pressure_some_ns"` // time in which a task of it waited for memory (PSI)
	Full        time.Duration `json:"pressure_full_ns"` // time in which all of them did
	CPU         time.Duration `json:"cpu_ns"`
	OOMKills    int64         `json:"oom_kills"`
}
