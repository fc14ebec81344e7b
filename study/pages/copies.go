package pages

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tare/lab"
	"tare/platform"
	"tare/study/kit"
	"tare/workload"
)

// copies are the containers of one trial, all of one image and setting.
type copies struct {
	workload workload.Sustainer
	all      []*running
}

// running is one copy, from its making to its removal.
type running struct {
	kit.Running
	name    string
	created platform.Created
}

// lay creates count copies at rest. When it returns an error nothing is left.
func lay(ctx context.Context, b lab.Bench, w workload.Sustainer, count int) (_ *copies, err error) {
	creator, ok := b.Platform().(platform.Creator)
	if !ok {
		return nil, fmt.Errorf("%s cannot create a program without starting it", b.Platform().Name())
	}
	c := b.Condition()
	program, params, err := lab.ProgramAt(w, c.Params, workload.Place{Listen: lab.ListensAt(b.Platform(), c.Setting)})
	if err != nil {
		return nil, err
	}
	spec, err := lab.SpecOf("", b.Image(), program, c)
	if err != nil {
		return nil, err
	}
	of := &copies{workload: w}
	defer func() {
		if err != nil {
			err = errors.Join(err, of.stop(ctx))
		}
	}()
	for range count {
		r := &running{name: b.Name(), Running: kit.Running{Bench: b, Parameters: params}}
		spec.Name, spec.Stdout, spec.Stderr = r.name, &r.Out, &r.Err
		r.created, err = creator.Create(ctx, spec)
		if err != nil {
			return nil, fmt.Errorf("create on %s: %w", c.Platform, err)
		}
		of.all = append(of.all, r)
	}
	return of, nil
}

// start starts the copies, one after another, and waits until each is ready.
func (c *copies) start(ctx context.Context) (err error) {
	for _, r := range c.all {
		if err := r.created.Start(ctx); err != nil {
			return fmt.Errorf("start %s: %w", r.name, err)
		}
		if r.Instance, err = r.created.Instance(ctx); err != nil {
			return fmt.Errorf("take hold of %s: %w", r.name, err)
		}
	}
	if err := c.all[0].Bench.InForce(c.all[0].Instance); err != nil {
		return err
	}
	for _, r := range c.all {
		waiting, cancel := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("not ready after %v", readyLimit))
		err := c.workload.Ready(workload.WithReadyLimit(waiting, readyLimit), r)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: readiness: %w", r.name, err)
		}
	}
	return nil
}

// sustain keeps all copies at work until stop is called, which gives the first
// error of any. broken is closed when a copy's load has failed before that.
func (c *copies) sustain(ctx context.Context, seed uint64) (stop func() error, broken <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	failed := make(chan struct{})
	var once sync.Once
	var under sync.WaitGroup
	errs := make([]error, len(c.all))
	for i, r := range c.all {
		under.Go(func() {
			// Copies of one image serve users of their own.
			if err := c.workload.Sustain(ctx, r, seed+uint64(i)); err != nil {
				errs[i] = fmt.Errorf("%s: %w", r.name, err)
				once.Do(func() { close(failed) })
			}
		})
	}
	return func() error {
		cancel()
		under.Wait()
		return errors.Join(errs...)
	}, failed
}

// stopLimit bounds the removal of all copies, which goes on when the run is
// interrupted.
const stopLimit = 3 * time.Minute

// stop ends and removes all copies.
func (c *copies) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	errs := make([]error, len(c.all))
	for i, r := range c.all {
		errs[i] = r.created.Stop(ctx)
	}
	return errors.Join(errs...)
}
