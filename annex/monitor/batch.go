package monitor

import "tare/annex"

// queue is how many batches wait for whoever reads them. What is beyond waits in the ring.
const queue = 64

// most is how many faults a batch has at most.
const most = 4096

// Batch is what happened next. Batches come in order, and one has one kind of things: so
// that a container woke comes before its faults, and that it slept after them.
type Batch struct {
	Faults    []annex.Fault // in the order in which they were taken
	Activity  []annex.Activity
	Processes []Process
	// Lost is how many events there was no room for, since it was last reported.
	Lost uint64
}

// Step is what happens to a process.
type Step uint8

// The steps.
const (
	// Forked is a process that was made. Until it executes a program its memory is shared
	// with that which made it.
	Forked Step = iota
	// Executed is one that has a new address space: what was known of the old is void.
	Executed
	// Ended is one whose last thread ends. Its memory goes in a moment.
	Ended
	// Joined is one that was moved into the container from elsewhere, as `docker exec` does. It
	// may be reported several times.
	Joined
)

func (s Step) String() string { return [...]string{"forked", "executed", "ended", "joined"}[s] }

// Process is a step of a process of a container.
type Process struct {
	ID    annex.ID
	Space annex.Space
	What  Step
	At    annex.Moment
}

// batches gathers what happened, in order.
type batches struct {
	all []Batch
}

// open gives the batch to which the next thing of a kind goes.
func (b *batches) open(fits func(*Batch) bool) *Batch {
	if n := len(b.all); n > 0 && fits(&b.all[n-1]) {
		return &b.all[n-1]
	}
	b.all = append(b.all, Batch{})
	return &b.all[len(b.all)-1]
}

func (b *batches) fault(f annex.Fault) {
	to := b.open(func(x *Batch) bool { return x.Faults != nil && len(x.Faults) < most })
	to.Faults = append(to.Faults, f)
}

func (b *batches) activity(a annex.Activity) {
	to := b.open(func(x *Batch) bool { return x.Activity != nil })
	to.Activity = append(to.Activity, a)
}

func (b *batches) process(p Process) {
	to := b.open(func(x *Batch) bool { return x.Processes != nil })
	to.Processes = append(to.Processes, p)
}

func (b *batches) lost(n uint64) { b.all = append(b.all, Batch{Lost: n}) }

// send hands over what was gathered; false where the monitor closes meanwhile.
func (b *batches) send(to chan<- Batch, closing <-chan struct{}) bool {
	defer func() { b.all = nil }()
	for _, one := range b.all {
		select {
		case to <- one:
		case <-closing:
			return false
		}
	}
	return true
}
