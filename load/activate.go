package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Activate is one client that asks many services, each now and then: by turns, of
// which each is a burst of requests to one service. How many requests there are does
// not depend on how many services there are, nor on how long bursts are.
//
// A connection to a service is made when its first turn comes, within that turn's
// latency, and kept until the end; targets made by [Keep] keep theirs beyond it. A
// request that fails is counted, and the load goes on with the next turn. The error
// is for wrong options and for a cancelled context, and then comes with what was
// recorded until there.
func Activate(ctx context.Context, targets []Target, options ActivationOptions) (ActivationResult, error) {
	if len(targets) == 0 {
		return ActivationResult{}, errors.New("load: no service to ask")
	}
	o, err := options.withDefaults()
	if err != nil {
		return ActivationResult{}, err
	}
	return newActivation(targets, o, newSleeper).run(ctx)
}

// activation is one Activate.
type activation struct {
	targets  []*Kept
	own      []*Kept // of them, those that were made here
	options  ActivationOptions
	recorder *recorder
	sleeper  func() sleeper

	began time.Time

	mu       sync.Mutex
	services func() int
	schedule *schedule            // nil for a closed loop
	pauses   func() time.Duration // of a closed loop
	end      time.Duration        // no burst begins that is due from here on; 0 is not known
	result   ActivationResult     // what is not the recorder's
}

func newActivation(targets []Target, o ActivationOptions, sleeper func() sleeper) *activation {
	a := &activation{
		options: o, recorder: newRecorder(Options{}), sleeper: sleeper, end: o.Duration,
		services: services(o.Pattern, o.Seed, len(targets), o.After),
		result:   ActivationResult{Bursts: NewHistogram(), First: NewHistogram(), Turned: make([]int64, len(targets))},
	}
	if o.Open {
		a.schedule = newBurstSchedule(o)
	} else {
		a.pauses = pauses(o.Pattern, o.Seed, o.pause(), o.After)
	}
	for _, target := range targets {
		kept, ok := target.(*Kept)
		if !ok {
			kept = Keep(target)
			a.own = append(a.own, kept)
		}
		a.targets = append(a.targets, kept)
	}
	return a
}

func (a *activation) run(ctx context.Context) (ActivationResult, error) {
	defer func() {
		for _, kept := range a.own {
			kept.Close()
		}
	}()
	opened := a.opened()
	defer quiet()()
	a.began = time.Now()
	// ending is over when the load is to end, for whichever reason.
	ending, over := context.WithCancel(ctx)
	defer over()
	done := make(chan struct{})
	var watching, asking sync.WaitGroup
	watching.Go(func() {
		select {
		case <-a.options.End:
			a.stop(time.Since(a.began))
			over()
		case <-done:
		}
	})
	for range a.options.Connections {
		asking.Go(func() { a.drive(ctx, ending) })
	}
	asking.Wait()
	close(done)
	watching.Wait()

	var until time.Duration
	if ctx.Err() == nil {
		until = a.end
	}
	backlogMax := 0
	if a.schedule != nil {
		backlogMax = int(a.schedule.backlogMax)
	}
	a.result.Result = a.recorder.finish(0, until, backlogMax)
	a.result.Opened = a.opened() - opened
	if ctx.Err() != nil {
		return a.result, fmt.Errorf("load: stopped after %d requests: %w", a.result.Requests, context.Cause(ctx))
	}
	return a.result, nil
}

// opened is how many connections were made to all targets since these were made.
func (a *activation) opened() int64 {
	var n int64
	for _, kept := range a.targets {
		n += kept.Opened()
	}
	return n
}

// stop has no burst begin that is due from that moment on.
func (a *activation) stop(at time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.end == 0 || at < a.end {
		a.end = at
	}
	if a.schedule != nil {
		a.schedule.stop(at)
	}
}

// drive sends one burst after the other.
func (a *activation) drive(ctx, ending context.Context) {
	sleeper := a.sleeper()
	defer sleeper.Close()
	stopSleeper := context.AfterFunc(ending, func() { sleeper.Close() })
	defer stopSleeper()

	connection := &held{timeout: a.options.Timeout}
	stopConnection := context.AfterFunc(ctx, connection.drop)
	defer stopConnection()

	first := true
	for ctx.Err() == nil {
		free := time.Since(a.began)
		due, service, over, ok := a.take(free)
		// What is overdue is sent though the load is to end: it was due before.
		if !ok || due > free && sleeper.Sleep(due-free) != nil {
			return
		}
		if over {
			a.missed()
			a.unsent(a.options.Burst)
			continue
		}
		a.turn(service)
		q := request{intended: due, scheduled: a.schedule != nil, waited: due < free && !first}
		first = false
		connection.target = a.targets[service]
		a.burst(ctx, connection, q)
		connection.drop()
	}
}

// take gives when the next burst is due, and which service it turns to. over tells
// that the time to drain the backlog has passed with this burst still unsent; ok is
// false where there are no more.
func (a *activation) take(now time.Duration) (due time.Duration, service int, over, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.schedule != nil {
		due, ok = a.schedule.take(now)
		over = ok && due < now && a.schedule.drained(now, a.options.Timeout)
	} else {
		due = now + a.pauses()
		ok = a.end == 0 || due < a.end
	}
	if ok {
		service = a.services()
	}
	return due, service, over, ok
}

// turn counts a burst that begins now, and tells of it.
func (a *activation) turn(service int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.result.Turns++
	a.result.Turned[service]++
	if a.options.Each != nil {
		a.options.Each(service)
	}
}

// missed counts a burst that was due and is not begun.
func (a *activation) missed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.result.Turns++
}

// burst sends requests, one after the other, of which q is the first.
func (a *activation) burst(ctx context.Context, connection *held, q request) {
	var began time.Duration
	whole := true
	for i := range a.options.Burst {
		q.sent = time.Since(a.began)
		if i > 0 {
			q.scheduled, q.waited = false, false
		}
		if !q.scheduled {
			q.intended = q.sent
		}
		if i == 0 {
			began = q.intended
		}
		answered, err := connection.one(ctx)
		q.answered = answered.Sub(a.began)
		if ctx.Err() != nil {
			return // not the service's failure
		}
		if err == nil {
			a.recorder.answered(q)
			if i == 0 {
				a.record(a.result.First, q.answered-q.intended)
			}
			continue
		}
		whole = false
		a.recorder.failed(q, err)
		// A service that does not answer is not asked again and again for one burst.
		if connection.standing() == nil {
			a.unsent(a.options.Burst - i - 1)
			return
		}
	}
	if whole {
		a.record(a.result.Bursts, q.answered-began)
	}
}

func (a *activation) unsent(requests int) {
	for range requests {
		a.recorder.failed(request{}, &Error{Kind: KindUnsent})
	}
}

func (a *activation) record(h *hdrhistogram.Histogram, d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	record(h, d)
}
