package load

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Run loads a target until the schedule is over and its backlog has drained.
//
// Connections are opened before the clock starts, so that connecting is no
// part of a request but where one has to be made anew. A request that fails is
// counted and the load goes on; the error of Run is for wrong options and for
// a cancelled context, and then comes with what was recorded until there.
func Run(ctx context.Context, target Target, options Options) (Result, error) {
	o, err := options.withDefaults()
	if err != nil {
		return Result{}, err
	}
	g := &generator{target: target, options: o, recorder: newRecorder(options.Each), sleeper: newSleeper}
	switch {
	case o.Punctual:
		g.sleeper = newThreadSleeper
	case o.Arrival == AtOnce:
		g.sleeper = newTimerSleeper // nobody sleeps, and a thousand alarms take their time to be made
	}
	return g.run(ctx)
}

// generator is one Run.
type generator struct {
	target   Target
	options  Options
	recorder *recorder
	sleeper  func() sleeper

	began time.Time

	mu       sync.Mutex
	schedule *schedule // nil for a closed loop
	taken    int64     // kept requests begun by a closed loop
}

func (g *generator) run(ctx context.Context) (Result, error) {
	if g.options.open() {
		g.schedule = newSchedule(g.options)
	}
	conns := make([]Conn, g.options.Connections)
	var opening, loading sync.WaitGroup
	for i := range conns {
		opening.Go(func() { conns[i], _ = g.open(ctx) }) // a request will try again, and tell
	}
	opening.Wait()
	g.began = time.Now()
	for _, conn := range conns {
		loading.Go(func() { g.drive(ctx, conn) })
	}
	loading.Wait()

	var end time.Duration
	backlogMax := 0
	if g.options.Duration > 0 && g.options.Count == 0 && ctx.Err() == nil {
		end = g.options.Warmup + g.options.Duration
	}
	if g.schedule != nil {
		backlogMax = int(g.schedule.backlogMax)
	}
	result := g.recorder.finish(g.options.Warmup, max(end, g.options.Warmup), backlogMax)
	if ctx.Err() != nil {
		return result, fmt.Errorf("load: stopped after %d requests: %w", result.Requests, context.Cause(ctx))
	}
	return result, nil
}

func (g *generator) open(ctx context.Context) (Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, g.options.Timeout)
	defer cancel()
	conn, err := g.target.Open(ctx)
	if err != nil {
		return nil, &Error{Kind: KindConnect, Err: err}
	}
	return conn, nil
}

// turn is for how long a connection is driven without giving way, well below the
// runtime's own limit.
const turn = 6 * time.Millisecond

// drive sends what one connection can, one request after the other.
func (g *generator) drive(ctx context.Context, conn Conn) {
	if g.options.Punctual {
		defer punctually()()
	}
	sleeper := g.sleeper()
	defer sleeper.Close()
	stopSleeper := context.AfterFunc(ctx, func() { sleeper.Close() })
	defer stopSleeper()

	// Cancelling closes the connection of the moment, whichever it is.
	var mu sync.Mutex
	hold := func(c Conn) {
		mu.Lock()
		defer mu.Unlock()
		if conn != nil && c == nil {
			conn.Close()
		}
		conn = c
	}
	defer hold(nil)
	stopConn := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		if conn != nil {
			conn.Close()
		}
	})
	defer stopConn()

	var pause time.Duration // after failing to connect in a closed loop
	first := true
	yielded := time.Now()
	for ctx.Err() == nil {
		// A goroutine that never sleeps is made to give way after 10 ms, wherever
		// it is: better here, between requests, than within one.
		if time.Since(yielded) > turn {
			runtime.Gosched()
			yielded = time.Now()
		}
		free := time.Since(g.began)
		intended, over, ok := g.take(free)
		if !ok {
			return
		}
		// Its first moment finds a connection that stood ready since the start: what is
		// late then is this goroutine.
		q := request{intended: intended, scheduled: g.schedule != nil, waited: intended < free && !first}
		first = false
		if q.scheduled {
			if over {
				g.fail(q, &Error{Kind: KindUnsent})
				continue
			}
			if sleeper.Sleep(intended-free) != nil {
				return // closed by the context
			}
		}
		q.sent = time.Since(g.began)
		if !q.scheduled {
			q.intended = q.sent
		}
		answered, err := g.one(ctx, conn, hold)
		q.answered = answered.Sub(g.began)
		if ctx.Err() != nil {
			return // not the target's failure
		}
		if err == nil {
			pause = 0
			if q.intended >= g.options.Warmup {
				g.recorder.answered(q)
			}
			continue
		}
		g.fail(q, err)
		// A closed loop against a service that is gone must not spin.
		if !q.scheduled && kindOf(err) == KindConnect {
			pause = min(max(2*pause, time.Millisecond), 100*time.Millisecond)
			if sleeper.Sleep(pause) != nil {
				return
			}
		}
	}
}

// one does one request, on a new connection where there is none. answered is when
// its answer had come, or when it had failed.
func (g *generator) one(ctx context.Context, conn Conn, hold func(Conn)) (answered time.Time, err error) {
	began := time.Now()
	if conn == nil {
		if conn, err = g.open(ctx); err != nil {
			return time.Now(), err
		}
		hold(conn)
		if ctx.Err() != nil {
			return time.Now(), context.Cause(ctx) // cancelled before the connection was held
		}
	}
	reusable, err := conn.Do(began.Add(g.options.Timeout))
	answered = time.Now()
	// What it took to look into the answer is no part of its latency. An answer
	// that was there before the request, with the one before, has no such moment.
	if a, ok := conn.(arriving); ok && err == nil && a.arrived().After(began) {
		answered = a.arrived()
	}
	if !reusable {
		hold(nil)
	}
	return answered, err
}

// arriving is a Conn that can tell when the last byte of the answer that Do has
// just found right had been read.
type arriving interface{ arrived() time.Time }

var _, _, _, _, _ arriving = (*httpConn)(nil), (*respConn)(nil), (*opMsgConn)(nil), (*thriftConn)(nil), (*cqlConn)(nil)

func (c *httpConn) arrived() time.Time   { return c.link.arrived() }
func (c *respConn) arrived() time.Time   { return c.client.link.arrived() }
func (c *opMsgConn) arrived() time.Time  { return c.client.link.arrived() }
func (c *cqlConn) arrived() time.Time    { return c.client.link.arrived() }
func (c *thriftConn) arrived() time.Time { return c.link.arrived() }

func (g *generator) fail(q request, err error) {
	if q.intended >= g.options.Warmup {
		g.recorder.failed(q, err)
	}
}

// take gives the next request's intended moment. over tells that the time to
// drain the backlog has passed with this request still unsent; ok is false
// where there are no more.
func (g *generator) take(now time.Duration) (intended time.Duration, over, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.schedule != nil {
		intended, ok = g.schedule.take(now)
		over = ok && intended < now && g.schedule.drained(now, g.options.Timeout)
		return intended, over, ok
	}
	o := g.options
	if o.Duration > 0 && now >= o.Warmup+o.Duration || o.Count > 0 && g.taken >= o.Count {
		return 0, false, false
	}
	if now >= o.Warmup {
		g.taken++
	}
	return now, false, true
}
