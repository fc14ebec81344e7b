package startup

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/kernel/clock"
	"tare/kernel/process"
	"tare/lab"
	"tare/platform"
	"tare/workload"
)

// watcher tells when an application executed its first instruction. It is nil
// where the host cannot trace that.
type watcher interface {
	// expect announces a start, before it is sent: of the container that id
	// names, with the application's whole command line. await gives the moment
	// of the application's execve, with the process that instance has told where
	// its ancestry did not; forget ends the watch.
	expect(id string, args []string) (await func(ctx context.Context, pid int) (time.Time, error), forget func())
}

// starter starts a fleet's containers and times them.
type starter struct {
	bench    lab.Bench
	workload workload.Workload
	watch    watcher
	answerIn time.Duration // bounds of waiting
	readyIn  time.Duration
}

// release starts each container at its moment, waits until all are ready or
// have failed, and says what became of each. It gives fewer where the context
// ends before they are due.
// origin is the first's intended moment, from which the timings count.
func (s starter) release(ctx context.Context, f *fleet, moments []time.Duration) (timings []timing, origin time.Time, err error) {
	alarm, err := clock.NewAlarm()
	if err != nil {
		return nil, origin, err
	}
	defer alarm.Close()
	defer context.AfterFunc(ctx, func() { alarm.Close() })()
	// Where the platform keeps every CPU busy, the generator would wait in line
	// behind what it measures. Not being allowed to is no error: its lateness is
	// told.
	if restore, err := process.Prefer(generatorNice); err == nil {
		defer func() { err = errors.Join(err, restore()) }()
	}
	timings = make([]timing, len(moments))
	var under sync.WaitGroup
	// What the collector would do in the midst is done before.
	runtime.GC()
	// A moment to get going in, so that the first is not late by design.
	origin = time.Now().Add(leadIn)
	for i, moment := range moments {
		if err := alarm.Sleep(time.Until(origin.Add(moment))); err != nil {
			break // the context's end
		}
		under.Go(func() { timings[i] = s.start(ctx, f.containers[i], origin, moment) })
	}
	under.Wait()
	if ctx.Err() != nil {
		return nil, origin, context.Cause(ctx)
	}
	return timings, origin, nil
}

const (
	leadIn        = 20 * time.Millisecond
	generatorNice = -10
)

// start is one start, from its sending to its readiness.
func (s starter) start(ctx context.Context, c *container, origin time.Time, intended time.Duration) timing {
	t := timing{Intended: intended, Answered: never, First: never, Ready: never}
	await, forget := func(context.Context, int) (time.Time, error) { return time.Time{}, errUnwatched }, func() {}
	if s.watch != nil {
		await, forget = s.watch.expect(c.created.ID(), c.args)
	}
	defer forget()
	starting, cancel := context.WithTimeoutCause(ctx, s.answerIn, fmt.Errorf("no answer after %v", s.answerIn))
	defer cancel()
	t.Sent = time.Since(origin)
	err := c.created.Start(starting)
	answered := time.Since(origin)
	if err != nil {
		t.Failed = failure(starting, "start", err)
		return t
	}
	t.Answered = answered
	getting, cancel := context.WithTimeoutCause(ctx, s.readyIn, fmt.Errorf("not ready after %v", s.readyIn))
	defer cancel()
	instance, err := c.hold(getting)
	if err != nil {
		t.Failed = failure(getting, "take hold of the program", err)
		return t
	}
	pid := 0
	if pids, err := instance.Processes(); err == nil && len(pids) > 0 {
		pid = pids[0]
	}
	// That it was not seen says something of the watch, and nothing of the start.
	if moment, err := await(getting, pid); err == nil {
		t.First = moment.Sub(origin)
	}
	if service, ok := s.workload.(workload.Readier); ok {
		if err := service.Ready(getting, view{c: c, instance: instance, params: s.bench.Condition().Params}); err != nil {
			t.Failed = failure(getting, "readiness", err)
			return t
		}
		t.Ready = time.Since(origin)
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

// view is a started container as its workload's readiness check sees it.
type view struct {
	c        *container
	instance platform.Instance
	params   workload.Params
}

var _ workload.Trial = view{}

func (v view) Params() workload.Params { return v.params }

func (v view) Address(port int) string { return v.instance.Address(port) }

func (v view) Wait(ctx context.Context) (workload.Exit, error) {
	exit, err := v.instance.Wait(ctx)
	return workload.Exit{Code: exit.Code, OOMKilled: exit.OOMKilled, Elapsed: exit.Elapsed, CPU: -1}, err
}

// Output gives both streams as one: what is looked for stands in either.
func (v view) Output() (stdout, stderr []byte) { return v.c.out.text(), nil }

func (v view) Generate(context.Context, []string) ([]byte, error) {
	return nil, errors.New("a check of readiness has no load program")
}

func (v view) Record(string, float64) {}

func (v view) RecordHistogram(string, *hdrhistogram.Histogram) {}
