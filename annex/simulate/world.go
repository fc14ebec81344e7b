package simulate

import (
	"container/heap"
	"errors"
	"io"
	"time"

	"tare/annex"
	"tare/annex/monitor"
	"tare/annex/trace"
)

// world is a host on which a trace runs.
type world struct {
	host   Host
	policy Policy
	from   trace.Source
	memory *memory
	device device

	now   annex.Moment
	queue events
	order int
	open  bool // the trace goes on
	begun bool
	base  annex.Moment // of the trace's first event, from which time is counted
	busy  int          // containers with something to do
	err   error
	// noSwap tells that something did not leave since swap was full.
	noSwap bool

	containers []*container
	byID       map[annex.ID]*container
	reclaiming bool // ahead of need
	manager    *managed
	waits      map[int32][]func() // for pages that are coming
	moving     int                // pages that are coming or leaving
	tally                         // of what is counted
	bar        *bar               // nil: whatever comes of it
	last       annex.Moment
}

// tally is what is counted from the end of the warm-up on.
type tally struct {
	touches, demand, minor, late, fresh int
	out, in, ahead, wasted, errors      int
	reclaims                            int
	stalled                             time.Duration // critical
}

type event struct {
	at    annex.Moment
	order int
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	old[len(old)-1] = event{}
	*e = old[:len(old)-1]
	return x
}

func newWorld(h Host, from trace.Source, p Policy) *world {
	w := &world{
		host:   h,
		policy: p,
		from:   from,
		memory: newMemory(h),
		open:   true,
		byID:   map[annex.ID]*container{},
		waits:  map[int32][]func(){},
	}
	w.device.world = w
	for _, c := range from.Header().Containers {
		one := &container{world: w, id: c.ID, name: c.Name, class: c.Class, spaces: map[annex.Space]*space{}}
		w.containers = append(w.containers, one)
		w.byID[c.ID] = one
	}
	if p.Manage != nil {
		w.manager = &managed{world: w, Manager: p.Manage(), schedule: monitor.NewSchedule(monitor.Pace{})}
		w.at(0, w.manager.pressure)
	}
	w.pull()
	return w
}

func (w *world) at(t annex.Moment, do func()) {
	w.order++
	heap.Push(&w.queue, event{max(t, w.now), w.order, do})
}

// step does the next thing; false where all is done.
func (w *world) step() bool {
	if !w.open && w.busy == 0 || len(w.queue) == 0 {
		return false
	}
	e := heap.Pop(&w.queue).(event)
	w.now = e.at
	e.do()
	return true
}

// pull takes the next event of the trace when its time comes.
func (w *world) pull() {
	e, err := w.from.Next()
	if err != nil {
		w.open = false
		var cut *trace.Cut
		if !errors.Is(err, io.EOF) && !errors.As(err, &cut) {
			w.err = err
		}
		return
	}
	if !w.begun {
		w.begun, w.base = true, e.At
	}
	e.At = origin + max(e.At-w.base, 0)
	w.at(e.At, func() {
		w.last = max(w.last, e.At)
		if e.Kind != trace.Lost {
			w.containers[e.Container].take(e)
		}
		w.pull()
	})
}

// origin is the moment at which a trace begins: 0 is none to those who are told moments.
const origin = annex.Moment(time.Second)

func (w *world) counted(at annex.Moment) bool { return at >= origin.After(w.host.Warm) }

// headroom reclaims ahead of need where the kernel is to.
func (w *world) headroom() {
	low := int(w.policy.Kernel.Headroom / annex.PageSize)
	if low == 0 || w.reclaiming || w.memory.free() >= low {
		return
	}
	w.reclaiming = true
	w.keep(low + low/4)
}

// keep reclaims until so many pages are free.
func (w *world) keep(high int) {
	if w.memory.free() >= high ||
		w.reclaim(min(reclaimBatch, high-w.memory.free()), true, false, func() { w.keep(high) }) == 0 {
		w.reclaiming = false
	}
}

// read brings a page in that a container waits for, and those beside it in swap.
func (w *world) read(i int32, c *container) {
	m := w.memory
	window := 1 << w.policy.Kernel.Cluster
	place := int(m.pages[i].place)
	first := place / window * window
	pages := []int32{i}
	m.come(i)
	m.pages[i].flags |= coming
	for k := first; k < min(first+window, len(m.places)); k++ {
		j := m.places[k]
		if j == none || j == i || m.pages[j].flags&(resident|coming) != 0 || m.free() <= 0 {
			continue
		}
		m.come(j)
		m.pages[j].flags |= coming | unused
		pages = append(pages, j)
	}
	counts := w.counted(w.now)
	w.moving += len(pages)
	w.device.do(job{
		begin: func() time.Duration {
			return micros(w.host.Medium.Demand + float64(len(pages)-1)*w.host.Medium.Contiguous)
		},
		done: func() {
			if counts {
				w.in += len(pages)
				w.ahead += len(pages) - 1
			}
			// What it waited for is mapped by the fault itself.
			w.came(pages)
			c.resume()
		},
	}, true)
}

// wait has something go on when a page has come.
func (w *world) wait(i int32, then func()) { w.waits[i] = append(w.waits[i], then) }

// came has pages be there, and whoever waits for one go on.
func (w *world) came(pages []int32) {
	w.moving -= len(pages)
	for _, i := range pages {
		w.memory.pages[i].flags &^= coming
	}
	for _, i := range pages {
		waits := w.waits[i]
		delete(w.waits, i)
		for _, then := range waits {
			then()
		}
	}
}
