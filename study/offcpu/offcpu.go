// Package offcpu asks of one running program: *what kept it from running?* It
// waited for a CPU behind others, its own quota held it back, or it was blocked, on
// something that its stacks name.
//
// What is counted is what [tare/probe/causes] adds up of the scheduler's events.
// Watching changes nothing. It tells what a program did with its time in the while in
// which it was watched, and compares it with nothing: what platforms cost it is
// [tare/study/platforms]', behind whom it waits, and what can be done about that,
// [tare/study/place]'s.
package offcpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"tare/container"
	"tare/probe/causes"
	"tare/study/kit"
)

// Watching takes no less time, and no more.
const (
	Shortest = 100 * time.Millisecond
	Longest  = time.Hour
)

// lookEvery is how often it is looked whether the program is still there.
const lookEvery = 250 * time.Millisecond

// Watched is what was seen of a program.
type Watched struct {
	Container container.Container
	Began     time.Time
	// Asked is for how long it was to be watched, Reading.Span for how long it was.
	Asked   time.Duration
	Stacks  bool // they were asked for
	Reading causes.Reading
	Notes   []string
}

// Watcher watches a program of this kernel, until it is stopped.
type Watcher interface {
	Stop() (causes.Reading, error)
}

// Start begins to watch as [causes.Start] does, which it is but in tests.
type Start func(causes.Target, causes.Options) (Watcher, error)

// Watch watches a running program for a while, until it has ended, or until ctx
// ends, which is no error once something was seen. The error is a [*container.Ended]
// where the program had ended before.
func Watch(ctx context.Context, c container.Container, span time.Duration, stacks bool, start Start) (*Watched, error) {
	if span < Shortest || span > Longest {
		return nil, fmt.Errorf("watching for %v: want %v to %v", span, Shortest, Longest)
	}
	target, err := targetOf(c)
	if err != nil {
		return nil, err
	}
	w := &Watched{Container: c, Began: time.Now(), Asked: span, Stacks: stacks}
	watch, err := start(target, causes.Options{Stacks: stacks, Weigh: true})
	if err != nil {
		// A process may end between being listed and being watched.
		if gone(c) {
			return nil, &container.Ended{Name: c.Name}
		}
		return nil, err
	}
	how := await(ctx, c, span)
	if w.Reading, err = watch.Stop(); err != nil {
		return nil, err
	}
	switch {
	case how == stopped && w.Reading.Span < Shortest:
		return nil, context.Cause(ctx)
	case how != whole:
		w.Notes = append(w.Notes, fmt.Sprintf("%s after %v of %v", how, kit.Short(w.Reading.Span), span))
	}
	return w, nil
}

// targetOf is what the probe watches; tare itself is left out of processes that it
// descends from.
func targetOf(c container.Container) (causes.Target, error) {
	pids, err := c.Processes()
	if err != nil {
		return causes.Target{}, err
	}
	pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == os.Getpid() })
	if len(pids) == 0 {
		return causes.Target{}, &container.Ended{Name: c.Name}
	}
	if c.Cgroup != "" {
		return causes.Target{Cgroup: c.Cgroup}, nil
	}
	return causes.Target{PIDs: pids}, nil
}

// ending is how a watch came to its end.
type ending string

const (
	whole   ending = ""
	over    ending = "it ended"
	stopped ending = "stopped"
)

// await lets time go by.
func await(ctx context.Context, c container.Container, span time.Duration) ending {
	end := time.NewTimer(span)
	defer end.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-end.C:
			return whole
		case <-ctx.Done():
			return stopped
		case <-look.C:
			if gone(c) {
				return over
			}
		}
	}
}

// gone tells that there is nothing left to be watched. A control group may be empty
// for a while, and is over when it is removed.
func gone(c container.Container) bool {
	if c.Cgroup != "" {
		_, err := os.Stat(c.Cgroup)
		return errors.Is(err, os.ErrNotExist)
	}
	pids, err := c.Processes()
	return err == nil && len(pids) == 0
}
