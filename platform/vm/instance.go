package vm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	"tare/platform"
	"tare/probe/causes"
)

// resting is a container at rest in a machine, and then its program: the steps of its
// life, whose order package held keeps. Once it is stopped its machine may be paused,
// and nothing in it would answer.
type resting struct {
	inside platform.Created
	lease  *lease
	plan   plan
	spec   platform.Spec // as the inner platform has it

	cleared bool
}

func (r *resting) start(ctx context.Context) error { return r.lease.ended(r.inside.Start(ctx)) }

func (r *resting) hold(ctx context.Context) (platform.Instance, error) {
	inst, err := r.inside.Instance(ctx)
	if err != nil {
		return nil, r.lease.ended(err)
	}
	inside, ok := inst.(interface {
		platform.Watching
		platform.Apart
	})
	if !ok {
		return nil, fmt.Errorf("the agent's instance is a %T, which is none of another machine's", inst)
	}
	i := &instance{inside: inside, lease: r.lease, plan: r.plan, spec: r.spec, ended: make(chan struct{})}
	go i.follow()
	return i, nil
}

func (r *resting) clear(ctx context.Context) error {
	if r.cleared {
		return nil
	}
	if err := stopInside(ctx, r.lease, r.inside.Stop); err != nil {
		return err
	}
	r.cleared = true
	r.lease.release(ctx)
	return nil
}

// stopInside stops what is in a machine. With a machine that has ended, all in it has,
// too: what is left to wait for is that nothing of the machine is left.
func stopInside(ctx context.Context, l *lease, stop func(context.Context) error) error {
	err := l.machine.ended(stop(ctx))
	if err == nil || !l.engine.child.over() {
		return err
	}
	select {
	case <-l.gone:
		return l.ending
	case <-ctx.Done():
		return ctx.Err()
	}
}

// instance is one program in a machine.
type instance struct {
	inside interface {
		platform.Watching
		platform.Apart
	}
	lease *lease
	plan  plan
	spec  platform.Spec

	ended chan struct{} // closed when the program has ended, as the agent reported
	exit  platform.Exit // to be read after ended
	err   error

	stopping sync.Mutex
	state    sync.Mutex
	stopped  bool
}

var (
	_ platform.Watching = (*instance)(nil)
	_ platform.Apart    = (*instance)(nil)
)

// follow takes the program's end as soon as it comes: the machine may be paused later,
// when nobody in it can tell.
func (i *instance) follow() {
	defer close(i.ended)
	i.exit, i.err = i.inside.Wait(context.Background())
	i.err = i.lease.machine.ended(i.err)
}

// gone is the error of what is asked of a program that was stopped.
func (i *instance) gone() error {
	i.state.Lock()
	defer i.state.Unlock()
	if i.stopped {
		return fmt.Errorf("%s: %w", i.spec.Name, platform.ErrGone)
	}
	return nil
}

// Machine implements [platform.Apart].
func (i *instance) Machine() string { return i.inside.Machine() }

// Address is the guest's own, where the program has the guest's network and the host
// reaches it; else that of a forward through the agent.
func (i *instance) Address(port int) string {
	network := i.spec.Setting.Network
	if i.lease.address.IsValid() && (network == "" || network == platform.NetworkHost) {
		return net.JoinHostPort(i.lease.address.String(), strconv.Itoa(port))
	}
	if network == platform.NetworkNone || i.gone() != nil {
		return ""
	}
	return i.inside.Address(port)
}

// Processes lists the guest's ids.
func (i *instance) Processes() ([]int, error) {
	if err := i.gone(); err != nil {
		return nil, err
	}
	pids, err := i.inside.Processes()
	return pids, i.lease.machine.ended(err)
}

// InForce is the inner platform's, but for what the machine itself grants: where its CPUs
// are held to the host's, those, as the host's kernel has them; and its memory where that
// is the limit.
func (i *instance) InForce() (platform.InForce, error) {
	if err := i.gone(); err != nil {
		return platform.InForce{}, err
	}
	force, err := i.inside.InForce()
	if err != nil {
		return force, i.lease.machine.ended(err)
	}
	if i.plan.granted > 0 {
		force.Memory = i.plan.granted
	}
	cpus, err := i.lease.mayRun(context.Background())
	if err != nil {
		return platform.InForce{}, err
	}
	if len(i.plan.pin) > 0 {
		force.CPUSet = platform.FormatCPUList(cpus)
		return force, nil
	}
	if h, err := thisHost(); err != nil || len(cpus) != len(h.cpus) {
		return platform.InForce{}, errors.Join(err, fmt.Errorf("the machine's CPUs are to roam over %v, and the kernel holds them to %v", h.cpus, cpus))
	}
	return force, nil
}

func (i *instance) Usage() (platform.Usage, error) {
	if err := i.gone(); err != nil {
		return platform.Usage{}, err
	}
	usage, err := i.inside.Usage()
	return usage, i.lease.machine.ended(err)
}

func (i *instance) Wait(ctx context.Context) (platform.Exit, error) {
	select {
	case <-i.ended:
		return i.exit, i.err
	default:
	}
	select {
	case <-i.ended:
		return i.exit, i.err
	case <-ctx.Done():
		return platform.Exit{}, ctx.Err()
	}
}

func (i *instance) Signal(sig int) error {
	if err := i.gone(); err != nil {
		return err
	}
	return i.lease.machine.ended(i.inside.Signal(sig))
}

// Watch implements [platform.Watching].
func (i *instance) Watch(ctx context.Context, o causes.Options) (platform.Watch, error) {
	if err := i.gone(); err != nil {
		return nil, err
	}
	w, err := i.inside.Watch(ctx, o)
	return w, i.lease.machine.ended(err)
}

// Stop ends the program and gives its machine back.
func (i *instance) Stop(ctx context.Context) error {
	i.stopping.Lock()
	defer i.stopping.Unlock()
	if i.gone() != nil {
		return nil
	}
	if err := stopInside(ctx, i.lease, i.inside.Stop); err != nil {
		return err
	}
	select {
	case <-i.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	i.state.Lock()
	i.stopped = true
	i.state.Unlock()
	i.lease.release(ctx)
	return nil
}
