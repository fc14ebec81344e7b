package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/kernel/clock"
	"tare/kernel/poll"
	"tare/kernel/socket"
)

// BurstOptions say how standing connections are loaded for a while.
type BurstOptions struct {
	// Duration is how long requests are sent, by the clock, up to 1000 h. What is under
	// way then drains.
	Duration time.Duration
	// Ramp is how much of that goes by before answers count, and is below Duration.
	Ramp time.Duration
	// Rate is an open loop's, as [Options] have it. 0 is a closed loop: each connection
	// sends as soon as it has its answer.
	Rate float64
	// Arrival and Seed determine an open loop's schedule. Its arrivals are Uniform and Poisson.
	Arrival Arrival
	Seed    uint64
	// Timeout bounds each request from its sending, and for how long after Duration an
	// open loop's overdue requests may be sent; 0 is DefaultTimeout.
	Timeout time.Duration
	// Latencies asks for a histogram.
	Latencies bool
}

// Burst is what a burst yielded.
type Burst struct {
	// Answered are the requests whose right answers came within Window, which is from
	// Ramp to Duration: the drain is not part of it.
	Answered int64
	Window   time.Duration
	// Worked are all that were answered rightly, ramp and drain included.
	Worked int64
	// Errors are the other requests by kind, ramp and drain included; nil where there
	// are none. FirstError is an example of them.
	Errors     map[string]int64
	FirstError error
	// Reopened are the connections that were opened anew, before the first request or
	// later. A service may close what has been idle for long: that is no error of a request.
	Reopened int64
	// CPU is the CPU time of the generator's thread, the kernel's work for it included, from
	// the first request to the last answer. It holds the sending through loopback up to
	// the service's socket. Connecting anew is done by other threads.
	CPU time.Duration
	// Latencies are those of the requests that were due after Ramp and answered rightly,
	// from the moment when they were due, in microseconds. A closed loop's are due when
	// they are sent. It is nil unless asked for, and overwritten by the next burst.
	Latencies *hdrhistogram.Histogram
	// LateMax is the most that an open loop's request was sent later than it was due
	// although a connection stood ready. It is 0 in a closed loop.
	LateMax time.Duration
}

// Failed is the number of requests that were not answered rightly.
func (b Burst) Failed() int64 { return sum(b.Errors) }

func (o BurstOptions) withDefaults() (BurstOptions, error) {
	if o.Duration <= 0 {
		return o, fmt.Errorf("load: a burst of %v: want more than 0", o.Duration)
	}
	full, err := Options{
		Rate:     o.Rate,
		Arrival:  o.Arrival,
		Seed:     o.Seed,
		Timeout:  o.Timeout,
		Duration: o.Duration,
	}.withDefaults()
	if err != nil {
		return o, err
	}
	o.Arrival, o.Timeout = full.Arrival, full.Timeout
	if o.Arrival == AtOnce {
		return o, fmt.Errorf("load: a burst of arrival %s: want %s or %s", AtOnce, Uniform, Poisson)
	}
	if o.Ramp < 0 || o.Ramp >= o.Duration {
		return o, fmt.Errorf("load: a ramp of %v in a burst of %v: want 0 or more, and less than the burst", o.Ramp, o.Duration)
	}
	return o, nil
}

// connection is what is under way in a slot.
type connection struct {
	busy       bool          // with a request, opening a connection for it included
	opening    bool          // a connection for it is made by another goroutine
	connecting bool          // on this one, and nothing has been sent
	rested     bool          // no answer has come in this burst
	intended   time.Duration // when the request was due
	sent       time.Duration // when it was begun
	free       time.Duration // since when it is idle
	unsent     []byte        // of the request
	had        int64         // bytes that had come before it was sent
	pause      time.Duration // before the next try to connect
}

// Burst loads the connections. Those that the service has closed meanwhile are opened
// anew before the clock starts.
//
// A request that fails is counted and the load goes on. The error is for wrong options and
// for a cancelled context, which comes with what was counted until then.
func (s *Standing) Burst(ctx context.Context, options BurstOptions) (Burst, error) {
	o, err := options.withDefaults()
	if err != nil {
		return Burst{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return Burst{}, fmt.Errorf("load: burst: %w", net.ErrClosed)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := &burst{Standing: s, ctx: ctx, options: o}
	if err := b.prepare(); err != nil {
		return Burst{}, fmt.Errorf("load: burst: %w", err)
	}

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if restore, err := clock.Exact(); err == nil { // without it LateMax tells
		defer restore()
	}
	stop := context.AfterFunc(ctx, s.set.Wake)
	before := clock.Thread()
	b.began = time.Now()
	err = b.run()
	b.result.CPU = clock.Thread() - before
	stop()
	cancel()
	b.end()
	if err != nil {
		err = fmt.Errorf("load: stopped after %d requests: %w", b.result.Worked, err)
	}
	return b.result, err
}

// burst is one burst under way, on one thread.
type burst struct {
	*Standing
	ctx     context.Context
	options BurstOptions
	result  Burst
	began   time.Time

	busy     int           // slots
	openings int           // of them
	overdue  time.Duration // no request times out before

	schedule *sequence     // nil for a closed loop
	due      time.Duration // the schedule's next moment
	more     bool          // there is one
}

func (b *burst) now() time.Duration { return time.Since(b.began) }

// prepare has all connections open and idle.
func (b *burst) prepare() error {
	tidy()
	o := b.options
	b.result.Window = o.Duration - o.Ramp
	if o.Latencies {
		if b.latencies == nil {
			b.latencies = NewHistogram()
		}
		b.latencies.Reset()
		b.result.Latencies = b.latencies
	}
	if o.Rate > 0 {
		b.schedule = newSequence(Options{Rate: o.Rate, Arrival: o.Arrival, Seed: o.Seed, Duration: o.Duration})
		b.due, b.more = b.schedule.next()
	}
	// A service may close what is idle for long.
	for {
		events, err := b.set.Wait(0)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			break
		}
		for _, e := range events {
			b.drop(&b.slots[e.Place])
		}
	}
	missing := 0
	for i := range b.slots {
		if b.slots[i].exchange == nil {
			missing++
		}
	}
	ctx, cancel := context.WithTimeout(b.ctx, o.Timeout)
	defer cancel()
	_ = b.openMissing(ctx) // a request will try again, and report it
	if b.ctx.Err() != nil {
		return context.Cause(b.ctx)
	}
	b.idle = queue{places: b.idle.places}
	for i := range b.slots {
		if b.slots[i].exchange == nil {
			missing--
		}
		b.slots[i].connection = connection{rested: true}
		b.idle.push(i)
	}
	b.result.Reopened = int64(missing)
	b.overdue = o.Timeout
	return nil
}

// run sends and receives until nothing is under way any more.
func (b *burst) run() error {
	for {
		b.begin()
		now := b.now()
		if b.more && now > b.options.Duration+b.options.Timeout {
			b.giveUp()
		}
		if b.busy == 0 && !b.pending(now) {
			return nil
		}
		events, err := b.set.Wait(b.until(now) - now)
		if err != nil {
			return err
		}
		if b.ctx.Err() != nil {
			return context.Cause(b.ctx)
		}
		for _, e := range events {
			b.serve(e)
			b.begin() // before the others: it is its turn
		}
		for len(b.opened) > 0 {
			b.connected(<-b.opened)
		}
		if now := b.now(); now >= b.overdue {
			b.expire(now)
		}
	}
}

// pending tells whether requests are to come.
func (b *burst) pending(now time.Duration) bool {
	if b.schedule != nil {
		return b.more
	}
	return now < b.options.Duration
}

// until is when something is to be done though nothing comes.
func (b *burst) until(now time.Duration) time.Duration {
	switch {
	case b.more && b.idle.size > 0:
		return min(b.due, b.overdue)
	case b.idle.size > 0 && b.pending(now): // one failed before it was sent
		return now
	case b.more:
		return min(b.options.Duration+b.options.Timeout+1, b.overdue)
	default:
		return b.overdue
	}
}

// begin begins the requests that are due, as long as slots are idle. One that fails at
// once is idle again, and waits for the next call.
func (b *burst) begin() {
	for n := b.idle.size; n > 0; n-- {
		now := b.now()
		intended := now
		switch {
		case !b.pending(now), b.more && b.due > now:
			return
		case b.more:
			intended = b.due
			if b.slots[b.idle.head()].free <= intended {
				b.result.LateMax = max(b.result.LateMax, now-intended)
			}
			b.due, b.more = b.schedule.next()
		}
		place := b.idle.pop()
		s := &b.slots[place]
		s.busy, s.intended, s.sent = true, intended, now
		b.busy++
		switch {
		case s.socket != nil || b.connectDirectly(place):
			b.send(place)
		default:
			b.connect(place)
		}
	}
}

// send sends the next request.
func (b *burst) send(place int) {
	s := &b.slots[place]
	raw, err := s.exchange.request()
	if err != nil {
		s.exchange.settle(err)
		b.finish(place, b.now(), err)
		return
	}
	s.unsent, s.had = raw, s.in.received
	b.push(place)
}

// push sends what of a request has not been sent.
func (b *burst) push(place int) {
	s := &b.slots[place]
	all := len(s.unsent)
	n, err := s.socket.Write(s.unsent)
	s.unsent = s.unsent[n:]
	if n > 0 {
		s.connecting = false
	}
	switch {
	case err == socket.ErrWait:
		err = b.set.Writable(s.socket.Descriptor(), s.token(place), true)
	case err == nil && all == 0: // reported writable: all has been sent before
		err = b.set.Writable(s.socket.Descriptor(), s.token(place), false)
	}
	if err == nil {
		return
	}
	if s.connecting {
		b.broke(place, err)
		return
	}
	// A service may refuse a request before it has read it all. Its answer says more
	// than the failed write.
	if b.receive(place); s.socket != nil && s.busy {
		b.broke(place, err)
	}
}

// serve does what an event calls for.
func (b *burst) serve(e poll.Event) {
	place := int(e.Place)
	s := &b.slots[place]
	current := func() bool { return s.socket != nil && s.generation == e.Generation }
	if e.Writable && current() {
		b.push(place)
	}
	if e.Readable && current() {
		b.receive(place)
	}
}

// receive reads what has come.
func (b *burst) receive(place int) {
	s := &b.slots[place]
	for full := true; full && s.socket != nil && s.in.end == nil; {
		var err error
		full, err = s.in.fill(s.socket)
		switch {
		case err == socket.ErrWait:
			return
		case err != nil:
			s.in.end = err
		}
		b.read(place, b.now())
	}
}

// read reads the answer as far as it had come at a moment. Looking into it takes none of
// its latency.
func (b *burst) read(place int, arrived time.Duration) {
	s := &b.slots[place]
	for s.busy && s.in.ready() {
		reached, err := s.exchange.answer(&s.in)
		switch {
		case reached != partial:
			s.in.advance()
			s.exchange.settle(err) // which a connection that is dropped cannot do any more
			// What nobody asked for would be taken for the next answer.
			if reached == final || len(s.unsent) > 0 || s.in.left() > 0 {
				b.drop(s)
			}
			b.finish(place, arrived, err)
		case err == nil:
			s.in.advance()
		case s.in.rewind():
			return
		default:
			b.broke(place, err)
			return
		}
	}
	if !s.busy && s.socket != nil && (s.in.end != nil || s.in.left() > 0) {
		b.drop(s) // it was idle
	}
}

// finish ends a request that was answered at a moment, or could not be sent.
func (b *burst) finish(place int, at time.Duration, err error) {
	s := &b.slots[place]
	if err != nil {
		b.count(err)
	} else {
		b.result.Worked++
		if at >= b.options.Ramp && at < b.options.Duration {
			b.result.Answered++
		}
		if b.result.Latencies != nil && s.intended >= b.options.Ramp {
			record(b.result.Latencies, at-s.intended)
		}
	}
	s.rested = false
	b.release(place, at)
}

// release makes a slot idle.
func (b *burst) release(place int, now time.Duration) {
	s := &b.slots[place]
	s.busy, s.connecting, s.unsent, s.free = false, false, nil, now
	b.busy--
	b.idle.push(place)
}

// broke ends a request whose connection is of no more use.
func (b *burst) broke(place int, err error) {
	s := &b.slots[place]
	if s.connecting {
		err = &Error{Kind: KindConnect, Err: err}
		s.pause = least
	}
	s.exchange.settle(err)
	unanswered := s.in.received == s.had
	b.drop(s)
	// See Kept: the service closed what had been idle for long.
	if s.rested && unanswered && kindOf(err) == KindClosed {
		s.rested, s.unsent = false, nil
		b.connect(place)
		return
	}
	b.count(err)
	b.release(place, b.now())
}

func (b *burst) count(err error) {
	if b.result.Errors == nil {
		b.result.Errors = map[string]int64{}
		b.result.FirstError = err
	}
	b.result.Errors[kindOf(err)]++
}

// connectDirectly begins a connection on this thread, where the request needs one of its own
// and nothing but an address. It is false where the connection has to be opened beside.
func (b *burst) connectDirectly(place int) bool {
	s := &b.slots[place]
	if !s.direct.IsValid() || s.pause > 0 {
		return false
	}
	fresh, err := socket.Connect(s.direct)
	if err != nil {
		return false // it will be reported from there
	}
	if err := b.take(opening{place: place, exchange: s.exchange, socket: fresh}); err != nil {
		return false
	}
	s.connecting = true
	return true
}

// connect opens a connection for a request that has begun, beside the others.
func (b *burst) connect(place int) {
	s := &b.slots[place]
	s.opening = true
	b.openings++
	pause := s.pause
	if b.schedule != nil {
		pause = 0 // the schedule has its own
	}
	through := s.exchange
	go func() {
		ctx, cancel := context.WithTimeout(b.ctx, pause+b.options.Timeout)
		defer cancel()
		if pause > 0 {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
		b.open(ctx, place, through)
	}()
}

// connected goes on with the request for which a connection was opened.
func (b *burst) connected(o opening) {
	s := &b.slots[o.place]
	s.opening = false
	b.openings--
	err := o.err
	if err == nil {
		err = b.take(o)
	}
	now := b.now()
	switch {
	case err != nil:
		// A closed loop against a service that is gone must not spin.
		s.pause = min(max(2*s.pause, least), most)
		b.count(&Error{Kind: KindConnect, Err: err})
		b.release(o.place, now)
	case b.schedule == nil && now >= b.options.Duration:
		b.release(o.place, now) // it is late for it
	default:
		s.pause = 0
		if o.socket != nil && !renews(o.exchange) {
			b.result.Reopened++
		}
		b.send(o.place)
	}
}

// expire ends the requests that have waited for too long.
func (b *burst) expire(now time.Duration) {
	b.overdue = now + b.options.Timeout
	for i := range b.slots {
		s := &b.slots[i]
		if !s.busy || s.opening { // an opening has a limit of its own
			continue
		}
		if at := s.sent + b.options.Timeout; at > now {
			b.overdue = min(b.overdue, at)
			continue
		}
		b.broke(i, errExpired)
	}
}

// Bounds of a pause before the next try to connect.
const (
	least = time.Millisecond
	most  = 100 * time.Millisecond
)

var errExpired = &Error{Kind: KindTimeout, Err: errors.New("no answer in time")}

// giveUp counts the moments that are overdue for too long.
func (b *burst) giveUp() {
	for b.more {
		b.count(&Error{Kind: KindUnsent})
		_, b.more = b.schedule.next()
	}
}

// end leaves no request behind, nor an opening.
func (b *burst) end() {
	for ; b.openings > 0; b.openings-- {
		if o := <-b.opened; o.err == nil {
			_ = b.take(o)
		}
	}
	for i := range b.slots {
		if s := &b.slots[i]; s.busy {
			s.exchange.settle(context.Cause(b.ctx))
			b.drop(s)
		}
	}
}
