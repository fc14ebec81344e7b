package startup

import (
	"context"
	"fmt"
	"sync"
	"time"

	"tare/platform"
	"tare/workload"
)

// fakePlatform creates containers that start as its function says.
type fakePlatform struct {
	platform.Platform // nil: what is not overridden is not called
	start             func(ctx context.Context, n int) error
	create            func(n int) error

	mu       sync.Mutex
	created  int
	standing map[int]bool // created and not stopped
	most     int          // standing at once
}

func (p *fakePlatform) Name() string { return "fake" }

func (p *fakePlatform) Create(_ context.Context, spec platform.Spec) (platform.Created, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.created
	p.created++
	if p.create != nil {
		if err := p.create(n); err != nil {
			return nil, err
		}
	}
	if p.standing == nil {
		p.standing = map[int]bool{}
	}
	p.standing[n] = true
	p.most = max(p.most, len(p.standing))
	return &fakeContainer{p: p, n: n, name: spec.Name}, nil
}

func (p *fakePlatform) left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.standing)
}

type fakeContainer struct {
	p    *fakePlatform
	n    int
	name string
}

func (c *fakeContainer) ID() string { return c.name }

func (c *fakeContainer) Start(ctx context.Context) error { return c.p.start(ctx, c.n) }

func (c *fakeContainer) Instance(context.Context) (platform.Instance, error) {
	return &fakeInstance{c: c}, nil
}

type fakeInstance struct {
	platform.Instance // nil likewise
	c                 *fakeContainer
}

func (i *fakeInstance) Processes() ([]int, error) { return []int{1000 + i.c.n}, nil }

// Address has the number by which starts fail: two containers are made at a time, and their names may come in another order.
func (i *fakeInstance) Address(port int) string { return fmt.Sprintf("fake-%d:%d", i.c.n, port) }

func (c *fakeContainer) Stop(context.Context) error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	delete(c.p.standing, c.n)
	return nil
}

// fakeWorkload is a service whose readiness is a function's.
type fakeWorkload struct {
	workload.Workload
	ready func(ctx context.Context, t workload.Trial) error
}

func (w fakeWorkload) Name() string { return "fake" }

func (w fakeWorkload) Params() []workload.Param { return nil }

func (w fakeWorkload) Program(workload.Params) (workload.Program, error) {
	return workload.Program{Args: []string{"/serve"}, Ports: []int{80}, Service: true}, nil
}

func (w fakeWorkload) Source() workload.Source { return workload.Source{Recipe: "fake"} }

func (w fakeWorkload) Ready(ctx context.Context, t workload.Trial) error { return w.ready(ctx, t) }

func readyAtOnce(context.Context, workload.Trial) error { return nil }

// serial is a start that takes its turn: a platform of a known capacity.
func serial(each time.Duration) func(context.Context, int) error {
	turn := make(chan struct{}, 1)
	return func(ctx context.Context, _ int) error {
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-turn }()
		select {
		case <-time.After(each):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
