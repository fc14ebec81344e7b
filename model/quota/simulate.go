package quota

import (
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// outcome is what one simulation came to.
type outcome struct {
	latency *hdrhistogram.Histogram // microseconds; nil where each is in took
	sum     float64                 // of the latencies, nanoseconds
	stalled int64
	// took is how long each request took and natural how long the one took that
	// was drawn for it, in nanoseconds, of an open loop, in the order of their moments.
	took, natural []int64

	elapsed, used      int64 // nanoseconds
	held               int64 // CPUs throttled while tasks waited on them, nanoseconds
	periods, throttled int64
}

// connection carries one request at a time.
type connection struct {
	number   int64 // of its request
	intended int64
	left     int64 // work to do
	back     int64 // from the end of the work to the answer
	serving  int32 // the thread that serves it
}

// thread serves one request at a time. It stays on the CPU where it last ran,
// unless that is busy and another is not.
type thread struct{ cpu int32 }

// processor is one CPU of the group's.
type processor struct {
	account
	running int32 // the connection that is served; none
	since   int64 // up to when its time is accounted for
	started int64 // since when it runs the work that is left
	turned  int64 // since when the task has its turn, which outlasts a request that is followed by another
	due     int64 // when its work ends, or the tick finds that its time is up
	waiting queue
	heldFor int64 // since when it is throttled with tasks that wait; never
}

const none = int32(-1)

// queue is connections in the order of their arrival.
type queue struct {
	items []int32
	head  int
}

func (q *queue) len() int     { return len(q.items) - q.head }
func (q *queue) push(c int32) { q.items = append(q.items, c) }

func (q *queue) pop() int32 {
	c := q.items[q.head]
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	} else if q.head >= 1024 && 2*q.head >= len(q.items) {
		q.items, q.head = append(q.items[:0], q.items[q.head:]...), 0
	}
	return c
}

// takeAny takes one at random.
func (q *queue) takeAny(random *rand.Rand) int32 {
	if n := q.len(); n > 1 {
		i := q.head + random.IntN(n)
		q.items[q.head], q.items[i] = q.items[i], q.items[q.head]
	}
	return q.pop()
}

// simulation is one run of a service under a bandwidth.
type simulation struct {
	arrival  Arrival
	stall    int64
	tick     int64
	phase    int64 // of the tick
	pool     pool
	draw     draw
	order    *rand.Rand // of tasks that wait for a CPU
	schedule *moments   // nil for a closed loop
	rest     int64
	waited   int64

	now         int64
	connections []connection
	threads     []thread
	free        []int32 // threads without a request, where there are fewer than connections
	backlog     queue   // requests without a thread
	processors  []processor
	coming      agenda // requests on their way to the service
	ready       agenda // connections about to have their answer; of an open loop with several

	begun, done, wanted, warm int64 // requests: sent, answered, to answer, and how many of the first do not count
	outcome
	from     int64 // when those that count began
	usedFrom int64
}

// parameters of a simulation.
type parameters struct {
	service   Service
	base      *distribution
	arrival   Arrival
	bandwidth Bandwidth
	kernel    Kernel
	demand    time.Duration
	waiting   int64 // of the latency without a quota, what is waiting for threads and CPUs and so is simulated
	requests  int
	stall     time.Duration
	seed      uint64
	// rest is what of a request's latency is neither its work nor waiting, in an
	// open loop. In a closed one it is drawn, see send.
	rest int64
}

func simulate(p parameters) outcome {
	// A source for each use, so that what is drawn for the requests is the same
	// with a quota and without. The second word only keeps them apart.
	source := func(use uint64) *rand.Rand { return rand.New(rand.NewPCG(p.seed, use)) }
	phases, requests, gaps := source(1), source(2), source(3)
	threads := p.service.Threads
	if threads == 0 || threads > p.arrival.Connections {
		threads = p.arrival.Connections
	}
	s := &simulation{
		arrival:     p.arrival,
		stall:       int64(p.stall),
		tick:        int64(p.kernel.Tick),
		phase:       phases.Int64N(int64(p.kernel.Tick)),
		order:       source(4),
		draw:        draw{random: requests, base: p.base, demand: int64(p.demand), shape: p.service.Demand.Shape},
		rest:        p.rest,
		waited:      p.waiting,
		connections: make([]connection, p.arrival.Connections),
		threads:     make([]thread, threads),
		processors:  make([]processor, min(p.service.CPUs, threads)),
		wanted:      int64(p.requests),
	}
	phase := int64(0)
	if p.bandwidth.Quota > 0 {
		phase = phases.Int64N(int64(p.bandwidth.Period))
	}
	s.pool = newPool(p.bandwidth, p.kernel, phase)
	for i := range s.processors {
		s.processors[i] = processor{account: account{remaining: 1, cpu: i}, running: none, due: never, heldFor: never}
	}
	for i := range s.threads {
		s.threads[i].cpu = int32(i % len(s.processors))
	}
	if threads < len(s.connections) {
		for i := threads - 1; i >= 0; i-- {
			s.free = append(s.free, int32(i))
		}
	}
	s.warm = warmUp(s.wanted)
	if p.arrival.Rate == 0 {
		s.latency = newHistogram()
	} else {
		s.took, s.natural = make([]int64, p.requests), make([]int64, p.requests)
		s.schedule = &moments{random: gaps, gap: float64(time.Second) / p.arrival.Rate, poisson: p.arrival.Poisson}
	}
	s.run()
	return s.outcome
}

// warmUp is how many requests do not count: a measurement has a warm-up before it.
func warmUp(requests int64) int64 { return min(1000, requests/10) }

func (s *simulation) run() {
	for c := range s.connections {
		s.send(int32(c), 0)
	}
	released := func(a *account) { s.release(&s.processors[a.cpu]) }
	for s.done < s.wanted {
		at, what, which := s.coming.first(), arrives, 0
		if t := s.ready.first(); t < at {
			at, what = t, answers
		}
		for i := range s.processors {
			if t := s.processors[i].due; t < at {
				at, what, which = t, runs, i
			}
		}
		// Timers first where moments coincide: interrupts come before tasks.
		if t := s.pool.next(); t <= at {
			at, what = t, fills
		}
		s.now = at
		switch what {
		case arrives:
			s.arrive(s.coming.pop())
		case answers:
			c := s.ready.pop()
			s.answered(c, at)
			s.send(c, at)
		case runs:
			s.advance(&s.processors[which])
		case fills:
			s.pool.fire(at, released)
		}
	}
	s.periods, s.throttled = s.pool.periods, s.pool.short
	s.elapsed = s.now - s.from
	for i := range s.processors {
		p := &s.processors[i]
		s.settle(p)
		s.unhold(p)
	}
	s.used -= s.usedFrom
}

// What happens next.
const (
	arrives = iota // a request reaches the service
	answers        // an answer reaches its connection
	runs           // work ends, or the tick comes
	fills          // a timer of the pool fires
)

// send has a connection that is free send its next request.
func (s *simulation) send(c int32, now int64) {
	if s.schedule != nil && s.begun == s.wanted {
		return
	}
	work, latency := s.draw.request()
	n := connection{number: s.begun, intended: now + int64(s.arrival.Think), left: work}
	s.begun++
	rest := s.rest
	if s.schedule == nil {
		rest = max(latency-work-s.waited, 0)
	} else {
		n.intended = s.schedule.next()
		s.natural[n.number] = latency
	}
	// What the network and the client take lies before the work and after it; how
	// it is divided does not show in a closed loop.
	n.back = rest - rest/2
	s.connections[c] = n
	s.coming.push(max(n.intended, now)+rest/2, c)
}

// arrive is a request at the service: a thread takes it, if one is free.
func (s *simulation) arrive(c int32) {
	t := c
	if len(s.threads) < len(s.connections) {
		if len(s.free) == 0 {
			s.backlog.push(c)
			return
		}
		t = s.free[len(s.free)-1]
		s.free = s.free[:len(s.free)-1]
	}
	s.connections[c].serving = t
	s.wake(t, c)
}

// wake puts a thread with its request onto a CPU.
func (s *simulation) wake(t, c int32) {
	// A CPU that is throttled and runs nothing looks idle to the scheduler.
	at := s.threads[t].cpu
	if s.processors[at].running != none || s.processors[at].waiting.len() > 0 {
		for i := range s.processors {
			if p := &s.processors[i]; p.running == none && p.waiting.len() == 0 {
				at = int32(i)
				break
			}
		}
	}
	s.threads[t].cpu = at
	p := &s.processors[at]
	p.waiting.push(c)
	switch {
	case p.throttled:
		s.hold(p)
	case p.running != none:
		// Queueing accounts for the one that runs (enqueue_entity).
		if !s.settle(p) {
			s.throttle(p)
			return
		}
		s.plan(p)
	default:
		s.start(p)
	}
}

// start has a CPU that runs nothing go on with what waits for it, if it may
// (check_enqueue_throttle).
func (s *simulation) start(p *processor) {
	if !s.pool.charge(&p.account, 0, s.now) {
		s.throttle(p)
		return
	}
	s.give(p, p.waiting.takeAny(s.order))
}

// give has a CPU run a connection's task.
func (s *simulation) give(p *processor, c int32) {
	p.running = c
	s.threads[s.connections[c].serving].cpu = int32(p.cpu)
	p.since, p.started, p.turned = s.now, s.now, s.now
	s.plan(p)
}

// turn has the task that a CPU runs wait again, and another that waits there run.
func (s *simulation) turn(p *processor) {
	next := p.waiting.takeAny(s.order)
	s.interrupt(p)
	s.give(p, next)
}

// interrupt puts the task that a CPU runs among those that wait.
func (s *simulation) interrupt(p *processor) {
	s.connections[p.running].left -= s.now - p.started
	p.waiting.push(p.running)
	p.running, p.due = none, never
}

// plan finds the next moment at which something happens on a CPU that runs: the
// end of the work, or the first tick that finds its time used up, or its turn where
// others wait. Ticks before that only account, which changes nothing.
func (s *simulation) plan(p *processor) {
	p.due = p.started + s.connections[p.running].left
	up := never
	if s.pool.quota > 0 {
		up = p.since + p.remaining
	}
	if p.waiting.len() > 0 {
		up = min(up, p.turned+turnLength)
	}
	if up >= p.due {
		return
	}
	up = max(up, s.now+1)
	over := (up - s.phase) % s.tick
	if over < 0 {
		over += s.tick
	}
	if over > 0 {
		up += s.tick - over
	}
	p.due = min(p.due, up)
}

// settle accounts for the time that a CPU has run, and reports whether it may run on.
func (s *simulation) settle(p *processor) bool {
	if p.running == none {
		return true
	}
	used := s.now - p.since
	p.since = s.now
	s.used += used
	return s.pool.charge(&p.account, used, s.now)
}

// throttle holds a CPU back.
func (s *simulation) throttle(p *processor) {
	if p.running != none {
		s.interrupt(p)
	}
	s.pool.throttle(&p.account)
	s.hold(p)
}

func (s *simulation) hold(p *processor) {
	if p.heldFor == never && p.waiting.len() > 0 {
		p.heldFor = s.now
	}
}

func (s *simulation) unhold(p *processor) {
	if p.heldFor != never {
		s.held += s.now - max(p.heldFor, s.from)
		p.heldFor = never
	}
}

// release lets a CPU run again.
func (s *simulation) release(p *processor) {
	s.unhold(p)
	if p.waiting.len() > 0 {
		s.start(p)
	}
}

// advance is a running CPU at its next moment.
func (s *simulation) advance(p *processor) {
	c := p.running
	if s.now < p.started+s.connections[c].left { // the tick
		switch {
		case !s.settle(p):
			s.throttle(p)
		case p.waiting.len() > 0 && s.now >= p.turned+turnLength:
			s.turn(p)
		default:
			s.plan(p)
		}
		return
	}
	t := s.connections[c].serving
	s.finish(c)
	if len(s.threads) < len(s.connections) {
		if s.backlog.len() > 0 {
			// The thread finds the next request without going to sleep.
			next := s.backlog.pop()
			s.connections[next].serving = t
			p.running, p.started = next, s.now
			s.plan(p)
			return
		}
		s.free = append(s.free, t)
	}
	may := s.settle(p)
	p.running, p.due = none, never
	switch {
	case !may:
		s.throttle(p)
	case p.waiting.len() > 0:
		s.start(p)
	case s.pull(p):
	default:
		s.pool.giveBack(&p.account, s.now)
	}
}

// pull has a CPU with nothing to do take a task that waits for another
// (newidle balancing, which leaves throttled CPUs alone).
func (s *simulation) pull(p *processor) bool {
	var from *processor
	for i := range s.processors {
		q := &s.processors[i]
		if q != p && !q.throttled && q.waiting.len() > 0 && (from == nil || q.waiting.len() > from.waiting.len()) {
			from = q
		}
	}
	if from == nil {
		return false
	}
	p.waiting.push(from.waiting.pop())
	s.start(p)
	return true
}

// finish is the end of a request's work: its answer is on its way.
func (s *simulation) finish(c int32) {
	at := s.now + s.connections[c].back
	if s.schedule != nil && len(s.connections) > 1 {
		s.ready.push(at, c) // who is free first takes the next moment
		return
	}
	s.answered(c, at)
	s.send(c, at)
}

// answered records a request.
func (s *simulation) answered(c int32, at int64) {
	s.done++
	if s.done == s.warm {
		s.from, s.usedFrom = s.now, s.used
		s.held, s.pool.periods, s.pool.short = 0, 0, 0
	}
	took := at - s.connections[c].intended
	if s.took != nil {
		s.took[s.connections[c].number] = took
	} else if s.done > s.warm {
		s.record(took, s.stall)
	}
}

// record counts a latency in.
func (o *outcome) record(took, stall int64) {
	o.sum += float64(took)
	if took > stall {
		o.stalled++
	}
	micros := (took + int64(time.Microsecond)/2) / int64(time.Microsecond)
	// Cannot fail: the value is within the range.
	_ = o.latency.RecordValue(min(max(micros, 0), highestMicros))
}
