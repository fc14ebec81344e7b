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
	g := &generator{target: target, options: o, recorder: newRecorder(o), sleeper: newSleeper}
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
		opening.Go(
			func() { conns[i], _ = open(ctx, g.target, g.options.Timeout) },
		) // a request will try again, and tell
	}
	opening.Wait()
	defer quiet()()
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

	connection := &held{target: g.target, timeout: g.options.Timeout, conn: conn}
	defer connection.drop()
	stopConnection := context.AfterFunc(ctx, connection.drop)
	defer stopConnection()

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
		answered, err := connection.one(ctx)
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
