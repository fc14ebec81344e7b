// Package faults records page faults: every one that the watched containers
// take, with the entry as it was before the fault, what lies behind it, and the
// instruction that took it.
//
// The types are S1's (table 5.1 of Characterization of containers): they follow
// from the entry before the fault, the mapping and the access alone. What the
// kernel then does (fault-around maps up to 16 pages of a file at once; a
// large folio more) is not part of a type.
//
// [Start] records by BPF programs (bpf/faults.c), which are gone with the process
// that loaded them, however it ends. They see what the processor raises as an
// exception: pages that the kernel brings in for itself by walking the tables
// (get_user_pages: pinned buffers, mlock, MAP_POPULATE) raise none. [StartEvents] only
// counts, where BPF may not be used. [Cost] says what a fault of each type takes
// on this host.
//
// It is no profiler of memory: it does not know how long one fault took, since
// there is no event at its end, nor accesses that fault not.
//
// Sources: exceptions:page_fault_user and page_fault_kernel (arch/x86), which fire
// before the fault is handled, and Documentation/arch/x86/exception-tables.rst;
// the order of the checks is that of the kernel's do_user_addr_fault and
// handle_pte_fault.
package faults

import "time"

//go:generate ../../kernel/bpf/generate.sh bpf/faults.c -mcpu=v3

// Type is S1's type of a page fault.
type Type uint8

// The types. The first six are the columns of S1's table 5.1, and together what it
// counts. facts.go has the rule.
const (
	// Anonymous: no entry, anonymous memory; read (the page of zeros is mapped) or written; a stack that grows.
	Anonymous    Type = iota
	Read              // no entry, a file's page or shared memory, read or executed; private or shared
	CopyOnWrite       // no entry, a private mapping of a file, written
	Shared            // no entry, a shared mapping, written
	Swap              // an entry whose page is in swap, or on its way to another place ([Moving])
	WriteProtect      // an entry that may not be written, written, where the mapping allows it
	// Spurious is none of S1's: the entry allows the access already, since
	// another thread was faster, or the processor held an older one.
	Spurious
	// Refused is none of S1's: no mapping, or one that does not allow the access; the
	// program gets a signal.
	Refused
	// Hint is none of S1's: the kernel has withdrawn an entry for a while to learn who
	// uses the page (NUMA balancing), and gives it back.
	Hint
	// Untyped is none of S1's: the mapping could not be read, since another
	// thread was changing it.
	Untyped
	Types
)

var typeNames = [Types]string{"anonymous", "read", "copy-on-write", "shared", "swap", "write-protect", "spurious", "refused", "hint", "untyped"}

// String is S1's name of the type.
func (t Type) String() string {
	if t < Types {
		return typeNames[t]
	}
	return "unknown"
}

// InTable reports whether the type is one of S1's.
func (t Type) InTable() bool { return t < Spurious }

// Fault is one page fault.
type Fault struct {
	At      time.Duration // by probe/sched's clock
	PID     int32         // thread group
	Thread  int32
	Target  int32 // index of the target
	CPU     int32
	Address uint64 // that was touched, bytes
	IP      uint64 // of the instruction; of the kernel's, where Kernel
	// Entry is the page-table entry as it was: 0 is none. Of a fault in a huge
	// page it is that of the upper level.
	Entry uint64
	// State is what Entry says.
	State State
	// Level is where Entry stands: 0 in a last-level table, 1 for 2 MiB, 2 for 1 GiB. No
	// entry at a level means no table below it.
	Level uint8
	Type  Type
	// Kernel means that the kernel touched the page for the process: a read() into fresh memory.
	Kernel  bool
	Write   bool
	Execute bool
	// Mapping says what lies there; the zero value where there is none.
	Mapping Mapping
	// Code says what lies at IP; the zero value where Kernel.
	Code Mapping
	// Major means that it waited for a device. It follows from the thread's
	// own count at its next fault or its end; MajorKnown is false where that does not
	// say, as for a thread whose end was not seen.
	Major, MajorKnown bool
}

// Page is the number of the virtual page.
func (f *Fault) Page() uint64 { return f.Address / pageSize }

// Frame is the number of the frame that the entry pointed at; ok is false
// where it did not point at one.
func (f *Fault) Frame() (frame uint64, ok bool) {
	const frames = 0x000ffffffffff000
	switch f.State {
	case Writable, ReadOnly, Withdrawn:
	default:
		return 0, false
	}
	inside := uint64(1)<<(9*f.Level) - 1
	return f.Entry&frames/pageSize&^inside | f.Page()&inside, true
}

const pageSize = 4096

// Mapping is what the kernel has of a mapping at a fault.
type Mapping struct {
	Start, End uint64 // virtual bytes; a stack's before it grew
	Flags      uint64 // vm_flags
	// Device and Inode are the file's, as stat has them: of the file that the
	// pages are of, which below overlayfs is the layer's, the same for every container of
	// an image (/proc/PID/maps may show the overlay's own). 0 and 0 is no file.
	Device uint64
	Inode  uint64
	Page   uint64 // of the file, in pages, where the fault was
	// Anonymous memory is no file's, though private memory from /dev/zero has one.
	Anonymous bool
}

// Bits of Mapping.Flags, of the kernel's include/linux/mm.h.
const (
	MayRead    = 0x1
	MayWrite   = 0x2
	MayExecute = 0x4
	IsShared   = 0x8
)

// Target is what is watched. Of a process that belongs to several the first
// counts: processes given by id go before directories, and of nested directories the
// inner one counts.
type Target struct {
	Name string
	// Cgroup is a directory of a mounted hierarchy: all processes in it or below
	// are watched, those to come among them. Empty where PIDs are given.
	Cgroup string
	// PIDs are processes that are watched, with the children that they make from then on.
	PIDs []int
}
