package startup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tare/kernel/process"
	"tare/lab"
	"tare/platform"
	"tare/study/kit"
	"tare/workload"
)

// fleet is the containers of one trial, all of one image and setting.
type fleet struct {
	program    workload.Program
	args       []string // the whole command
	containers []*container
	torn       tearing
}

// tearing is how long each container took to end and to be removed.
type tearing struct {
	mu   sync.Mutex
	took []time.Duration
}

func (t *tearing) add(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.took = append(t.took, took)
}

// container is one of a fleet, from its making to its removal.
type container struct {
	created platform.Created
	running kit.Running // as its readiness is asked of, both streams in one
	args    []string
	service workload.Readier // nil where there is nothing to ask

	mu       sync.Mutex
	instance platform.Instance
}

// makers is how many containers are made, and removed, at the same time: two
// keep an engine busy, more only queue in it.
const makers = 2

// lay creates count containers at rest. When it returns an error nothing is left.
func lay(ctx context.Context, b lab.Bench, w workload.Workload, count int) (*fleet, error) {
	creator, ok := b.Platform().(platform.Creator)
	if !ok {
		return nil, fmt.Errorf("%s cannot create a container without starting it", b.Platform().Name())
	}
	c := b.Condition()
	program, err := w.Program(c.Params)
	if err != nil {
		return nil, err
	}
	spec, err := lab.SpecOf("", b.Image(), program, c)
	if err != nil {
		return nil, err
	}
	f := &fleet{program: program, args: spec.Args}
	service, serves := workload.Serves(w, program)
	specs := make([]platform.Spec, count)
	f.containers = make([]*container, count)
	for i := range specs {
		f.containers[i] = &container{
			args: f.args, running: kit.Running{Bench: b, Parameters: c.Params, Out: process.Tail{Most: outputKept}},
		}
		if serves {
			f.containers[i].service = service
		}
		specs[i], specs[i].Name = spec, b.Name()
		// Only a service that shows by its output that it is ready is listened
		// to: an attached stream is a connection and two threads of the engine.
		if l, ok := w.(workload.Listener); serves && ok && l.Listens() {
			specs[i].Stdout, specs[i].Stderr = &f.containers[i].running.Out, &f.containers[i].running.Out
		}
	}
	var failing atomic.Bool
	err = eachOf(count, makers, func(i int) error {
		// Where one cannot be made the rest is not asked for: an engine that hangs
		// would take its patience for each.
		if failing.Load() || ctx.Err() != nil {
			return context.Cause(ctx)
		}
		created, err := creator.Create(ctx, specs[i])
		f.containers[i].created = created
		if err != nil {
			failing.Store(true)
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create on %s: %w", c.Platform, err), f.stop(ctx))
	}
	return f, nil
}

// stopLimit bounds the removal of a fleet, which goes on when the run is
// interrupted: so much, and so much for each container.
const (
	stopLimit = 3 * time.Minute
	stopEach  = 2 * time.Second
)

// stop ends and removes all containers.
func (f *fleet) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit+stopEach*time.Duration(len(f.containers)))
	defer cancel()
	return eachOf(len(f.containers), makers, func(i int) error {
		if c := f.containers[i]; c != nil && c.created != nil {
			began := time.Now()
			if err := c.created.Stop(ctx); err != nil {
				return err
			}
			f.torn.add(time.Since(began))
		}
		return nil
	})
}

// eachOf calls do for 0 to n-1, at most width at a time, and gives the first
// few errors.
func eachOf(n, width int, do func(i int) error) error {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	next := make(chan int)
	for range min(width, n) {
		wg.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	const shown = 3
	if len(errs) > shown {
		errs = append(errs[:shown], fmt.Errorf("and %d more", len(errs)-shown))
	}
	return errors.Join(errs...)
}

// hold takes hold of the started program.
func (c *container) hold(ctx context.Context) (platform.Instance, error) {
	instance, err := c.created.Instance(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.instance = instance
	c.mu.Unlock()
	return instance, nil
}

// living is a container's program that runs, nil where none does.
func (f *fleet) living() platform.Instance {
	for _, c := range f.containers {
		c.mu.Lock()
		instance := c.instance
		c.mu.Unlock()
		if instance == nil {
			continue
		}
		if pids, err := instance.Processes(); err == nil && len(pids) > 0 {
			return instance
		}
	}
	return nil
}

// outputKept is how much of a container's output is kept: there may be a thousand.
const outputKept = 64 << 10
