package synthetic

import (
	"cmp"
	"container/heap"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"tare/annex"
	"tare/annex/trace"
)

const (
	jitter      = 0.05 // of periods, and the part of a working set that drifts
	collection  = 8    // each so manieth burst of a Collected one touches all
	paretoShape = 1.5
	zipfShape   = 1.1
	probeEvery  = time.Second
	probePages  = 4
	probeTime   = time.Millisecond
	starting    = time.Second // containers start within this
	pause       = 200 * time.Microsecond
	chunk       = 1 << 12 // pages that an event tells at most
	run         = 8       // pages that lie together in a working set, and are all written or none
	// base is the first page: above where programs lie.
	base annex.Page = 1 << 20
)

// Make gives the trace of a mix. The error is that of Check.
func Make(m Mix) (trace.Source, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	s := &source{header: trace.Header{Host: "synthetic", Clock: "virtual", PageSize: annex.PageSize}}
	for _, g := range m.Groups {
		g = g.withDefaults()
		for i := range g.Count {
			n := len(s.header.Containers)
			id := fmt.Sprintf("%s-%d", g.Name, i)
			s.header.Containers = append(
				s.header.Containers,
				trace.Container{ID: annex.ID(id), Name: id, Class: g.Class, Pages: int64(g.Pages)},
			)
			one := newOne(g, n, m)
			one.start()
			heap.Push(&s.queue, one)
		}
	}
	return s, s.header.Check()
}

// source merges what containers do.
type source struct {
	header trace.Header
	queue  queue
}

func (s *source) Header() trace.Header { return s.header }

func (s *source) Next() (trace.Event, error) {
	if len(s.queue) == 0 {
		return trace.Event{}, io.EOF
	}
	one := s.queue[0]
	e := one.events[0]
	if one.events = one.events[1:]; len(one.events) == 0 {
		one.next()
	}
	if len(one.events) == 0 {
		heap.Pop(&s.queue)
	} else {
		heap.Fix(&s.queue, 0)
	}
	return e, nil
}

type queue []*one

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].events[0].At, q[j].events[0].At), cmp.Compare(q[i].container, q[j].container)) < 0
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(*one)) }
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

// one is a container.
type one struct {
	Group
	container int
	space     annex.Space
	random    *rand.Rand
	zipf      *rand.Zipf
	end       annex.Moment

	events  []trace.Event // that come next, never none but at the end
	working []annex.Page
	order   []int32 // of a container's pages by popularity
	bursts  int
	scanned int
	at      annex.Moment // when it is free
	burstAt annex.Moment
	probeAt annex.Moment
}

func newOne(g Group, container int, m Mix) *one {
	o := &one{
		Group:     g,
		container: container,
		space:     annex.Space{PID: int32(container + 1), Started: 1},
		end:       annex.Moment(m.Duration),
	}
	o.random = rand.New(rand.NewPCG(m.Seed, uint64(container)))
	if g.Kind == Serving {
		o.zipf = rand.NewZipf(o.random, zipfShape, float64(g.Pages)/64+1, uint64(g.Pages-1))
		o.order = make([]int32, g.Pages)
		for i, p := range o.random.Perm(g.Pages) {
			o.order[i] = int32(p)
		}
		return o
	}
	n := max(1, int(float64(g.Pages)*g.Working))
	// A working set is runs of pages, in an order of its own.
	for _, r := range o.random.Perm((g.Pages + run - 1) / run) {
		for i := range run {
			if p := r*run + i; p < g.Pages && len(o.working) < n {
				o.working = append(o.working, base+annex.Page(p))
			}
		}
	}
	return o
}

// start has it touch all its pages once.
func (o *one) start() {
	began := annex.Moment(o.random.Int64N(int64(starting)))
	o.add(trace.Event{Kind: trace.Started, At: began})
	o.at = began
	o.add(trace.Event{Kind: trace.Woke, At: o.at})
	o.touch(o.all(), 1, func(annex.Page) bool { return true }) // all has to be filled once
	o.add(trace.Event{Kind: trace.Slept, At: o.at, CPU: o.at.Since(began)})
	if o.Kind == Forked {
		o.add(trace.Event{Kind: trace.Scanned, At: o.at, Space: o.space, Stretches: []trace.Stretch{
			{
				First: base,
				Runs: []trace.States{
					{State: annex.Present | annex.Shared, Pages: uint64(o.Pages / 2)},
					{State: annex.Present, Pages: uint64(o.Pages - o.Pages/2)},
				},
			},
		}})
	}
	o.burstAt = o.at.After(time.Duration(o.random.Int64N(int64(o.Every)) + 1))
	o.probeAt = o.at.After(time.Duration(o.random.Int64N(int64(probeEvery)) + 1))
}

func (o *one) add(e trace.Event) {
	e.Container = o.container
	o.events = append(o.events, e)
}

func (o *one) all() []annex.Page {
	pages := make([]annex.Page, o.Pages)
	for i := range pages {
		pages[i] = base + annex.Page(i)
	}
	return pages
}

// touch has pages touched, in so many requests with a pause after each; written tells which
// of them are written.
func (o *one) touch(pages []annex.Page, requests int, written func(annex.Page) bool) {
	for i := range requests {
		part := pages[i*len(pages)/requests : (i+1)*len(pages)/requests]
		for len(part) > 0 {
			write := written(part[0])
			n := 1
			for n < min(len(part), chunk) && written(part[n]) == write {
				n++
			}
			took := time.Duration(o.PageTime) * time.Duration(n)
			o.add(trace.Event{Kind: trace.Touched, At: o.at, Space: o.space, Took: took, Write: write, Pages: part[:n]})
			o.at = o.at.After(took)
			part = part[n:]
		}
		if requests > 1 {
			o.at = o.at.After(pause)
		}
	}
}

// written tells whether bursts write a page: of as many runs as the share says, spread evenly
// over all.
func (o *one) written(p annex.Page) bool {
	n, share := float64((p-base)/run), *o.Written
	return math.Floor((n+1)*share) > math.Floor(n*share)
}

// next makes the events of its next activation or request; none at the end.
func (o *one) next() {
	o.events = nil
	if o.Kind == Probed && o.probeAt < o.burstAt {
		at := max(o.probeAt, o.at)
		o.probeAt = o.probeAt.After(probeEvery)
		if at <= o.end {
			o.probe(at)
		}
		return
	}
	at := max(o.burstAt, o.at)
	if at > o.end {
		return
	}
	o.burstAt = o.burstAt.After(max(o.interval(), 1))
	if o.Kind == Serving {
		o.request(at)
		return
	}
	o.at = at
	o.add(trace.Event{Kind: trace.Woke, At: at})
	pages := o.burst()
	o.touch(pages, o.Requests, o.written)
	o.add(trace.Event{Kind: trace.Slept, At: o.at, CPU: time.Duration(o.PageTime) * time.Duration(len(pages))})
	o.bursts++
}

func (o *one) interval() time.Duration {
	every := float64(o.Every)
	switch o.Kind {
	case Poisson, Serving:
		return time.Duration(every * o.random.ExpFloat64())
	case Heavy:
		// Of mean Every; what is beyond a thousand means is cut, which the end of a trace would do.
		least := every * (paretoShape - 1) / paretoShape
		return time.Duration(min(least/math.Pow(1-o.random.Float64(), 1/paretoShape), 1000*every))
	}
	return time.Duration(every * (1 + jitter*(2*o.random.Float64()-1)))
}

// burst are the pages of one, in order.
func (o *one) burst() []annex.Page {
	switch o.Kind {
	case Collected:
		if o.bursts%collection == collection-1 {
			return o.all()
		}
	case Drifting:
		pages := append([]annex.Page(nil), o.working...)
		for range int(math.Ceil(jitter * float64(len(pages)))) {
			pages[o.random.IntN(len(pages))] = base + annex.Page(o.random.IntN(o.Pages))
		}
		o.working = pages
	case Scanning:
		pages := make([]annex.Page, len(o.working))
		for i := range pages {
			pages[i] = base + annex.Page(o.scanned)
			o.scanned = (o.scanned + 1) % o.Pages
		}
		return pages
	}
	return o.working
}

func (o *one) probe(at annex.Moment) {
	o.add(trace.Event{Kind: trace.Woke, At: at})
	o.add(
		trace.Event{
			Kind:  trace.Touched,
			At:    at,
			Space: o.space,
			Took:  probeTime,
			Pages: o.working[:min(probePages, len(o.working))],
		},
	)
	o.at = at.After(probeTime)
	o.add(trace.Event{Kind: trace.Slept, At: o.at, CPU: probeTime})
}

func (o *one) request(at annex.Moment) {
	pages := make([]annex.Page, o.Touches)
	for i := range pages {
		pages[i] = base + annex.Page(o.order[o.zipf.Uint64()])
	}
	o.add(
		trace.Event{
			Kind:  trace.Requested,
			At:    at,
			Space: o.space,
			CPU:   time.Duration(o.PageTime) * time.Duration(len(pages)),
			Pages: pages,
		},
	)
}
