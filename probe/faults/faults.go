// Package faults records page faults: every one that the watched containers
// take, with the entry as it was before the fault, what lies behind it, and the
// instruction that took it.
//
// The types are S1's (table 5.1 of Characterization of containers): they follow
// from the entry before the fault, the mapping and the access alone. What the
// kernel then does (fault-around maps up to 16 pages of a file at once; a
// large folio more) is not part of a type.
//
// Sources: exceptions:page_fault_user and page_fault_kernel (arch/x86), which fire
// before the fault is handled, and Documentation/arch/x86/exception-tables.rst.
package faults

import "time"

// Type is S1's type of a page fault.
type Type uint8

// The types.
const (
	Anonymous    Type = iota // no entry, anonymous memory
	Read                     // no entry, a file's page, read or executed
	CopyOnWrite              // no entry, a private mapping of a file, written
	Shared                   // no entry, a shared mapping, written
	Swap                     // an entry whose page is in swap (or migrating)
	WriteProtect             // an entry that may not be written, written
	// Spurious is none of S1's: the entry allows the access already, since
	// another thread was faster, or the processor held an older one.
	Spurious
	// Refused is none of S1's: no mapping, or one that does not allow the access; the
	// program gets a signal.
	Refused
	Types
)

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
	Type  Type
	// Kernel tells that the kernel touched the page for the process: a read() into fresh memory.
	Kernel  bool
	Write   bool
	Execute bool
	// Mapping says what lies there.
	Mapping Mapping
	// Duration is how long the fault took, until the program went on; 0 where it is not known.
	Duration time.Duration
	// Major tells that it waited for a device.
	Major bool
}

// Mapping is what the kernel has of a mapping at a fault.
type Mapping struct {
	Start  uint64 // of the mapping, virtual bytes
	Flags  uint64 // vm_flags
	Device uint64 // of the file's file system; 0 is anonymous
	Inode  uint64
	Page   uint64 // of the file, in pages, where the fault was
}

// Target is what is watched.
type Target struct {
	Name string
	// Cgroup is a directory of a mounted hierarchy: all processes in it or below
	// are watched, those to come among them. Empty where PIDs are given.
	Cgroup string
	// PIDs are processes that are watched, with the children that they make from then on.
	PIDs []int
}
