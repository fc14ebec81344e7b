package annex

import "time"

// State is what a scan tells of a page of private anonymous memory. The zero value is a
// page that was never touched, or given back.
type State uint8

// The states, which may hold together.
const (
	Present  State = 1 << iota // mapped
	Swapped                    // its entry names a place in swap; the page itself may still be in memory, as swap cache
	Accessed                   // the processor has used the entry since it was last cleared, or made
	Dirty                      // written since it was brought in
	Shared                     // mapped by several processes, as after a fork: eviction passes it by
	Huge                       // part of a page that is mapped by one entry of a higher level
)

// Has tells whether all of flags are set.
func (s State) Has(flags State) bool { return s&flags == flags }

// Stretch is the states of consecutive pages.
type Stretch struct {
	First  Page
	States []State
}

// Scan is what one look at a space's page tables found: the stretches of its private
// anonymous memory, ascending.
type Scan struct {
	ID           ID
	Space        Space
	Began, Ended Moment
	Stretches    []Stretch
	// KnowsAccess tells that Accessed is reported; where the tables themselves cannot be read it
	// is not.
	KnowsAccess bool
	// Changed tells that the space mapped or unmapped memory meanwhile: what is said of it
	// is of no single moment.
	Changed bool
}

// Fault is a page fault of a managed process on its private anonymous memory. It is what
// tells truly that the program itself touched a page: a page that was brought in and not
// mapped faults when it is touched, and waits for no device.
type Fault struct {
	ID    ID
	Space Space
	Page  Page
	At    Moment
	Write bool
	// Swapped tells that the entry named a place in swap: the page had left, or had been
	// brought back and not mapped. Otherwise the page was new.
	Swapped bool
}

// Change is what a context does.
type Change uint8

// The changes.
const (
	// Woke is a context that begins to run after having been dormant.
	Woke Change = iota
	// Slept is one that has not run for as long as dormancy takes.
	Slept
)

// Activity is a step of a context from dormant to active or back. A health probe wakes a
// container for a moment: what it used tells it from work.
type Activity struct {
	ID   ID
	What Change
	At   Moment // of Slept, when it last ran
	// CPU is the processor time that it used from waking to sleeping; of Woke 0.
	CPU time.Duration
}

// Pressure is for how long tasks had waited for memory up to a moment (PSI): some of them,
// and all of them at once. Both only grow.
type Pressure struct {
	At         Moment
	Some, Full time.Duration
}

// Memory is the state of what is defended: the host's memory, or a control group's.
type Memory struct {
	At Moment
	// Limit is how much there is, and Free how much of it anyone may take without anything
	// having to be reclaimed first. Bytes.
	Limit, Free int64
	// SwapSize and SwapFree are of the swap that is used. Bytes.
	SwapSize, SwapFree int64
	// SwapFails tells that the device fails to which the next pages would leave.
	SwapFails bool
	// Pool is memory that compressed swap holds. Bytes.
	Pool int64
}
