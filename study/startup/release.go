package startup

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"tare/kernel/clock"
	"tare/kernel/process"
	"tare/lab"
	"tare/workload"
)

// watcher observes when an application executes its first instruction. It is nil
// where the host cannot trace that.
type watcher interface {
	// expect announces a start, before it is sent: of the container that id
	// names, with the application's whole command line. await gives the moment
	// of the application's execve, with the process that the instance names where
	// its ancestry does not; forget ends the watch.
	expect(id string, args []string) (await func(ctx context.Context, pid int) (time.Time, error), forget func())
	// settle is called when a trial is over: what was remembered of it may be
	// forgotten. It gives how many events have been lost since the last call.
	settle() (lost uint64)
}

// starter starts a fleet's containers and times them.
type starter struct {
	bench    lab.Bench
	watch    watcher
	answerIn time.Duration // bounds of waiting
	readyIn  time.Duration
}

// release starts each container at its moment, waits until all are ready or
// have failed, and says what became of each. It gives none where the context
// ends before they are due. origin is the first's intended moment, from which
// the timings count.
func (s starter) release(
	ctx context.Context,
	f *fleet,
	moments []time.Duration,
) (timings []timing, origin time.Time, err error) {
	timings = make([]timing, len(moments))
	var under sync.WaitGroup
	// What the collector would do in the midst is done before, or after.
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	// A thread that forks a runtime holds one of Go's processors until the child
	// has executed, and a late child would make others late: there are enough.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(processors, runtime.NumCPU())))
	// Every start has a thread that waits for its moment, so that none waits for
	// another's; they get going meanwhile.
	origin = time.Now().Add(leadIn + time.Duration(len(moments))*perThread)
	for i, moment := range moments {
		under.Go(func() { timings[i] = s.onTime(ctx, f.containers[i], origin, moment) })
	}
	under.Wait()
	if ctx.Err() != nil {
		return nil, origin, context.Cause(ctx)
	}
	return timings, origin, nil
}

const (
	processors = 64
	leadIn     = 50 * time.Millisecond
	perThread  = 200 * time.Microsecond
	// closeBy is how long before its moment a start's thread stops to listen to
	// its context and sleeps to the microsecond.
	closeBy = 20 * time.Millisecond
	// early is how much sooner it wakes than it has to: a kernel that is busy
	// wakes nobody for as long. Waited out on the CPU, it takes 1.5 % of one at 50
	// starts a second.
	early = 300 * time.Microsecond
)

// onTime waits for a start's moment and starts.
func (s starter) onTime(ctx context.Context, c *container, origin time.Time, intended time.Duration) timing {
	watch := s.look(c)
	defer watch.forget()
	coarse := time.NewTimer(time.Until(origin.Add(intended)) - closeBy)
	defer coarse.Stop()
	select {
	case <-coarse.C:
	case <-ctx.Done():
		t := due(intended)
		t.Failed = "start: " + context.Cause(ctx).Error()
		return t
	}
	// Where the platform keeps every CPU busy, an ordinary thread would wait in
	// line behind what it measures. Not being allowed is no error: the lateness
	// is recorded. The thread ends with the goroutine, unless it is given back.
	runtime.LockOSThread()
	restore, err := process.Punctual()
	if err != nil {
		restore = func() error { return nil }
	}
	settled := func() {
		if restore() == nil {
			runtime.UnlockOSThread()
		}
	}
	// What this misses is lateness, and recorded as such.
	_ = clock.SleepUntil(monotonic(origin.Add(intended - early)))
	for time.Since(origin) < intended {
	}
	return s.start(ctx, c, watch, origin, intended, settled)
}

// look is a start's watch for its first instruction.
type look struct {
	await  func(ctx context.Context, pid int) (time.Time, error)
	forget func()
}

func (s starter) look(c *container) look {
	if s.watch == nil {
		return look{func(context.Context, int) (time.Time, error) { return time.Time{}, errUnwatched }, func() {}}
	}
	await, forget := s.watch.expect(c.created.ID(), c.args)
	return look{await, forget}
}

// start is one start, from its sending to its readiness. answered is called when
// the platform has answered.
func (s starter) start(
	ctx context.Context,
	c *container,
	watch look,
	origin time.Time,
	intended time.Duration,
	answered func(),
) timing {
	t := due(intended)
	fail := func(ctx context.Context, doing string, err error) timing {
		t.Failed, t.Over = failure(ctx, doing, err), time.Since(origin)
		return t
	}
	starting, cancel := context.WithTimeoutCause(ctx, s.answerIn, fmt.Errorf("no answer after %v", s.answerIn))
	defer cancel()
	t.Sent = time.Since(origin)
	err := c.created.Start(starting)
	done := time.Since(origin)
	answered()
	if err != nil {
		return fail(starting, "start", err)
	}
	t.Answered = done
	getting, cancel := context.WithTimeoutCause(ctx, s.readyIn, fmt.Errorf("not ready after %v", s.readyIn))
	defer cancel()
	instance, err := c.hold(getting)
	if err != nil {
		return fail(getting, "take hold of the program", err)
	}
	// The moment of the first instruction is the kernel's, whenever it is asked
	// for: nothing waits for it. That it was not seen says something of the watch,
	// and nothing of the start.
	seen := make(chan time.Duration, 1)
	go func() {
		pid := 0
		if pids, err := instance.Processes(); err == nil && len(pids) > 0 {
			pid = pids[0]
		}
		moment, err := watch.await(getting, pid)
		if err != nil {
			seen <- never
			return
		}
		seen <- moment.Sub(origin)
	}()
	if c.service != nil {
		c.running.Instance = instance
		err = c.service.Ready(workload.WithReadyLimit(getting, s.readyIn), &c.running)
		t.Ready = time.Since(origin)
	}
	t.First = <-seen
	if err != nil {
		t.Ready = never
		return fail(getting, "readiness", err)
	}
	return t
}

// errUnwatched: nobody looks at first instructions on this host.
var errUnwatched = errors.New("first instructions are not traced here")

// failure says in one line why a start failed.
func failure(ctx context.Context, doing string, err error) string {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return doing + ": " + line
}
