package docker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"tare/platform"
)

// Launch creates, attaches to and starts a container for the program.
func (p *Platform) Launch(ctx context.Context, spec platform.Spec) (_ platform.Instance, err error) {
	if len(spec.Args) == 0 {
		return nil, errors.New("launch: no command given")
	}
	if err := p.Supports(spec.Setting); err != nil {
		return nil, err
	}
	info, err := p.engine(ctx)
	if err != nil {
		return nil, err
	}
	if err := suits(spec.Setting, info); err != nil {
		return nil, err
	}
	publish, err := p.publishOn(ctx, spec.Setting.Network)
	if err != nil {
		return nil, err
	}

	i := newInstance(p, spec, info)
	p.enter(i)
	defer func() {
		if err == nil {
			return
		}
		// The caller's context may be what ended the launch; removal has its own time.
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.patience)
		defer cancel()
		i.hangUp()
		err = errors.Join(err, i.release(cleanup))
		p.leave(i)
	}()
	mounts, err := i.layData(ctx)
	if err != nil {
		return nil, err
	}
	options, err := plan{spec: spec, info: info, name: i.name, mark: i.mark, mounts: mounts, publish: publish}.options()
	if err != nil {
		return nil, err
	}

	if err := i.create(ctx, options); err != nil {
		return nil, err
	}
	if err := i.makeMissing(ctx); err != nil {
		return nil, err
	}
	if err := i.attach(ctx); err != nil {
		return nil, err
	}
	if err := i.awaitExit(ctx); err != nil {
		return nil, err
	}
	err = p.call(ctx, "start "+spec.Args[0]+" in container "+i.name, func(ctx context.Context) error {
		_, err := p.client.ContainerStart(ctx, i.id, client.ContainerStartOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := i.locate(ctx); err != nil {
		return nil, err
	}
	i.mu.Lock()
	i.marks = []string{i.id}
	for _, address := range i.addresses {
		if _, port, err := net.SplitHostPort(address); err == nil && publish.IsValid() {
			i.marks = append(i.marks, port)
		}
	}
	i.mu.Unlock()
	if err := i.hold(); err != nil {
		return nil, err
	}
	if spec.Setting.Network == platform.NetworkProxy && i.process != nil {
		if err := i.proxied(); err != nil {
			return nil, err
		}
	}
	go i.watch()
	return i, nil
}

// newMark makes the label by which a thing of ours is told from one that took
// its name.
func newMark() string {
	var b [8]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b[:])
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

// owned is one thing that Launch made.
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
	entry := platform.Entry{Platform: Name, Kind: kindContainer, ID: i.name, Attrs: map[string]string{labelLedger: i.mark}}
	return i.acquire(ctx, entry, func(ctx context.Context) error {
		i.began = time.Now() // the data is laid out and the ledger written: what follows is the engine's
		err := i.p.call(ctx, "create container "+i.name, func(ctx context.Context) error {
			answer, err := i.p.client.ContainerCreate(ctx, options)
			i.id = answer.ID
			return err
		})
		switch {
		case errdefs.IsConflict(err):
			return &EngineError{Doing: "create container " + i.name, Message: "a container of that name exists already; tare clean removes it if it is tare's, docker rm if it is yours", err: err}
		case gone(err):
			return &EngineError{Doing: "create container " + i.name, Message: "the engine has no image " + i.spec.Image.Reference + "; it was not prepared, or somebody removed it (docker image prune)", err: err}
		}
		return err
	})
}

// attach connects to the program's output before it can write any.
func (i *instance) attach(ctx context.Context) error {
	if i.spec.Stdout == nil && i.spec.Stderr == nil {
		return nil
	}
	return i.p.call(ctx, "attach to container "+i.name, func(ctx context.Context) error {
		attached, err := i.p.client.ContainerAttach(ctx, i.id, client.ContainerAttachOptions{
			Stream: true, Stdout: i.spec.Stdout != nil, Stderr: i.spec.Stderr != nil,
		})
		if err == nil {
			i.output = follow(attached.HijackedResponse, i.spec.Stdout, i.spec.Stderr)
		}
		return err
	})
}

// awaitExit asks for the next exit, before the start: the program may be over
// by the time that the start is answered.
func (i *instance) awaitExit(ctx context.Context) error {
	waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	i.stopWaiting = cancel
	return i.p.call(ctx, "wait for container "+i.name, func(ctx context.Context) error {
		// The request outlives this call, so only its beginning is bounded.
		unbind := context.AfterFunc(ctx, cancel)
		i.exited = i.p.client.ContainerWait(waiting, i.id, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
		if !unbind() {
			return ctx.Err()
		}
		// An error comes at once or with the exit; a refusal is already there.
		select {
		case err := <-i.exited.Error:
			return err
		default:
			return nil
		}
	})
}

// locate learns the first process' id and the addresses; a program that has
// ended already has neither.
func (i *instance) locate(ctx context.Context) error {
	return i.p.call(ctx, "inspect container "+i.name, func(ctx context.Context) error {
		answer, err := i.p.client.ContainerInspect(ctx, i.id, client.ContainerInspectOptions{})
		if err != nil {
			return err
		}
		i.addresses = addresses(i.spec, answer.Container)
		if state := answer.Container.State; state != nil {
			i.pid = state.Pid
		}
		return nil
	})
}
