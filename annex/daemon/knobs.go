package daemon

import (
	"context"
	"fmt"
	"sync"
	"time"

	"tare/annex/guard"
)

// knobs is a guard that is started when something is to be changed: an observing daemon
// needs none.
type knobs struct {
	ctx     context.Context
	options guard.Options
	within  time.Duration // a guard has started, or does not

	starting chan struct{} // held by who starts one, or ends it; it guards isClosed
	isClosed bool

	mu    sync.Mutex // never while something is waited for: the status asks
	guard *guard.Guard
	lack  error // why there is no guard process
}

// guardWithin is how long a guard may take to start: another one's that ends has let go of
// the journal by then.
const guardWithin = 10 * time.Second

func newKnobs(ctx context.Context, o guard.Options) *knobs {
	return &knobs{ctx: ctx, options: o, within: guardWithin, starting: make(chan struct{}, 1)}
}

// hold keeps others from starting a guard, or ending it.
func (k *knobs) hold(ctx context.Context) error {
	select {
	case k.starting <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (k *knobs) letGo() { <-k.starting }

// current is the guard; nil where none was started.
func (k *knobs) current() *guard.Guard {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.guard
}

func (k *knobs) set(g *guard.Guard) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.guard = g
}

// attend has another guard process started as soon as one has ended: what is changed would be put
// back by nobody if the daemon were killed then, too.
func (k *knobs) attend(g *guard.Guard) {
	for {
		select {
		case <-k.ctx.Done():
			return
		case <-g.Died():
		}
		if !k.revive(g) {
			return
		}
		if k.lacks() == nil {
			continue
		}
		select {
		case <-k.ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

// revive starts another guard process, and notes what came of it; false where the guard is not in
// use any more.
func (k *knobs) revive(g *guard.Guard) bool {
	if k.hold(k.ctx) != nil {
		return false
	}
	defer k.letGo()
	if k.current() != g {
		return false
	}
	ctx, cancel := context.WithTimeout(k.ctx, k.within)
	defer cancel()
	k.note(g.Revive(ctx))
	return true
}

// note notes why there is no guard process, or that there is one.
func (k *knobs) note(lack error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lack = lack
}

// lacks says why there is no guard process.
func (k *knobs) lacks() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lack
}

// unguarded says what that is to an operator; empty where there is one.
func (k *knobs) unguarded() string {
	lack := k.lacks()
	if lack == nil {
		return ""
	}
	return fmt.Sprintf("the guard process has ended and another does not start, so that settings stay changed should annexd be killed now: %v", lack)
}

// started is the guard, with its process.
func (k *knobs) started(ctx context.Context) (*guard.Guard, error) {
	if g := k.current(); g != nil && g.Alive() == nil {
		return g, nil
	}
	if err := k.hold(ctx); err != nil {
		return nil, fmt.Errorf("waiting for the guard process to start: %w", err)
	}
	defer k.letGo()
	limited, cancel := context.WithTimeout(k.ctx, k.within)
	defer cancel()
	if k.isClosed { // nobody would put back what is changed
		return nil, &guard.Unguarded{Why: "annexd is ending"}
	}
	g := k.current()
	if g == nil {
		g, err := guard.Start(limited, k.options)
		if err != nil {
			return nil, err
		}
		k.set(g)
		go k.attend(g)
		return g, nil
	}
	// One that somebody has ended, or that was stopped and hears nothing, is no guard: without
	// one nothing may be changed.
	err := g.Revive(limited)
	k.note(err)
	if err != nil {
		return nil, err
	}
	return g, nil
}

func (k *knobs) Momentarily(ctx context.Context, file, text string) (guard.Outcome, error) {
	g, err := k.started(ctx)
	if err != nil {
		return guard.Outcome{}, err
	}
	return g.Momentarily(ctx, file, text)
}

func (k *knobs) While(ctx context.Context, file, text string, do func() error) (guard.Outcome, error) {
	g, err := k.started(ctx)
	if err != nil {
		return guard.Outcome{}, err
	}
	return g.While(ctx, file, text, do)
}

func (k *knobs) Keep(ctx context.Context, file, text string) error {
	g, err := k.started(ctx)
	if err != nil {
		return err
	}
	return g.Keep(ctx, file, text)
}

func (k *knobs) Restore(files ...string) ([]guard.Outcome, error) {
	g := k.current()
	if g == nil {
		return nil, nil
	}
	return g.Restore(files...)
}

// close puts everything back. No guard starts any more.
func (k *knobs) close() error {
	k.starting <- struct{}{}
	defer k.letGo()
	k.isClosed = true
	g := k.current()
	if g == nil {
		return nil
	}
	_, err := g.Close()
	k.set(nil)
	return err
}
