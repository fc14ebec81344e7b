// Package pagetable takes a census of page tables: which virtual pages of which
// processes map which frames, what lies behind each mapping, and what the kernel
// knows of each frame. Nothing is written anywhere: no accessed bit is cleared.
//
// Two back ends take the same census. [Walk] reads the page tables themselves
// by a BPF program; [Files] reads /proc/PID/pagemap and /proc/kpageflags. On a
// stopped process they agree to the entry.
//
// Sources: Documentation/admin-guide/mm/pagemap.rst, Documentation/mm/page_tables.rst
// and arch/x86/include/asm/pgtable_types.h of the kernel.
package pagetable

import (
	"context"
	"time"
)

// PageSize is the size of a base page in bytes, in which everything is counted.
const PageSize = 4096

// Kind is what a mapping holds.
type Kind uint8

// The kinds. A mapping of a file that is executable, or that belongs to a file
// that is mapped executable in the same process (a program's constants and data),
// is Code where the file is the process' own executable and Library elsewhere;
// once written to privately, its pages are still counted under it.
const (
	Code Kind = iota
	Library
	FileData
	Anonymous
	Heap  // what brk made: [heap]
	Stack // the first thread's: [stack]
	SharedMemory
	VDSO   // [vdso], [vvar], [vsyscall]
	Device // of /dev, but for shared memory; and what the kernel maps without frames of its own
	Kinds  // how many there are
)

// Mapping is one range of a process' address space.
type Mapping struct {
	Start, End uint64 // virtual addresses, bytes; End is the first that is not of it
	Kind       Kind
	Write      bool
	Execute    bool
	Shared     bool
	// File is the path of what is mapped, as the process names it; empty for anonymous memory.
	File    string
	Deleted bool   // the file is no longer at that path
	Device  uint64 // of the file's file system, as stat has it
	Inode   uint64
	Offset  uint64 // bytes into the file of Start
}

// Run is a stretch of virtual pages with entries, one after the other, within
// one mapping.
type Run struct {
	Page    uint64 // virtual page number of the first: address / PageSize
	Mapping int    // index in the Space
	Entries []Entry
}

// Tables counts the page-table pages of a process, 4 KiB each, by level.
type Tables struct {
	PTE, PMD, PUD, P4D uint64
	// Known is false where the back end cannot see the tables; then PTE and PMD
	// are what the entries need, at least.
	Known bool
}

// Space is the address space of one process.
type Space struct {
	PID     int
	Command string
	// Group is the index of the container, or whatever the caller groups by.
	Group    int
	Mappings []Mapping // ascending; not to be changed: spaces that map the same share it
	Runs     []Run     // ascending; only pages with an entry
	Tables   Tables
	// Changed means that the process mapped or unmapped memory while the
	// census read it: its figures are of no single moment.
	Changed bool
}

// Process asks for one process in a census.
type Process struct {
	PID   int
	Group int
}

// Census is what was found.
type Census struct {
	// Backend is "page tables" or "pagemap".
	Backend string
	// Flags means that what comes from /proc/kpageflags is in the entries.
	Flags  bool
	Spaces []Space
	// Gone are the processes that ended or executed another program before they
	// could be read; Kernel those without memory of their own.
	Gone, Kernel []int
	// Refused are those that this program may not look into, since they have
	// capabilities that it lacks.
	Refused []int
	// Twin are processes that share the address space of one that is counted.
	Twin    []int
	Taken   time.Time
	Elapsed time.Duration
	// Reading is the part of Elapsed that read the tables, and Flagging the part
	// that read the flags.
	Reading, Flagging time.Duration
}

// Entries is the number of entries.
func (c *Census) Entries() (n uint64) {
	for i := range c.Spaces {
		for j := range c.Spaces[i].Runs {
			n += uint64(len(c.Spaces[i].Runs[j].Entries))
		}
	}
	return n
}

// Taker takes censuses. It may be used by one goroutine at a time.
type Taker interface {
	// Name is what Census.Backend says.
	Name() string
	// Take reads the page tables of processes. Processes that end meanwhile
	// are reported, and no error. flags asks for the frames' flags too.
	Take(ctx context.Context, processes []Process, flags bool) (*Census, error)
	Close() error
}
