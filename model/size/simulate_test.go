package size

import (
	"math"
	"math/rand/v2"
	"time"
)

// What the kernel does (kernel/sched/fair.c), in nanoseconds.
const (
	quotaSlice = int64(5 * time.Millisecond) // sched_cfs_bandwidth_slice_us
	kept       = int64(time.Millisecond)     // min_cfs_rq_runtime
)

const (
	none  = int32(-1)
	never = int64(math.MaxInt64)
)

// task is one of the program's.
type task struct {
	left int64 // of its work, until it waits
	debt int64 // of what is spent beside, which comes first
	// last is the CPU where it ran; came, the one that its interrupt came to, none
	// where it has gone on since.
	last, came int32
}

// processor is a CPU that the program may use.
type processor struct {
	running   int32
	since     int64 // up to when its time is accounted for
	sliceEnd  int64
	account   int64 // of the quota
	queue     []int32
	throttled bool
	heldSince int64
	at        int   // among the idle; -1 where it is not
	version   int32 // of what it is about to do
}

// event is a CPU at its next moment, or a task (which) whose wait is over.
type event struct {
	at      int64
	which   int32
	version int32
	wakes   bool
}

// agenda is events by their moments: a binary heap. container/heap would box each of
// a million.
type agenda []event

func (a *agenda) push(e event) {
	*a = append(*a, e)
	h := *a
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if h[up].at <= e.at {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = e
}

// pop takes the first event; there is one.
func (a *agenda) pop() event {
	h := *a
	first := h[0]
	last := len(h) - 1
	moved := h[last]
	h = h[:last]
	*a = h
	i := 0
	for {
		down := 2*i + 1
		if down >= last {
			break
		}
		if down+1 < last && h[down+1].at < h[down].at {
			down++
		}
		if moved.at <= h[down].at {
			break
		}
		h[i] = h[down]
		i = down
	}
	if last > 0 {
		h[i] = moved
	}
	return first
}

type simulation struct {
	machine Machine
	program Program
	factor  float64
	random  *rand.Rand

	quota, period, pool int64 // quota 0 is none
	fill                int64 // when the pool is next filled
	throttled           []int32

	now        int64
	tasks      []task
	processors []processor
	idle       []int32
	waiting    int // tasks in the queues of CPUs that run
	coming     agenda

	spent, work, held                           int64
	switches, migrations, interrupts, elsewhere int
}

func newSimulation(m Machine, p Program, g Grant, seed uint64) *simulation {
	s := &simulation{
		machine: m, program: p, factor: g.Factor, random: rand.New(rand.NewPCG(seed, 0x51ce)),
		period: int64(g.Period), fill: never,
	}
	cpus := m.CPUs
	switch g.Mode {
	case Bare:
		cpus = int(g.CPUs)
		s.machine.CPUs = cpus
	case Pinned:
		cpus = int(g.CPUs)
	case Vanilla:
		s.quota = int64(g.CPUs * float64(g.Period))
		s.pool, s.fill = s.quota, s.period
	}
	s.processors = make([]processor, cpus)
	for i := range s.processors {
		// What an idle CPU keeps of a quota it keeps from the first: else what the first
		// visits leave behind would count as a cost of size.
		s.processors[i] = processor{running: none, at: i, account: kept}
		s.idle = append(s.idle, int32(i))
	}
	s.tasks = make([]task, p.Tasks)
	for i := range s.tasks {
		s.tasks[i] = task{left: s.burst(), last: int32(i % cpus), came: none}
		s.place(int32(i))
	}
	return s
}

func (s *simulation) burst() int64 {
	if s.program.Burst == 0 {
		return never / 2
	}
	return 1 + int64(s.random.ExpFloat64()*float64(s.program.Burst))
}

// until runs the simulation up to a moment.
func (s *simulation) until(end int64) {
	for {
		at := s.fill
		first := len(s.coming) > 0 && s.coming[0].at < at
		if first {
			at = s.coming[0].at
		}
		if at > end {
			break
		}
		s.now = at
		if !first {
			s.refill()
			continue
		}
		e := s.coming.pop()
		switch {
		case e.wakes:
			s.wake(e.which)
		case e.version == s.processors[e.which].version:
			s.advance(e.which)
		}
	}
	s.now = end
	for i := range s.processors {
		p := &s.processors[i]
		if p.running != none && !p.throttled {
			s.settle(p)
		}
		if p.throttled {
			s.held += s.now - p.heldSince
			p.heldSince = s.now
		}
	}
}

func (s *simulation) outcome() Outcome {
	return Outcome{
		Elapsed: time.Duration(s.now), Work: time.Duration(float64(s.work) / s.factor), Spent: time.Duration(s.spent), Held: time.Duration(s.held),
		Switches: s.switches, Migrations: s.migrations, Interrupts: s.interrupts, Elsewhere: s.elsewhere,
	}
}

// wake is a task whose input has come.
func (s *simulation) wake(t int32) {
	s.interrupts++
	k := &s.tasks[t]
	k.left = s.burst()
	k.came = k.last
	if s.machine.Spread {
		k.came = s.random.Int32N(int32(s.machine.CPUs))
	}
	s.place(t)
}

// place puts a task that can run on a CPU.
func (s *simulation) place(t int32) {
	at := s.tasks[t].last
	switch {
	case s.processors[at].at >= 0:
		if other := s.look(); other != none {
			at = other
		}
	case len(s.idle) > 0:
		at = s.idle[s.random.IntN(len(s.idle))]
	}
	p := &s.processors[at]
	if p.at < 0 {
		p.queue = append(p.queue, t)
		if !p.throttled {
			s.waiting++
		}
		return
	}
	s.occupy(at)
	s.start(at, t)
}

// look is the scheduler's look elsewhere: an idle CPU, where it looked and the one
// that it looked at is idle.
func (s *simulation) look() int32 {
	if s.machine.Restless == 0 || s.random.Float64() >= s.machine.Restless {
		return none
	}
	at := s.random.Int32N(int32(len(s.processors)))
	if s.processors[at].at < 0 {
		return none
	}
	return at
}

// occupy takes a CPU from among the idle.
func (s *simulation) occupy(c int32) {
	at := s.processors[c].at
	last := s.idle[len(s.idle)-1]
	s.idle[at] = last
	s.processors[last].at = at
	s.idle = s.idle[:len(s.idle)-1]
	s.processors[c].at = -1
}

// rest puts a CPU among the idle; what it has of the quota, but for a little, goes back.
func (s *simulation) rest(c int32) {
	p := &s.processors[c]
	p.running, p.version = none, p.version+1
	p.at = len(s.idle)
	s.idle = append(s.idle, c)
	if s.quota == 0 || p.account <= kept {
		return
	}
	s.pool += p.account - kept
	p.account = kept
	for s.pool > 0 && len(s.throttled) > 0 {
		s.release()
	}
}

// start has a CPU run a task.
func (s *simulation) start(c, t int32) {
	p, k := &s.processors[c], &s.tasks[t]
	s.switches++
	costs := s.machine.Costs
	if k.last != c {
		s.migrations++
		k.debt += int64(costs.Migration)
	}
	if k.came != none && k.came != c {
		s.elsewhere++
		k.debt += int64(costs.Interrupt)
	}
	k.last, k.came = c, none
	if s.quota > 0 {
		k.debt += int64(costs.Switch)
	}
	p.running, p.since, p.sliceEnd = t, s.now, s.now+int64(s.machine.Slice)
	s.goOn(c)
}

// goOn plans what a CPU does next, or throttles it.
func (s *simulation) goOn(c int32) {
	p := &s.processors[c]
	if s.quota > 0 && p.account <= 0 && !s.take(p) {
		p.throttled, p.heldSince, p.version = true, s.now, p.version+1
		s.throttled = append(s.throttled, c)
		s.waiting -= len(p.queue)
		return
	}
	k := &s.tasks[p.running]
	due := min(s.now+k.debt+s.stretched(k.left), p.sliceEnd)
	if s.quota > 0 {
		due = min(due, s.now+p.account)
	}
	p.version++
	s.coming.push(event{at: due, which: c, version: p.version})
}

// stretched is how long work takes on the platform. A task that never waits has more
// left than can be multiplied.
func (s *simulation) stretched(work int64) int64 {
	if work >= never/4 {
		return never / 4
	}
	return int64(math.Ceil(float64(work) * s.factor))
}

// take has a CPU take a slice of the pool, if there is any.
func (s *simulation) take(p *processor) bool {
	amount := min(s.pool, quotaSlice)
	if amount <= 0 {
		return false
	}
	s.pool -= amount
	p.account += amount
	busy := len(s.processors) - len(s.idle) - len(s.throttled)
	s.tasks[p.running].debt += int64(s.machine.Costs.Share) * int64(max(busy, 1))
	return true
}

// settle accounts for what a CPU has run: first what is spent beside, then work.
func (s *simulation) settle(p *processor) {
	used := s.now - p.since
	p.since = s.now
	k := &s.tasks[p.running]
	s.spent += used
	if s.quota > 0 {
		p.account -= used
	}
	beside := min(used, k.debt)
	k.debt -= beside
	used -= beside
	if used == 0 {
		return
	}
	s.work += used
	if k.left < never/4 {
		k.left = max(0, k.left-int64(math.Round(float64(used)/s.factor)))
		if k.left <= 1 {
			k.left = 0 // rounding
		}
	}
}

// advance is a CPU at its next moment.
func (s *simulation) advance(c int32) {
	p := &s.processors[c]
	t := p.running
	s.settle(p)
	k := &s.tasks[t]
	if k.left == 0 && k.debt == 0 {
		s.wait(t)
		s.next(c)
		return
	}
	if s.now >= p.sliceEnd {
		p.sliceEnd = s.now + int64(s.machine.Slice)
		if len(p.queue) > 0 {
			s.requeue(c)
			return
		}
		if other := s.look(); other != none {
			s.occupy(other)
			s.start(other, t)
			s.next(c)
			return
		}
	}
	s.goOn(c)
}

// requeue has a CPU's next task run, and the one that ran wait its turn.
func (s *simulation) requeue(c int32) {
	p := &s.processors[c]
	t := p.running
	next := p.queue[0]
	copy(p.queue, p.queue[1:])
	p.queue[len(p.queue)-1] = t
	s.start(c, next)
}

// wait has a task wait for its input.
func (s *simulation) wait(t int32) {
	s.coming.push(event{at: s.now + 1 + int64(s.random.ExpFloat64()*float64(s.program.Wait)), which: t, wakes: true})
}

// next has a CPU whose task is gone run another: of its own queue, or of another's.
func (s *simulation) next(c int32) {
	p := &s.processors[c]
	if len(p.queue) > 0 {
		s.waiting--
		s.start(c, shift(&p.queue))
		return
	}
	if s.waiting > 0 {
		longest := none
		for i := range s.processors {
			q := &s.processors[i]
			if !q.throttled && len(q.queue) > 0 && (longest == none || len(q.queue) > len(s.processors[longest].queue)) {
				longest = int32(i)
			}
		}
		s.waiting--
		s.start(c, shift(&s.processors[longest].queue))
		return
	}
	s.rest(c)
}

func shift(queue *[]int32) int32 {
	first := (*queue)[0]
	copy(*queue, (*queue)[1:])
	*queue = (*queue)[:len(*queue)-1]
	return first
}

// refill is a period's end.
func (s *simulation) refill() {
	s.fill += s.period
	s.pool = s.quota
	for range len(s.throttled) {
		if s.pool <= 0 {
			break
		}
		s.tasks[s.processors[s.throttled[0]].running].debt += int64(s.machine.Costs.Release)
		s.release()
	}
}

// release lets the CPU run that was held back first.
func (s *simulation) release() {
	c := shift(&s.throttled)
	p := &s.processors[c]
	p.throttled = false
	s.held += s.now - p.heldSince
	s.waiting += len(p.queue)
	p.since = s.now
	p.sliceEnd = s.now + int64(s.machine.Slice)
	s.goOn(c)
}
