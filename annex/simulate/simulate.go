// Package simulate runs containers' access traces on a modelled host: memory, swap and a
// device, the kernel's reclaim, and above it the data management of tare/annex/data or none.
// It tells what a policy would do to critical tails, to bursts and to the device, for policies
// to be tested by and hosts to be planned with, where no kernel is.
//
// It has a virtual clock, starts nothing, and draws no random numbers: the same trace and
// configuration give the same report, byte for byte.
//
// # What is modelled, and what is not
//
// A container does one thing after another, with a processor always free for it. Work of a
// burst that is late shifts the rest of it; requests come when they come, and wait. Each
// page is in one least-recently-used list, which the kernel only approximates. What reclaims
// directly waits for the pages that it writes, 32 at a time. A device does one thing at a
// time, demand before what was asked for ahead; compressed swap is done by whoever wants it,
// and takes memory itself. Pages that come from swap keep their place there until they are
// written. Reading and writing never fail. Evicted pages are uncharged when they are written,
// which on a disk takes tare/annex/bound's help. There is no page cache, and there are no huge
// pages.
//
// Costs are of [Medium], whose presets say where they were measured.
package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"tare/annex"
	"tare/annex/data"
	"tare/annex/trace"
)

// Host is what containers run on.
type Host struct {
	Memory int64 // bytes, of containers
	Swap   int64 // bytes
	Medium Medium
	// Warm is how long it runs before anything is counted.
	Warm time.Duration
	// Dormancy is how long a container does not run until it is said to sleep; default 200 ms,
	// which is monitor's.
	Dormancy time.Duration
}

func (h Host) withDefaults() Host {
	h.Dormancy = cmp.Or(h.Dormancy, 200*time.Millisecond)
	return h
}

// Check tells what is wrong with a host.
func (h Host) Check() error {
	switch {
	case h.Memory < reclaimBatch*annex.PageSize:
		return fmt.Errorf("memory of %d bytes: want at least %d", h.Memory, reclaimBatch*annex.PageSize)
	case h.Swap < 0 || h.Warm < 0 || h.Dormancy < 0:
		return errors.New("swap, warm-up and dormancy are not negative")
	}
	return h.Medium.Check()
}

// Kernel is how the kernel below is set.
type Kernel struct {
	// Cluster is vm.page-cluster: a demand fault reads 2^Cluster places of swap.
	Cluster int
	// Protected has critical containers keep all of their memory (swappiness 0, memory.low).
	Protected bool
	// Headroom is memory that is kept free by reclaiming ahead of need, least recently used
	// first, nothing known of who wakes when; 0 is that nobody does.
	Headroom int64
}

// Manager decides what leaves and comes back: *data.Manager.
type Manager interface {
	Add(info data.ContextInfo)
	Remove(id annex.ID)
	Look(id annex.ID, spaces []annex.Scan)
	Faults(faults []annex.Fault)
	Activity(a annex.Activity)
	Pressure(id annex.ID, p annex.Pressure)
	Memory(m annex.Memory)
	Done(r annex.Result)
	Plan(now annex.Moment) (requests []annex.Request, next annex.Moment)
}

// Policy is what is compared.
type Policy struct {
	Name   string
	Kernel Kernel
	// Manage makes the manager; nil where there is none.
	Manage func() Manager
}

// headroomShare is what is kept free of a host: 64 MiB of a box of 1 GiB.
const headroomShare = 16

// defaultCluster is the kernel's default of vm.page-cluster.
const defaultCluster = 3

// Policies are the ones there are, for a host of so much memory: the stock kernel, the
// kernel with critical containers protected, that with headroom kept, and annex.
func Policies(memory int64) []Policy {
	low := memory / headroomShare / annex.PageSize * annex.PageSize
	protected := Kernel{Cluster: defaultCluster, Protected: true}
	headroom := protected
	headroom.Headroom = low
	return []Policy{
		{Name: "stock", Kernel: Kernel{Cluster: defaultCluster}},
		{Name: "protected", Kernel: protected},
		{Name: "headroom", Kernel: headroom},
		{Name: "annex", Kernel: protected, Manage: func() Manager {
			p := data.Policy{Headroom: data.Headroom{Low: low}}
			// What is under way at once is no more than the headroom bears.
			pages := int(low / annex.PageSize)
			p.MostLeaving, p.MostComing = min(2048, max(pages, 1)), min(8192, max(2*pages, 1))
			p.Piece = min(512, max(pages/4, 1))
			return data.New(p)
		}},
	}
}

// Full says that nothing could leave any more: the host would have ended a container.
type Full struct {
	At   annex.Moment
	Swap bool // there was no place in swap; otherwise only what must stay was left
}

func (f *Full) Error() string {
	why := "all that may leave has left: give it more memory, or fewer critical containers"
	if f.Swap {
		why = "swap is full: give it more, or fewer containers"
	}
	return fmt.Sprintf("at %v memory was full, and %s", time.Duration(f.At), why)
}

// Run has a policy go through a trace. The error is a *Full, the trace's, or ctx's.
func Run(ctx context.Context, h Host, from trace.Source, p Policy) (*Report, error) {
	return runTo(ctx, h, from, p, nil)
}

// runTo does so until it is certain that a bar is missed, if there is one.
func runTo(ctx context.Context, h Host, from trace.Source, p Policy, b *bar) (*Report, error) {
	if err := h.Check(); err != nil {
		return nil, fmt.Errorf("the host: %w", err)
	}
	w := newWorld(h.withDefaults(), from, p)
	w.bar = b
	for n := 0; w.err == nil && w.step(); n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	if w.err != nil && !errors.Is(w.err, io.EOF) {
		return nil, w.err
	}
	return w.report(), nil
}
