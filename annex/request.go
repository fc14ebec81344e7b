package annex

// Op is what is asked of media.
type Op uint8

// The operations.
const (
	// Evict has pages leave memory, in the order in which they are given: what is given last
	// lies together in swap.
	Evict Op = iota
	// Fetch brings pages into memory and does not map them: the program's touch is then a
	// short fault, which tells that it came.
	Fetch
	// Map brings pages in and maps them: their touch costs nothing, and is not reported.
	Map
)

func (o Op) String() string { return [...]string{"evict", "fetch", "map"}[o] }

// Reason is why something is asked: what `annex explain` tells.
type Reason string

// The reasons.
const (
	Cold      Reason = "cold"      // not used for longer than the threshold
	Dormant   Reason = "dormant"   // its container sleeps, and is expected to
	Headroom  Reason = "headroom"  // memory is needed, and its next use is furthest
	Share     Reason = "share"     // its container has more than its share
	Expected  Reason = "expected"  // its container is expected to wake
	Awake     Reason = "awake"     // its container woke, and uses it when it does
	Following Reason = "following" // a container woke after which this one does
	Drained   Reason = "drained"   // the operator wants everything back
	Leftover  Reason = "leftover"  // in memory, and mapped by nobody that could use it
)

// Request is one thing that is asked of media: pages of one context, of one kind, for one
// reason. Data and media exchange requests and results and nothing else, so that a
// medium is one small implementation, and a simulation is one too.
type Request struct {
	Number uint64 // one after another, from 1
	ID     ID
	Op     Op
	Why    Reason
	// Runs are in the order of their use: first touched first. Of an eviction they are in
	// the order in which they are to leave.
	Runs []Run
	// Unmapped is how many pages of the context that are in memory and mapped by nobody are to be
	// freed by an eviction that names none: they have a place in swap, and nobody knows which
	// they are but the kernel, which read them ahead.
	Unmapped int
	// By is when it is needed; 0 is as soon as it can be had. Nothing is begun after it that
	// would only be in the way.
	By Moment
}

// Result is what became of a request.
type Result struct {
	Number       uint64
	ID           ID
	Op           Op
	Began, Ended Moment
	// Asked and Moved are pages. Of those that did not move some had gone already, some are
	// shared, some are locked: Skipped says how many were passed by for no fault.
	Asked, Moved, Skipped int
	// Cached is how many of those that an eviction passed by are in swap by their entries: what
	// was brought in and not touched takes memory still, and has to be reclaimed only.
	Cached int
	// Freed is how many pages of memory an eviction is known to have freed, of those that moved
	// and of those that are cached: what lies in memory still, as swap cache, is not in it.
	Freed int
	// Stopped tells that it was left unfinished, since demand, pressure or its time came
	// before the rest.
	Stopped bool
	// Unread are pages that swap does not give back: they are where they were.
	Unread []Run
	// Err is why the rest was not done; nil where it was, or was left off.
	Err error
	// Parts tell of each space, where the request was not done as a whole: a space that fails
	// does not keep it from others. Where they are not reported, its first pages are done.
	Parts []Part
}

// Part is what became of a request's pages of one space: the first Done were gone through, and
// Moved of them moved. Gone tells that there is no such space any more.
type Part struct {
	Space       Space
	Done, Moved int
	Gone        bool
}
