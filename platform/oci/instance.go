package oci

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/process"
	"tare/platform"
	"tare/platform/held"
)

type instance struct {
	name    string
	init    process.Identity
	handle  *process.Handle
	group   cgroup.Group
	things  *held.Things
	address string // without a port; empty where clients on the host do not reach it
	data    []string
	flush   func() error
	refuses error // to be frozen

	freezing sync.Mutex
	unseen   cgroup.Group // where its processes are not, as the runtime was not shown it

	ended chan struct{} // closed when the program has ended and is reaped
	exit  platform.Exit // to be read after ended
	err   error

	stopping sync.Mutex
}

var _ platform.Freezing = (*instance)(nil)

// follow makes an instance of a program that runs. Its time counts from the
// runtime's call: what was laid out before is tare's work, not the runtime's.
func (l *launch) follow() *instance {
	stdout, stderr := l.stdout, l.stderr
	i := &instance{
		name:    l.spec.Name,
		init:    l.init.Identity,
		handle:  l.init,
		group:   l.group,
		things:  l.things,
		data:    l.visibleData(),
		unseen:  l.unseen(),
		refuses: platform.CheckRuntimeFreezes(l.Name(), l.runtime),
		flush:   func() error { return errors.Join(stdout.Flush(), stderr.Flush()) },
		ended:   make(chan struct{}),
	}
	if l.address.IsValid() {
		i.address = l.address.String()
	}
	l.init, l.followed = nil, true // reaped and closed here from now on
	go i.reap(l.began)
	return i
}

func (i *instance) reap(began time.Time) {
	defer close(i.ended)
	ending, err := i.handle.Reap(context.Background())
	i.exit = platform.Exit{Code: ending.Code, Elapsed: time.Since(began)}
	killed, reading := platform.OOMKilled(i.group)
	i.exit.OOMKilled = killed
	i.err = errors.Join(err, i.flush(), reading)
}

// Address is empty without a network that the host is joined to.
func (i *instance) Address(port int) string {
	if i.address == "" {
		return ""
	}
	return net.JoinHostPort(i.address, strconv.Itoa(port))
}

func (i *instance) Processes() ([]int, error) {
	pids, err := i.group.Processes()
	if err != nil {
		return nil, err
	}
	return platform.FirstFirst(pids, i.init.PID), nil
}

// InForce tells of the program's process; of a sandbox, of the sandbox's.
func (i *instance) InForce() (platform.InForce, error) {
	return platform.ReadInForce(i.init.PID, i.data)
}

func (i *instance) Usage() (platform.Usage, error) { return platform.ReadUsage(i.group) }

func (i *instance) Wait(ctx context.Context) (platform.Exit, error) {
	select {
	case <-i.ended:
		return i.exit, i.err
	case <-ctx.Done():
		return platform.Exit{}, ctx.Err()
	}
}

func (i *instance) Signal(sig int) error {
	if err := i.over(); err != nil {
		return fmt.Errorf("signal %d to %s: %w", sig, i.name, err)
	}
	err := i.handle.Signal(sig)
	if errors.Is(err, process.ErrGone) || errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("signal %d to %s: %w", sig, i.name, platform.ErrGone)
	}
	return err
}

// Freeze implements [platform.Freezing].
func (i *instance) Freeze(ctx context.Context) error {
	if err := i.freezes(); err != nil {
		return err
	}
	i.freezing.Lock()
	defer i.freezing.Unlock()
	if err := i.gather(ctx); err != nil {
		return fmt.Errorf("freeze %s: %w", i.name, err)
	}
	return platform.FreezeGroup(ctx, i.group)
}

// Thaw implements [platform.Freezing].
func (i *instance) Thaw(ctx context.Context) error {
	if err := i.freezes(); err != nil {
		return err
	}
	return i.group.Thaw(ctx)
}

// freezes refuses where nothing of it can be frozen.
func (i *instance) freezes() error {
	if err := i.refuses; err != nil {
		return err
	}
	if err := i.over(); err != nil {
		return fmt.Errorf("%s has ended: %w", i.name, err)
	}
	return nil
}

// over is ErrGone where the program has ended.
func (i *instance) over() error {
	select {
	case <-i.ended:
		return platform.ErrGone
	default:
		return nil
	}
}

func (i *instance) Stop(ctx context.Context) error {
	i.stopping.Lock()
	defer i.stopping.Unlock()
	if err := held.EndProcesses(ctx, i.group, i.init.PID); err != nil {
		return err
	}
	select {
	case <-i.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	_ = i.handle.Close() // an earlier Stop may have
	return i.things.Drop(ctx)
}

// visibleData are the data directories that the host's kernel can tell of:
// those inside a sandbox are mounted by the kernel inside.
func (l *launch) visibleData() []string {
	if l.sandboxed() {
		return nil
	}
	return l.spec.Data
}
