package data

import (
	"container/heap"
	"container/list"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tare/annex"
)

// world is a host in small: containers whose bursts touch pages, memory that holds fewer than
// all of these, a kernel that evicts the least recently used when it is full, and a device that
// does one thing after another. With a manager it does what that asks for; without one it is
// stock.
type world struct {
	t      *testing.T
	m      *Manager
	random *rand.Rand
	now    annex.Moment
	queue  events
	order  int

	limit, used int
	swap        int // pages that swap may hold
	inSwap      int
	lru         *list.List
	boxes       []*box
	device      annex.Moment // until when it is busy

	busy     map[annex.Run]uint64 // single pages in requests under way
	log      []string
	reclaims int
	vain     int // pages of evictions that do not leave since they are shared
	requests map[annex.Reason]int
	planned  annex.Moment
}

// box is a container.
type box struct {
	id     annex.ID
	space  annex.Space
	pages  []page
	awake  bool
	burst  func(n int) []int // the pages that its n-th burst touches
	wakes  func() time.Duration
	bursts int
	shared int // its first pages are shared
	light  int // wakes of so many pages at most take next to no CPU time; 0 is 4
	// little is the CPU time of a burst that finds nearly all its pages in memory; 0 is as much as of
	// any other.
	little time.Duration

	touches, demand, minor int
	missed                 int             // of demand, those of earlier bursts
	waits                  []time.Duration // of bursts
	faults                 []annex.Fault
}

type page struct {
	state   annex.State
	cached  bool
	touched bool
	lru     *list.Element
}

type place struct {
	box  *box
	page int
}

// What things take, as measured on a file (the package's host: a demand fault 60 us, bulk
// 3 us a page in and 5 us out, the short fault of what was fetched 1 us).
const (
	touchTime  = 2 * time.Microsecond
	demandTime = 60 * time.Microsecond
	minorTime  = time.Microsecond
	fetchTime  = 3 * time.Microsecond
	evictTime  = 5 * time.Microsecond
	batch      = 32
)

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
	*e = old[:len(old)-1]
	return x
}

func newWorld(t *testing.T, limit int, managed bool, seed uint64) *world {
	w := &world{t: t, limit: limit, swap: 1 << 30, lru: list.New(), random: rand.New(rand.NewPCG(seed, 1)), busy: map[annex.Run]uint64{}, requests: map[annex.Reason]int{}}
	if managed {
		low := int64(limit) / 16 * annex.PageSize
		w.m = New(Policy{Headroom: Headroom{Low: low}, Flow: Flow{MostLeaving: limit / 16, MostComing: limit / 8, Piece: 64}, Probes: Probes{ProbePages: 32}})
	}
	w.at(0, w.scanAll)
	return w
}

func (w *world) at(t annex.Moment, do func()) {
	w.order++
	heap.Push(&w.queue, event{t, w.order, do})
}

// add adds a container of which half is in memory from the beginning, as far as there is room.
func (w *world) add(pages int, class annex.Class, wakes func() time.Duration, burst func(n int) []int) *box {
	b := &box{id: annex.ID(fmt.Sprintf("box%02d", len(w.boxes))), pages: make([]page, pages), burst: burst, wakes: wakes}
	b.space = annex.Space{PID: int32(len(w.boxes) + 1), Started: 7}
	for i := range b.pages {
		b.pages[i].state = annex.Swapped
		w.inSwap++
		if w.used < w.limit*3/4 {
			w.come(b, i)
			b.pages[i].state = annex.Present | annex.Accessed
		}
	}
	w.boxes = append(w.boxes, b)
	if w.m != nil {
		w.m.Add(ContextInfo{ID: b.id, Class: class})
	}
	if wakes != nil {
		w.at(w.now.After(wakes()), func() { w.wake(b) })
	}
	return b
}

// come has a page take memory, for which the least recently used leaves where there is none free.
func (w *world) come(b *box, i int) {
	if w.used >= w.limit {
		w.reclaims++
		w.leave(w.lru.Front().Value.(place))
	}
	w.used++
	p := &b.pages[i]
	p.lru = w.lru.PushBack(place{b, i})
	w.inSwap--
}

func (w *world) leave(at place) {
	p := &at.box.pages[at.page]
	w.lru.Remove(p.lru)
	*p = page{state: annex.Swapped}
	w.used--
	w.inSwap++
}

// touch is what the program does, and how long it takes.
func (w *world) touch(b *box, i int) time.Duration {
	p := &b.pages[i]
	b.touches++
	took := touchTime
	if p.state != annex.Present|annex.Accessed {
		if p.state.Has(annex.Swapped) {
			b.faults = append(b.faults, annex.Fault{ID: b.id, Space: b.space, Page: annex.Page(i), At: w.now, Swapped: true})
			if p.cached {
				b.minor++
				took += minorTime
			} else {
				b.demand++
				took += demandTime
				w.come(b, i)
			}
		}
		p.cached, p.state = false, annex.Present|annex.Accessed
	}
	p.touched = true
	w.lru.MoveToBack(p.lru)
	return took
}

func (w *world) wake(b *box) {
	b.awake = true
	began := w.now
	pages := b.burst(b.bursts)
	b.bursts++
	w.tell(func() { w.m.Activity(annex.Activity{ID: b.id, What: annex.Woke, At: began}) })
	cpu := 30 * time.Millisecond
	if len(pages) <= max(b.light, 4) {
		cpu = time.Millisecond // a health probe, or a timer's
		b.light = max(b.light, 4)
	}
	w.run(b, pages, began, cpu)
}

// run touches pages in batches, after each of which the manager may act.
func (w *world) run(b *box, pages []int, began annex.Moment, cpu time.Duration) {
	took := time.Duration(0)
	n := min(batch, len(pages))
	before := b.demand
	for k, i := range pages[:n] {
		if took += w.touch(b, i); b.demand > before+1 {
			n = k + 1 // there is time to act while the device is waited for
		}
		if k+1 >= n {
			break
		}
	}
	faults := b.faults
	b.faults = nil
	w.tell(func() {
		if len(faults) > 0 {
			w.m.Faults(faults)
		}
	})
	w.at(w.now.After(took), func() {
		if n < len(pages) {
			w.run(b, pages[n:], began, cpu)
			return
		}
		ended := w.now
		if b.little > 0 && b.demand-b.missed < 16 {
			cpu = b.little
		}
		b.missed = b.demand
		b.waits = append(b.waits, ended.Since(began))
		w.at(ended.After(100*time.Millisecond), func() {
			b.awake = false
			w.tell(func() { w.m.Activity(annex.Activity{ID: b.id, What: annex.Slept, At: ended, CPU: cpu}) })
			w.at(w.now.After(max(b.wakes()-100*time.Millisecond, time.Millisecond)), func() { w.wake(b) })
		})
	})
}

// tell has the manager told, and does what it then asks for.
func (w *world) tell(what func()) {
	if w.m == nil {
		return
	}
	what()
	w.plan()
}

func (w *world) plan() {
	w.m.Memory(annex.Memory{At: w.now, Limit: int64(w.limit) * annex.PageSize, Free: int64(w.limit-w.used) * annex.PageSize, SwapSize: int64(w.swap) * annex.PageSize, SwapFree: int64(w.swap-w.inSwap) * annex.PageSize})
	requests, next := w.m.Plan(w.now)
	for _, r := range requests {
		w.ask(r)
	}
	if next != 0 {
		if next <= w.now {
			w.t.Fatalf("at %v it is to be planned again at %v", w.now, next)
		}
		if w.planned <= w.now || next < w.planned {
			w.planned = next
			w.at(next, func() { w.tell(func() {}) })
		}
	}
}

func (w *world) box(id annex.ID) *box {
	for _, b := range w.boxes {
		if b.id == id {
			return b
		}
	}
	w.t.Fatalf("a request for %s, which is none of the containers", id)
	return nil
}

// ask checks a request, and has the device do it when its turn comes.
func (w *world) ask(r annex.Request) {
	b := w.box(r.ID)
	w.log = append(w.log, fmt.Sprint(w.now, r))
	pages := annex.Count(r.Runs)
	w.requests[r.Why] += pages
	for _, run := range r.Runs {
		if run.Space != b.space || run.First >= annex.Page(len(b.pages)) || run.End() > annex.Page(len(b.pages)) {
			w.t.Fatalf("%v: pages %+v are not of %s", w.now, run, b.id)
		}
		for p := run.First; p < run.End(); p++ {
			key := annex.Run{Space: b.space, First: p}
			if other := w.busy[key]; other != 0 {
				w.t.Fatalf("%v: page %d of %s is in requests %d and %d", w.now, p, b.id, other, r.Number)
			}
			w.busy[key] = r.Number
		}
	}
	each := fetchTime
	if r.Op == annex.Evict {
		each = evictTime
	}
	began := max(w.now, w.device)
	w.device = began.After(each * time.Duration(pages))
	w.at(w.device, func() { w.did(b, r, began) })
}

func (w *world) did(b *box, r annex.Request, began annex.Moment) {
	res := annex.Result{Number: r.Number, ID: r.ID, Op: r.Op, Began: began, Ended: w.now, Asked: annex.Count(r.Runs)}
	for _, run := range r.Runs {
		for i := run.First; i < run.End(); i++ {
			delete(w.busy, annex.Run{Space: b.space, First: i})
			p := &b.pages[i]
			inMemory := p.lru != nil
			switch {
			case r.Op == annex.Evict && (!inMemory || int(i) < b.shared), r.Op != annex.Evict && inMemory:
				res.Skipped++
				if inMemory && r.Op == annex.Evict {
					w.vain++
				}
				continue
			case r.Op == annex.Evict && p.cached: // reclaimed, and not moved
				w.leave(place{b, int(i)})
				res.Skipped++
				res.Cached++
				res.Freed++
				continue
			case r.Op == annex.Evict:
				w.leave(place{b, int(i)})
			case w.used >= w.limit: // the kernel would have to reclaim for it
				res.Skipped++
				continue
			default:
				w.come(b, int(i))
				p.cached = true
				if r.Op == annex.Map {
					p.cached, p.state = false, annex.Present|annex.Accessed
				}
			}
			res.Moved++
			res.Freed++
		}
	}
	w.tell(func() { w.m.Done(res) })
}

// scanAll looks at all page tables every five seconds.
func (w *world) scanAll() {
	for _, b := range w.boxes {
		s := annex.Scan{ID: b.id, Space: b.space, Began: w.now, Ended: w.now, KnowsAccess: true, Stretches: []annex.Stretch{{}}}
		for i := range b.pages {
			st := b.pages[i].state
			if i < b.shared && st.Has(annex.Present) {
				st |= annex.Shared
			}
			s.Stretches[0].States = append(s.Stretches[0].States, st)
		}
		w.tell(func() { w.m.Scan(s) })
	}
	w.at(w.now.After(5*time.Second), w.scanAll)
}

// until lets time pass.
func (w *world) until(end annex.Moment) *world {
	for len(w.queue) > 0 && w.queue[0].at <= end {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
	}
	w.now = end
	return w
}

// forget has counting begin now.
func (w *world) forget() {
	w.reclaims, w.vain = 0, 0
	clear(w.requests)
	for _, b := range w.boxes {
		b.touches, b.demand, b.missed, b.minor, b.waits = 0, 0, 0, 0, nil
	}
	if w.m != nil {
		for _, c := range w.m.contexts {
			c.account.use = Use{}
		}
	}
}

// sum is what all boxes did.
type sum struct {
	touches, demand, minor int
	wait                   time.Duration // mean of a burst
	use                    Use
	reclaims               int
}

func (w *world) sum() sum {
	s := sum{reclaims: w.reclaims}
	n := 0
	for _, b := range w.boxes {
		s.touches, s.demand, s.minor = s.touches+b.touches, s.demand+b.demand, s.minor+b.minor
		for _, d := range b.waits {
			s.wait += d
			n++
		}
	}
	s.wait /= time.Duration(max(n, 1))
	if w.m != nil {
		for _, c := range w.m.contexts {
			u := c.account.use
			s.use = Use{s.use.Hits + u.Hits, s.use.Misses + u.Misses, s.use.Wasted + u.Wasted, s.use.Fetched + u.Fetched, s.use.Mapped + u.Mapped, s.use.Evicted + u.Evicted, s.use.Errors + u.Errors}
		}
	}
	return s
}
