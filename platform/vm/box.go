package vm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"tare/platform"
)

var _ platform.Boxing = (*Platform)(nil)

// Box implements [platform.Boxing]: the box is made in a machine, which it has for itself,
// and in which all of its programs run, several at a time. A box that is a machine
// ([platform.BoxMachine]) has the memory that the path says, and the guest's own reclaimer
// (kswapd). Swap files lie on the machine's scratch disk.
func (p *Platform) Box(ctx context.Context, spec platform.BoxSpec) (_ platform.Box, err error) {
	s, err := p.boxShape(spec)
	if err != nil {
		return nil, err
	}
	l, err := p.pool.acquire(ctx, wanted{shape: s, box: spec.Name})
	if err != nil {
		return nil, missing(err)
	}
	inside, err := l.client.Box(ctx, spec)
	if err != nil {
		p.pool.unbox(l.machine)
		l.release(ctx)
		return nil, l.ended(err)
	}
	return &box{inside: inside, lease: l, spec: spec}, nil
}

// boxShape is the machine that a box is made in.
func (p *Platform) boxShape(spec platform.BoxSpec) (shape, error) {
	refuse := func(reason string) (shape, error) {
		return shape{}, &platform.Unsupported{Platform: p.Name(), Key: "box=" + string(spec.Kind), Reason: reason}
	}
	if err := (platform.Spec{Group: spec.Name}).CheckGroup(); err != nil {
		return shape{}, err
	}
	if spec.Kind == platform.BoxMachine && p.name.Memory == 0 {
		return refuse("the machine's memory is the box's, and the path does not say it: vm:" + string(p.name.Engine) + "+memory=1g/" + p.name.Inner)
	}
	plan, err := p.plan(platform.Setting{})
	if err != nil {
		return shape{}, err
	}
	if spec.Kind != platform.BoxGroup {
		return plan.shape, nil
	}
	need := roundUp(spec.Memory + reserve)
	if p.name.Memory > 0 && p.name.Memory < need {
		return refuse(fmt.Sprintf("the machine has %s, and its kernel and agent need %s beside the box's %s", size(p.name.Memory), size(reserve), size(spec.Memory&^(1<<20-1))))
	}
	plan.shape.memory = max(plan.shape.memory, need)
	h, err := p.pool.host()
	if err != nil {
		return shape{}, err
	}
	return plan.shape, p.name.fits(plan.shape, h)
}

// planIn is the plan of a program in a box's machine: the machine is there, and all of the
// setting is the inner platform's.
func (p *Platform) planIn(s shape, setting platform.Setting) (plan, error) {
	h, err := p.pool.host()
	if err != nil {
		return plan{}, err
	}
	n := p.name
	n.CPUs, n.Memory = s.cpus, s.memory
	planned, err := n.plan(setting, h)
	if refused := new(platform.Unsupported); errors.As(err, &refused) {
		refused.Platform = p.Name()
	}
	return planned, err
}

// place gives the machine that a program is to run in, and what its setting comes to there.
func (p *Platform) place(ctx context.Context, spec platform.Spec) (*lease, plan, error) {
	if spec.Group == "" {
		plan, err := p.plan(spec.Setting)
		if err != nil {
			return nil, plan, err
		}
		l, err := p.pool.acquire(ctx, wanted{shape: plan.shape, pin: plan.pin})
		return l, plan, missing(err)
	}
	if err := spec.CheckGroup(); err != nil {
		return nil, plan{}, err
	}
	name, _, _ := strings.Cut(spec.Group, "/")
	l, err := p.pool.boxed(ctx, name)
	if err != nil {
		return nil, plan{}, err
	}
	if l == nil || l.shape.engine != p.name.Engine {
		if l != nil {
			l.release(ctx)
		}
		return nil, plan{}, &platform.BadGroup{Group: spec.Group, Why: "no box of that name is in a machine of " + p.name.machine() + ": make it first, and launch before it is removed"}
	}
	plan, err := p.planIn(l.shape, spec.Setting)
	if err != nil {
		l.release(ctx)
	}
	return l, plan, err
}

// boxed gives the machine of a box, with one more user; nil where there is none.
func (p *Pool) boxed(ctx context.Context, box string) (*lease, error) {
	p.mu.Lock()
	var found *machine
	for _, m := range p.all {
		if m.box == box && !m.engine.child.over() {
			found = m
			m.users++
			m.used = time.Now()
		}
	}
	p.mu.Unlock()
	if found == nil {
		return nil, nil
	}
	l := &lease{machine: found}
	if err := found.wake(ctx, nil); err != nil {
		l.release(ctx)
		return nil, err
	}
	return l, nil
}

// unbox gives a machine to all again.
func (p *Pool) unbox(m *machine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.box = ""
}

// box is one in a machine, which goes on as long as the box is there.
type box struct {
	inside platform.Box
	lease  *lease
	spec   platform.BoxSpec

	removing sync.Mutex
	removed  bool
}

// Group implements [platform.Box].
func (b *box) Group(c platform.Class) string { return b.inside.Group(c) }

// hostCache is what is to be known of a swap file in a machine.
const hostCache = "the machine's disk is a file on the host, and what the guest swaps out passes through the host's page cache: the host's own disk may be slower than it looks"

// Read implements [platform.Box]. Its time is the host's, as the other readings' are.
func (b *box) Read(ctx context.Context) (platform.BoxReading, error) {
	reading, err := b.inside.Read(ctx)
	if danger := new(platform.Endangered); err != nil && !errors.As(err, &danger) {
		return reading, b.lease.ended(err)
	}
	if turn := b.lease.enter(ctx); turn != nil {
		return reading, turn
	}
	reading.At = reading.At.Add(-b.lease.boot.Clock.Offset)
	b.lease.leave()
	if b.spec.Swap == platform.SwapFile || b.spec.Swap == platform.SwapZswap {
		reading.Notes = append(reading.Notes, hostCache)
	}
	return reading, err
}

// Remove implements [platform.Box]. The machine stays, for whoever is next.
func (b *box) Remove(ctx context.Context) error {
	b.removing.Lock()
	defer b.removing.Unlock()
	if b.removed {
		return nil
	}
	if err := stopInside(ctx, b.lease, b.inside.Remove); err != nil {
		return err
	}
	b.removed = true
	b.lease.pool.unbox(b.lease.machine)
	b.lease.release(ctx)
	return nil
}
