// Package offcpu finds what kept a running program from running. It waited for a CPU
// behind other threads, its own quota held it back, or it was blocked on something that
// its stacks show.
//
// The counts are those that [tare/probe/causes] sums up from the scheduler's events.
// Watching changes nothing. The result is of the time watched, and is compared with
// nothing. The cost of platforms is studied by [tare/study/platforms]. [tare/study/place]
// finds behind which threads a program waits, and what to do about it.
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

// The bounds of the time that a program is watched.
const (
	Shortest = 100 * time.Millisecond
	Longest  = time.Hour
)

// lookEvery is the interval between checks whether the program still runs.
const lookEvery = 250 * time.Millisecond

// Watched is a program with what was counted of it.
type Watched struct {
	Container container.Container
	Began     time.Time
	// Asked is the time requested, Reading.Span the time watched.
	Asked   time.Duration
	Stacks  bool // they were requested
	Reading causes.Reading
	Notes   []string
}

// Watcher watches a program until it is stopped.
type Watcher interface {
	Stop() (causes.Reading, error)
}

// Start begins to watch. It is [causes.Start] except in tests.
type Start func(causes.Target, causes.Options) (Watcher, error)

// Watch watches a running program for a time, until it has ended, or until ctx ends,
// which is no error after [Shortest]. The error is a [*container.Ended] if the program had
// ended before.
func Watch(ctx context.Context, c container.Container, span time.Duration, stacks bool, start Start) (*Watched, error) {
	if span < Shortest || span > Longest {
		return nil, fmt.Errorf("watch for %v: want %v to %v", span, Shortest, Longest)
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
		w.Notes = append(w.Notes, fmt.Sprintf("%s after %v of %v", how, kit.Short(w.Reading.Span), kit.Exact(span)))
	}
	return w, nil
}

// targetOf is what the probe watches. tare itself is left out, in case the target is its
// ancestor.
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

// ending is how a watch ended.
type ending string

const (
	whole   ending = ""
	over    ending = "it ended"
	stopped ending = "stopped"
)

// await waits for the end of the time, of ctx, or of the program.
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

// gone reports that nothing is left to watch. A control group may be empty for a while,
// and is gone when it is removed.
func gone(c container.Container) bool {
	if c.Cgroup != "" {
		_, err := os.Stat(c.Cgroup)
		return errors.Is(err, os.ErrNotExist)
	}
	pids, err := c.Processes()
	return err == nil && len(pids) == 0
}
