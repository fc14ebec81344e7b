package agent_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"tare/image"
	"tare/platform"
)

// fake is a platform whose programs do nothing until they are stopped, and whose calls
// can be held up. It counts what there is.
type fake struct {
	mu      sync.Mutex
	there   int
	entered chan string              // the calls that are held up, as they begin
	hold    map[string]chan struct{} // by call: until it is closed or the call's context ends
	print   func(spec platform.Spec) // of the program, in a goroutine of its own
}

func newFake(held ...string) *fake {
	f := &fake{entered: make(chan string, 64), hold: map[string]chan struct{}{}}
	for _, call := range held {
		f.hold[call] = make(chan struct{})
	}
	return f
}

// reach is where each call begins.
func (f *fake) reach(ctx context.Context, call string) error {
	held, ok := f.hold[call]
	if !ok {
		return nil
	}
	f.entered <- call
	select {
	case <-held:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fake) add(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.there += n
}

func (f *fake) left() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.there
}

func (f *fake) Name() string                      { return "fake" }
func (f *fake) Version(context.Context) string    { return "fake 1" }
func (f *fake) Check(ctx context.Context) error   { return f.reach(ctx, "check") }
func (f *fake) Supports(s platform.Setting) error { return nil }
func (f *fake) Release(ctx context.Context) error { return f.reach(ctx, "release") }
func (f *fake) Remove(ctx context.Context, e platform.Entry) error {
	return f.reach(ctx, "remove")
}
func (f *fake) Prepare(ctx context.Context, img image.Image) error { return f.reach(ctx, "prepare") }

func (f *fake) Launch(ctx context.Context, spec platform.Spec) (platform.Instance, error) {
	if err := f.reach(ctx, "launch"); err != nil {
		return nil, err
	}
	return f.run(spec), nil
}

func (f *fake) run(spec platform.Spec) *program {
	f.add(1)
	p := &program{of: f, spec: spec, ended: make(chan struct{})}
	if f.print != nil {
		go f.print(spec)
	}
	return p
}

// creator is a fake that creates, too.
type creator struct{ *fake }

func (c creator) Create(ctx context.Context, spec platform.Spec) (platform.Created, error) {
	if err := c.reach(ctx, "create"); err != nil {
		return nil, err
	}
	c.add(1)
	return &atRest{of: c.fake, spec: spec}, nil
}

type atRest struct {
	of   *fake
	spec platform.Spec

	mu      sync.Mutex
	stopped bool
	inst    *program
}

func (a *atRest) ID() string                      { return "id-" + a.spec.Name }
func (a *atRest) Start(ctx context.Context) error { return a.of.reach(ctx, "start") }
func (a *atRest) Instance(ctx context.Context) (platform.Instance, error) {
	if err := a.of.reach(ctx, "hold"); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inst = a.of.run(a.spec)
	a.of.add(-1)
	a.stopped = true
	return a.inst, nil
}
func (a *atRest) Stop(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.inst != nil {
		return a.inst.Stop(ctx)
	}
	if !a.stopped {
		a.stopped = true
		a.of.add(-1)
	}
	return nil
}

type program struct {
	of   *fake
	spec platform.Spec

	once  sync.Once
	ended chan struct{}
}

func (p *program) Address(port int) string            { return fmt.Sprintf("127.0.0.1:%d", port) }
func (p *program) Processes() ([]int, error)          { return []int{1}, nil }
func (p *program) InForce() (platform.InForce, error) { return platform.InForce{CPUSet: "0"}, nil }
func (p *program) Usage() (platform.Usage, error)     { return platform.Usage{MemoryPeak: 7}, nil }
func (p *program) Signal(sig int) error               { return errors.New("no signals") }
func (p *program) Stop(ctx context.Context) error {
	p.once.Do(func() { close(p.ended); p.of.add(-1) })
	return nil
}
func (p *program) Wait(ctx context.Context) (platform.Exit, error) {
	if _, held := p.of.hold["wait"]; held {
		p.of.entered <- "wait"
	}
	select {
	case <-p.ended:
		return platform.Exit{Code: 137}, nil
	case <-ctx.Done():
		return platform.Exit{}, ctx.Err()
	}
}
