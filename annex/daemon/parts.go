package daemon

import (
	"context"
	"time"

	"tare/annex"
	"tare/annex/control"
	"tare/annex/data"
	"tare/annex/monitor"
	"tare/container"
)

// Parts are what a daemon is made of. They may be the kernel's, or of a test.
type Parts struct {
	Finder  Finder
	Monitor Monitor
	Data    Data
	Mover   Mover
	Bound   Bound
	// Changes tells that containers may have come or gone; nil where nobody tells.
	Changes <-chan struct{}
	// Alarm watches critical containers; nil where only looking now and then does.
	Alarm Alarm
	// Log takes what was decided; nil where nobody wants to know.
	Log *Log
	// Now is the clock by which everything is stamped.
	Now func() annex.Moment
	// Identify names a container for as long as it runs; nil is by its control group.
	Identify func(container.Container) (annex.ID, error)
	// Tiers tells of the swap areas; nil where nobody does.
	Tiers func() []control.Tier
	// Unguarded says that no guard process is there though settings are changed, and empty that one
	// is; nil where nobody knows.
	Unguarded func() string
	// Vain says why evictions freed less than had left; nil where nobody knows.
	Vain func() string
	// Failing says which swap areas fail, and whether the next pages would leave to one of them; nil where
	// nobody knows.
	Failing func() (text string, holds bool, err error)
	// Size tells what a container that data does not look at has in memory and in swap, in
	// bytes; nil where nobody does.
	Size func(c container.Container) (resident, extended int64, err error)
	// Frozen tells whether a container's processes are frozen or stopped, and CPU what CPU time they
	// have used; nil where nobody does.
	Frozen func(c container.Container) (bool, error)
	CPU    func(c container.Container) (time.Duration, error)
	// Read reads the configuration anew; restart are the keys that want a new start.
	Read func(managing bool) (s Settings, restart []string, err error)
	// Warnings are what the operator should know besides.
	Warnings []string
	Version  string
}

// Finder finds the containers that run: those that engines tell of, and control groups that
// the configuration names. Notes are what could not be asked.
type Finder interface {
	Find(ctx context.Context) (all []container.Container, notes []string, err error)
}

// Monitor sees what containers do: [monitor.Monitor].
type Monitor interface {
	// Watch begins with a container, by the directory of its control group.
	Watch(id annex.ID, directory string) error
	Unwatch(id annex.ID) error
	// Precede has a critical container come first, until Unwatch, GiveWay gives way to those, and
	// Given is for how long that was done so far.
	Precede(id annex.ID, directory string) error
	GiveWay(most time.Duration) time.Duration
	Given() time.Duration
	// Events is closed when nothing more is seen.
	Events() <-chan monitor.Batch
	// Scan looks at the page tables of a container's processes.
	Scan(ctx context.Context, id annex.ID) ([]annex.Scan, error)
}

// Data decides: [data.Manager].
type Data interface {
	Add(info data.ContextInfo)
	Remove(id annex.ID)
	Forget(id annex.ID, s annex.Space)
	// Look tells what one look at all spaces of a container found.
	Look(id annex.ID, spaces []annex.Scan)
	Faults(faults []annex.Fault)
	// Lost tells that some were not reported.
	Lost()
	Activity(a annex.Activity)
	Pressure(id annex.ID, p annex.Pressure)
	// NoPressure tells that nothing is known of a container's pressure any more.
	NoPressure(id annex.ID)
	// Unmapped tells how much of one is in memory and mapped by nobody.
	Unmapped(id annex.ID, bytes int64)
	// Frozen tells whether one is frozen, and Aside until when nothing is to be asked of it.
	Frozen(id annex.ID, is bool)
	Aside(id annex.ID, until annex.Moment)
	Memory(m annex.Memory)
	Done(r annex.Result)
	Plan(now annex.Moment) (requests []annex.Request, next annex.Moment)
	SetPolicy(p data.Policy)
	Drain(on bool)
	Status() data.Status
	Explain(id annex.ID) (data.Explanation, bool)
}

// Mover moves: [tare/annex/media.Mover].
type Mover interface {
	Do(ctx context.Context, r annex.Request) annex.Result
	// Forget tells that a space has ended: nothing more is asked of it.
	Forget(s annex.Space)
}

// Bound is what is defended, and what the kernel is told for it: [tare/annex/bound].
type Bound interface {
	Memory() (annex.Memory, error)
	// Pressure is a container's.
	Pressure(c container.Container) (annex.Pressure, error)
	// Unmapped is how much of one is in memory and mapped by nobody: swap cache.
	Unmapped(c container.Container) (bytes int64, err error)
	// Inspect says how much of a container may be in swap (0 is any amount), and why it
	// cannot be extended, where it cannot.
	Inspect(c container.Container) (swapMost int64, fixed string)
	// Crowded is the nearest limit of swap above one of which half or more is used, so that all of it
	// that leaves is written; empty where there is none.
	Crowded(c container.Container) (group string, err error)
	// Room is how much a container may still take before a limit of its own, or of what it
	// lies in, makes that other pages of it leave; limited is false where it has none.
	Room(c container.Container) (bytes int64, limited bool)
	// Reclaim frees what an eviction of so many bytes left of a container as swap cache, and
	// tells how many of them are free then, by whomever.
	Reclaim(ctx context.Context, c container.Container, bytes int64) (freed int64, err error)
	// Protect keeps a critical container's memory while others' leaves. It may be called
	// again.
	Protect(c container.Container) error
	Unprotect(c container.Container) error
	// Release puts back whatever was set.
	Release() error
}

// Alarm tells at once that tasks of critical containers wait for memory for longer than
// their limit: [tare/annex/bound.Watch].
type Alarm interface {
	Add(c container.Container) error
	Remove(c container.Container)
	// Alarms has a value when the limit comes to be exceeded, and Over tells whether it is.
	Alarms() <-chan struct{}
	Over() bool
	// Since is from when it has been exceeded.
	Since() annex.Moment
	// Evicting says that pages leave, which has it look closely, until what it returns is
	// called.
	Evicting() (ended func())
}

// mostGiven is for how long one piece of work gives way to critical containers: some of their
// requests are answered in it. Where they never rest the piece is done after it all the same, so
// that pages leave and come, if slowly.
const mostGiven = 2 * time.Millisecond

// giveWay lets critical containers go first, where they wait for the processor that the caller is on.
func (p *Parts) giveWay() { p.Monitor.GiveWay(mostGiven) }
