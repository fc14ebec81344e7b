package bare

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"tare/platform"
	"tare/platform/held"
)

type instance struct {
	running *running
	group   grouping
	things  *held.Things
	data    []string

	ended chan struct{} // closed when the first process has ended
	exit  platform.Exit // to be read after ended
	err   error

	stopping sync.Mutex
}

var _ platform.Freezing = (*instance)(nil)

// follow makes an instance of a program that is executed. Its time counts from there: what was mounted
// before is tare's work, which a program started by hand does not wait for, and not bare metal's.
func follow(r *running, group grouping, things *held.Things, spec platform.Spec) *instance {
	i := &instance{running: r, group: group, things: things, data: spec.Data, ended: make(chan struct{})}
	go func() {
		defer close(i.ended)
		ending, err := r.wait()
		i.exit = platform.Exit{Code: ending.Code, Elapsed: time.Since(r.began), FromExecution: true}
		i.err = errors.Join(err, r.flush())
		killed, err := group.oomKilled(ending.Code)
		i.exit.OOMKilled, i.err = killed, errors.Join(i.err, err)
	}()
	return i
}

func (i *instance) pid() int { return i.running.cmd.Process.Pid }

func (i *instance) Address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func (i *instance) Processes() ([]int, error) {
	pids, err := i.group.own.Processes()
	if err != nil {
		return nil, err
	}
	return platform.FirstFirst(pids, i.pid()), nil
}

func (i *instance) InForce() (platform.InForce, error) { return platform.ReadInForce(i.pid(), i.data) }

func (i *instance) Usage() (platform.Usage, error) {
	used, err := platform.ReadUsage(i.group.own)
	used.CPU = max(0, used.CPU-i.running.stage)
	return used, err
}

func (i *instance) Wait(ctx context.Context) (platform.Exit, error) {
	select {
	case <-i.ended:
		return i.exit, i.err
	case <-ctx.Done():
		return platform.Exit{}, ctx.Err()
	}
}

func (i *instance) Signal(sig int) error {
	if err := i.running.cmd.Process.Signal(syscall.Signal(sig)); err != nil {
		return fmt.Errorf("signal %d to process %d: %w (%w)", sig, i.pid(), platform.ErrGone, err)
	}
	return nil
}

// Freeze implements [platform.Freezing].
func (i *instance) Freeze(ctx context.Context) error {
	if err := i.over(); err != nil {
		return err
	}
	return platform.FreezeGroup(ctx, i.group.own)
}

// Thaw implements [platform.Freezing].
func (i *instance) Thaw(ctx context.Context) error {
	if err := i.over(); err != nil {
		return err
	}
	return i.group.own.Thaw(ctx)
}

// over tells that the first process has ended.
func (i *instance) over() error {
	select {
	case <-i.ended:
		return fmt.Errorf("process %d has ended: %w", i.pid(), platform.ErrGone)
	default:
		return nil
	}
}

func (i *instance) Stop(ctx context.Context) error {
	i.stopping.Lock()
	defer i.stopping.Unlock()
	if err := held.EndProcesses(ctx, i.group.own, i.pid()); err != nil {
		return err
	}
	select {
	case <-i.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	// The writer of the output may have failed: Wait has reported it.
	_ = i.running.close()
	return i.things.Drop(ctx)
}
