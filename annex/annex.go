// Package annex holds the words that the parts of the memory extension share: what is
// managed, what is seen of it, and what is asked of the kernel.
//
// The extension lets a host hold more containers than its memory does. The kernel's own
// swap keeps every page safe; the extension decides which pages leave, when and in which
// order, and brings them back before they are missed. Nothing here acts: monitor sees,
// data decides, media moves, and each knows these types and not one another.
//
// S3 is Container Density Improvements with Dynamic Memory Extension using NAND Flash
// (2018), whose description the packages mirror.
package annex

import (
	"fmt"
	"time"
)

// PageSize is the size of a page in bytes, in which everything is counted.
const PageSize = 4096

// Class is what is done with a container's memory.
type Class string

// The classes.
const (
	// Critical is protected: nothing of it is moved, and its pressure stops all eviction.
	Critical Class = "critical"
	// Elastic is managed: its pages leave and come back.
	Elastic Class = "elastic"
	// Ignored is neither: the default.
	Ignored Class = "ignored"
)

// Classes lists the classes.
var Classes = []Class{Critical, Elastic, Ignored}

// Moment is a moment by the clock by which the kernel stamps its events (CLOCK_MONOTONIC),
// or by that of a simulation.
type Moment time.Duration

// After is the moment d later.
func (m Moment) After(d time.Duration) Moment { return m + Moment(d) }

// Since is how long after earlier it is.
func (m Moment) Since(earlier Moment) time.Duration { return time.Duration(m - earlier) }

// ID names a memory context: one container, for as long as it runs. A container that is
// started anew is another.
type ID string

// Space names one address space for its life: a process by its id and its start, in clock
// ticks since boot, so that an id that is used again is another space.
type Space struct {
	PID     int32
	Started uint64
}

func (s Space) String() string { return fmt.Sprintf("%d@%d", s.PID, s.Started) }

// Page is a page of a space: its virtual address over PageSize.
type Page uint64

// Run is consecutive pages of a space.
type Run struct {
	Space Space
	First Page
	Pages int
}

// End is the first page that is not of the run.
func (r Run) End() Page { return r.First + Page(r.Pages) }

// Count is how many pages runs have together.
func Count(runs []Run) int {
	n := 0
	for _, r := range runs {
		n += r.Pages
	}
	return n
}
