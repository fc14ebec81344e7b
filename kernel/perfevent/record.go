package perfevent

import "time"

// Record is one of the kinds below.
type Record interface{ id() *ID }

// ID is what every record has: whose it is, when and where it was written. A
// field that the kernel did not report is 0.
type ID struct {
	PID, TID int           // PID is the thread group; 0 is the idle task
	Time     time.Duration // of CLOCK_MONOTONIC
	CPU      int
}

func (i *ID) id() *ID { return i }

// When is the record's time.
func When(r Record) time.Duration { return r.id().Time }

// Sample is one tick of a CPU's clock.
type Sample struct {
	ID
	IP     uint64
	Period time.Duration // what the sample stands for
	// Kernel and User are the call chain, innermost first: the first of each
	// is where that side was, the others are return addresses. Kernel is empty
	// where the CPU ran user code; User for kernel threads.
	Kernel, User []uint64
	Cgroup       uint64 // in the hierarchy of perf_event; 0 where unknown
}

// Mapping is a file mapped to be executed.
type Mapping struct {
	ID
	Address, Length uint64
	Offset          uint64 // in the file
	BuildID         []byte // where the kernel read it
	File            string // seen from the process' root: "/bin/sh", "[vdso]", "//anon"
}

// Comm is a thread's new name.
type Comm struct {
	ID
	Name string
	Exec bool // by execve(2), which also empties its memory
}

// Task is the birth or the end of a thread.
type Task struct {
	ID
	Parent, ParentTID int
	Exit              bool
}

// Lost counts records that found no room in the ring.
type Lost struct {
	ID
	Count uint64
}

// Throttle says that the kernel withholds samples since they take too long, or
// that it does so no more.
type Throttle struct {
	ID
	Ends bool
}

// Cgroup names a control group, when it is made.
type Cgroup struct {
	ID
	Cgroup uint64
	Path   string
}
