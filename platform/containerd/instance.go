package containerd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs/pkg/errgrpc"

	"tare/kernel/cgroup"
	"tare/kernel/process"
	"tare/kernel/procfs"
	"tare/platform"
	"tare/platform/engine"
)

// instance is one started container. It implements [platform.Instance].
type instance struct {
	*engine.Program
	l     *launch
	group cgroup.Group // in those hierarchies in which the runtime made it

	stop    sync.Mutex
	stopped bool
}

// hold takes hold of the started program.
func (l *launch) hold(ctx context.Context) (platform.Instance, error) {
	i := &instance{Program: engine.NewProgram(&l.p.requests, l.spec, l.spec.Name), l: l, group: l.group}
	i.group.Places = slices.DeleteFunc(slices.Clone(l.group.Places), func(p cgroup.Place) bool {
		info, err := os.Stat(p.Dir())
		return err != nil || !info.IsDir()
	})
	i.PID, i.Account, i.Output = int(l.task.Pid()), engine.GroupAccount{Group: i.group}, l.output
	i.Began = l.starting.Add(-l.making)
	l.instance = i
	if err := i.open(); err != nil {
		return nil, err
	}
	if err := i.verify(); err != nil {
		return nil, err
	}
	if i.Process != nil {
		if err := platform.AwaitProgram(ctx, i.PID, l.runtime.binary); err != nil {
			return nil, err
		}
	}
	if err := i.awaitExit(ctx); err != nil {
		return nil, err
	}
	go i.Watch()
	return i, nil
}

// awaitExit asks for the program's exit.
func (i *instance) awaitExit(ctx context.Context) error {
	doing := "wait for container " + i.Container
	waiting, cancel := context.WithCancel(namespaces.WithNamespace(context.WithoutCancel(ctx), namespace))
	exited, err := i.l.task.Wait(waiting)
	if err != nil {
		cancel()
		return i.l.p.explain(doing, err)
	}
	endings := make(chan engine.Ending, 1)
	go func() {
		status := <-exited
		e := engine.Ending{Code: int(status.ExitCode()), At: time.Now()}
		if err := status.Error(); err != nil {
			e.Err = i.l.p.explain(doing, errgrpc.ToNative(err)) // which the client leaves to us here
		} else if at := status.ExitTime(); i.Process == nil && at.After(i.l.starting) && at.Before(e.At) {
			e.At = at // what had ended before we looked, ended when the shim says
		}
		endings <- e
	}()
	i.Exited, i.StopWaiting = endings, cancel
	return nil
}

// open takes hold of the first process, so that its end is known from the
// kernel too. One that has ended is no error: its shim has reaped it.
func (i *instance) open() error {
	identity, err := process.Identify(i.PID)
	if procfs.Gone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("follow %s in container %s: %w", i.Spec.Args[0], i.Container, err)
	}
	handle, err := identity.Open()
	if errors.Is(err, process.ErrGone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("follow %s in container %s: %w", i.Spec.Args[0], i.Container, err)
	}
	// Another process may have the id by now; ours is in the container's group.
	if members, err := i.group.Processes(); err == nil && slices.Contains(members, i.PID) {
		i.Process = handle
		return nil
	}
	return handle.Close()
}

// verify holds the group to the setting: the runtime may know a limit less than
// the specification.
func (i *instance) verify() error {
	if len(i.group.Places) == 0 {
		return fmt.Errorf("%s has not made the cgroup %s that it was asked for", i.l.runtime, i.l.group)
	}
	got, err := i.group.Own()
	if err != nil {
		return err
	}
	if diff := i.Spec.Setting.Limits().Missing(got); diff != "" {
		return fmt.Errorf("%s has not put the setting in force: %s", i.l.runtime, diff)
	}
	return nil
}

// Address implements [platform.Instance]. It is empty without a network that
// the host is joined to.
func (i *instance) Address(port int) string {
	if !i.l.network.Address.IsValid() {
		return ""
	}
	return net.JoinHostPort(i.l.network.Address.String(), strconv.Itoa(port))
}

// Signal implements [platform.Instance].
func (i *instance) Signal(sig int) error {
	if !i.Runs() {
		return i.Ended()
	}
	err := i.Process.Signal(sig)
	if errors.Is(err, process.ErrGone) {
		return i.Ended()
	}
	return err
}

// kill signals the program, if it is there; it needs no containerd.
func (i *instance) kill(sig syscall.Signal) error {
	if i.Process == nil {
		return nil
	}
	if err := i.Process.Signal(int(sig)); err != nil && !errors.Is(err, process.ErrGone) {
		return err
	}
	return nil
}

// Stop implements [platform.Instance]. The program is killed whether or not
// containerd answers; what that then keeps of the container stays in the
// ledger, and the error says so.
func (i *instance) Stop(ctx context.Context) error {
	i.stop.Lock()
	defer i.stop.Unlock()
	if i.stopped {
		return nil
	}
	i.Stopping()
	if err := i.kill(syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %s in container %s: %w", i.Spec.Args[0], i.Container, err)
	}
	// Version 1's freezer keeps what was killed from dying.
	if err := i.group.Thaw(ctx); err != nil {
		return fmt.Errorf("stop container %s: %w", i.Container, err)
	}
	// Before the task is deleted, since its exit is reported only while it is there.
	if err := i.AwaitEnd(ctx); err != nil {
		return fmt.Errorf("stop container %s: %w", i.Container, err)
	}
	if err := i.l.clear(ctx); err != nil {
		return err
	}
	i.stopped = true
	return nil
}
