package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"tare/kernel/cgroup"
	"tare/platform"
	"tare/platform/engine"
	"tare/platform/held"
)

// Launch implements [platform.Platform].
func (p *Platform) Launch(ctx context.Context, spec platform.Spec) (platform.Instance, error) {
	return held.Launch(ctx, p, spec)
}

// Create creates a container for the program, attaches to it where its output
// is wanted, and asks for its exit. So each container at rest holds a
// connection to the engine, or two, and each request that meets no idle one
// dials its own: none waits for another's.
func (p *Platform) Create(ctx context.Context, spec platform.Spec) (_ platform.Created, err error) {
	if err := p.Supports(spec.Setting); err != nil {
		return nil, err
	}
	if spec, err = spec.Grant(); err != nil {
		return nil, err
	}
	info, err := p.engine(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.suits(spec.Setting, info); err != nil {
		return nil, err
	}
	if err := p.reachable(spec); err != nil {
		return nil, err
	}
	if err := p.findGroup(spec, info); err != nil {
		return nil, err
	}
	publish, err := p.publishOn(ctx, spec.Setting.Network)
	if err != nil {
		return nil, err
	}

	program, err := spec.Process()
	if err != nil {
		return nil, err
	}
	i := newInstance(p, spec, program, info)
	p.enter(i)
	defer func() {
		if err != nil {
			// The caller's context may be what ended it; removal has its own time.
			err = errors.Join(err, i.clear(context.WithoutCancel(ctx)))
		}
	}()
	mounts, err := i.layData(ctx)
	if err != nil {
		return nil, err
	}
	options, err := plan{
		spec:    spec,
		program: program,
		info:    info,
		name:    i.Container,
		mark:    i.mark,
		mounts:  mounts,
		publish: publish,
	}.options()
	if err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return i.create(ctx, options) }, i.makeMissing, i.attach, i.awaitExit,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	i.known(i.id)
	i.rested = time.Now()
	return held.NewCreated(held.Steps{ID: i.id, Start: i.start, Hold: i.take, Clear: i.clear}), nil
}

// start is the one request that starts the container.
func (i *instance) start(ctx context.Context) error {
	// What the engine took to create counts, and the rest in between does not.
	i.Began = i.Began.Add(time.Since(i.rested))
	return i.p.call(ctx, "start "+i.Spec.Args[0]+" in container "+i.Container, func(ctx context.Context) error {
		_, err := i.p.client.ContainerStart(ctx, i.id, client.ContainerStartOptions{})
		return err
	})
}

// take takes hold of what the engine has started.
func (i *instance) take(ctx context.Context) (platform.Instance, error) {
	if err := i.locate(ctx); err != nil {
		return nil, err
	}
	i.known(i.publishedPorts()...)
	if err := i.hold(); err != nil {
		return nil, err
	}
	if err := i.saveQuota(); err != nil {
		return nil, err
	}
	if i.Spec.Setting.Network == platform.NetworkProxy && i.Process != nil {
		if err := i.proxied(); err != nil {
			return nil, err
		}
	}
	go i.Watch()
	return i, nil
}

// saveQuota lets the container save up quota, which the Engine API has no field for. What it did
// since its start had none saved.
func (i *instance) saveQuota() error {
	quota, period, limited := i.Spec.Setting.Quota()
	if !limited || i.Spec.Setting.CPUBurst == 0 || i.Process == nil {
		return nil
	}
	saving := cgroup.Bandwidth{Quota: quota, Period: period, Burst: i.Spec.Setting.CPUBurst}
	err := i.group.Apply(cgroup.Limits{Bandwidth: saving})
	if err != nil && i.Runs() {
		return fmt.Errorf("set cpu-burst of container %s (it requires Linux 5.14): %w", i.Container, err)
	}
	return nil
}

// clear removes a container that nobody watches: at rest, started, or half made.
func (i *instance) clear(ctx context.Context) error {
	err := i.remove(ctx)
	i.HangUp()
	if err != nil {
		return i.leftovers(err)
	}
	i.p.leave(i)
	return nil
}

// acquire enters a thing in the ledger and makes it. Release removes it, even
// where making it failed half-way.
func (i *instance) acquire(ctx context.Context, e platform.Entry, make func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("make %s %s: %w", e.Kind, e.ID, err)
	}
	done, err := i.p.ledger.Add(e)
	if err != nil {
		return fmt.Errorf("enter %s %s in the ledger: %w", e.Kind, e.ID, err)
	}
	// Made to the end whatever happens to the caller: an engine whose client
	// hangs up goes on making, and the thing would appear after we had looked.
	err = make(context.WithoutCancel(ctx))
	i.mu.Lock()
	i.owned = append(i.owned, owned{entry: e, done: done, uncertain: errors.Is(err, platform.ErrGone)})
	i.mu.Unlock()
	if err != nil {
		return err
	}
	return ctx.Err()
}

// owned is one thing that Create made.
type owned struct {
	entry platform.Entry
	done  func()
	// uncertain: the engine went silent while making it, and may make it yet.
	// Its ledger entry stays, for tare clean.
	uncertain bool
}

// owns reports whether the thing has been acquired already.
func (i *instance) owns(kind, id string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, o := range i.owned {
		if o.entry.Kind == kind && o.entry.ID == id {
			return true
		}
	}
	return false
}

// release removes everything owned, the latest first. What cannot be removed
// stays owned, so that release may be called again.
func (i *instance) release(ctx context.Context) error {
	i.releasing.Lock()
	defer i.releasing.Unlock()
	i.mu.Lock()
	all := i.owned
	i.owned = nil
	i.mu.Unlock()
	var kept []owned
	var errs []error
	for n := len(all) - 1; n >= 0; n-- {
		if err := i.p.Remove(ctx, all[n].entry); err != nil {
			kept = append([]owned{all[n]}, kept...)
			errs = append(errs, err)
			continue
		}
		if !all[n].uncertain {
			all[n].done()
		}
	}
	i.mu.Lock()
	i.owned = append(kept, i.owned...)
	i.mu.Unlock()
	return errors.Join(errs...)
}

func (i *instance) create(ctx context.Context, options client.ContainerCreateOptions) error {
	entry := platform.Entry{
		Platform: i.p.name,
		Kind:     kindContainer,
		ID:       i.Container,
		Attrs:    map[string]string{labelLedger: i.mark},
	}
	return i.acquire(ctx, entry, func(ctx context.Context) error {
		i.Began = time.Now() // the data is laid out and the ledger written: what follows is the engine's
		err := i.p.call(ctx, "create container "+i.Container, func(ctx context.Context) error {
			answer, err := i.p.client.ContainerCreate(ctx, options)
			i.id = answer.ID
			return err
		})
		switch {
		case errdefs.IsConflict(err):
			return &engine.Error{Doing: "create container " + i.Container, Message: "a container of that name exists already; tare clean removes it if it is tare's, docker rm if it is yours", Err: err}
		case gone(err):
			return &engine.Error{Doing: "create container " + i.Container, Message: "the engine has no image " + i.Spec.Image.Reference + "; it was not prepared, or somebody removed it (docker image prune)", Err: err}
		}
		return err
	})
}

// attach connects to the program's output before it can write any, and hands it on.
func (i *instance) attach(ctx context.Context) error {
	attached, err := i.connect(ctx)
	if err == nil && attached != nil {
		i.handOn(attached)
	}
	return err
}

// handOn hands the program's output on, as it comes.
func (i *instance) handOn(attached *client.HijackedResponse) {
	i.Output = engine.NewOutput(i.Spec.Stdout, i.Spec.Stderr)
	i.Output.Follow(func() error {
		stdout, stderr := i.Output.Writers()
		return demultiplex(stdout, stderr, attached.Reader)
	}, attached.Close)
}

// connect is the connection to the program's output; nil where nobody wants that.
func (i *instance) connect(ctx context.Context) (*client.HijackedResponse, error) {
	if i.Spec.Stdout == nil && i.Spec.Stderr == nil {
		return nil, nil
	}
	var connection client.HijackedResponse
	err := i.p.call(ctx, "attach to container "+i.Container, func(ctx context.Context) error {
		attached, err := i.p.client.ContainerAttach(ctx, i.id, client.ContainerAttachOptions{
			Stream: true, Stdout: i.Spec.Stdout != nil, Stderr: i.Spec.Stderr != nil,
		})
		connection = attached.HijackedResponse
		return err
	})
	if err != nil {
		return nil, err
	}
	return &connection, nil
}

// awaitExit asks for the next exit, before the start: the program may be over
// by the time that the start is answered, and the moment of its end counts.
// (Fifty waits at rest did not measurably slow the starts beside them.)
func (i *instance) awaitExit(ctx context.Context) error {
	waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var exited client.ContainerWaitResult
	err := i.p.call(ctx, "wait for container "+i.Container, func(ctx context.Context) error {
		// The request outlives this call, so only its beginning is bounded.
		unbind := context.AfterFunc(ctx, cancel)
		exited = i.p.client.ContainerWait(
			waiting,
			i.id,
			client.ContainerWaitOptions{Condition: container.WaitConditionNextExit},
		)
		if !unbind() {
			return ctx.Err()
		}
		// An error comes at once or with the exit; a refusal is already there.
		select {
		case err := <-exited.Error:
			return err
		default:
			return nil
		}
	})
	if err != nil {
		cancel()
		return err
	}
	// Taken whether or not anybody asks: an answer that nobody takes would keep
	// its connection for ever.
	answered := make(chan engine.Ending, 1)
	go func() {
		select {
		case answer := <-exited.Result:
			e := engine.Ending{Code: int(answer.StatusCode), At: time.Now()}
			if answer.Error != nil {
				e.Err = &engine.Error{Doing: "wait for container " + i.Container, Message: answer.Error.Message}
			}
			answered <- e
		case err := <-exited.Error:
			answered <- i.broke(err)
		}
	}()
	i.Exited, i.StopWaiting = answered, cancel
	return nil
}

// broke is the ending of a program of which the engine tells no more.
func (i *instance) broke(err error) engine.Ending {
	return engine.Ending{At: time.Now(), Err: i.p.explain("wait for container "+i.Container, err)}
}

// locate learns the first process' id and the addresses; a program that has
// ended already has neither.
func (i *instance) locate(ctx context.Context) error {
	return i.p.call(ctx, "inspect container "+i.Container, func(ctx context.Context) error {
		answer, err := i.p.client.ContainerInspect(ctx, i.id, client.ContainerInspectOptions{})
		if err != nil {
			return err
		}
		i.addresses = addresses(i.Spec, answer.Container)
		if state := answer.Container.State; state != nil {
			i.PID = state.Pid
		}
		return nil
	})
}
