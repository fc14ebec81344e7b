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

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs/pkg/errgrpc"

	"tare/kernel/cgroup"
	"tare/kernel/process"
	"tare/kernel/procfs"
	"tare/platform"
	"tare/platform/ocispec"
)

// instance is one started container. It implements [platform.Instance].
type instance struct {
	l           *launch
	pid         int
	process     *process.Handle // nil where the program had ended before we looked
	group       cgroup.Group    // in those hierarchies in which the runtime made it
	stopWaiting context.CancelFunc

	over    chan struct{} // closed when exit and exitErr stand
	exit    platform.Exit
	exitErr error

	stopping sync.Mutex
	stopped  bool
	begun    chan struct{} // closed when Stop has begun
	once     sync.Once

	mu        sync.Mutex
	last      *platform.Usage // read when the program ended, its cgroup still being there
	oomKilled bool            // likewise

	attending  sync.Mutex
	attendants *process.Meter // nil until somebody asks
}

// hold takes hold of the started program.
func (l *launch) hold(ctx context.Context) (platform.Instance, error) {
	i := &instance{l: l, pid: int(l.task.Pid()), group: l.group, over: make(chan struct{}), begun: make(chan struct{})}
	i.group.Places = slices.DeleteFunc(slices.Clone(l.group.Places), func(p cgroup.Place) bool {
		info, err := os.Stat(p.Dir())
		return err != nil || !info.IsDir()
	})
	l.instance = i
	if err := i.open(); err != nil {
		return nil, err
	}
	if err := i.verify(); err != nil {
		return nil, err
	}
	if i.process != nil {
		if err := platform.AwaitProgram(ctx, i.pid, l.runtime.binary); err != nil {
			return nil, err
		}
	}
	waiting, cancel := context.WithCancel(namespaces.WithNamespace(context.WithoutCancel(ctx), namespace))
	exited, err := l.task.Wait(waiting)
	if err != nil {
		cancel()
		return nil, l.p.explain("wait for container "+l.spec.Name, err)
	}
	i.stopWaiting = cancel
	go i.watch(exited)
	return i, nil
}

// open takes hold of the first process, so that its end is known from the
// kernel too. One that has ended is no error: its shim has reaped it.
func (i *instance) open() error {
	identity, err := process.Identify(i.pid)
	if procfs.Gone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("follow %s in container %s: %w", i.l.spec.Args[0], i.l.spec.Name, err)
	}
	handle, err := identity.Open()
	if errors.Is(err, process.ErrGone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("follow %s in container %s: %w", i.l.spec.Args[0], i.l.spec.Name, err)
	}
	// Another process may have the id by now; ours is in the container's group.
	if members, err := i.group.Processes(); err == nil && slices.Contains(members, i.pid) {
		i.process = handle
		return nil
	}
	return handle.Close()
}

// verify holds the group to the setting: the runtime may know a limit less than
// the specification.
func (i *instance) verify() error {
	if len(i.group.Places) == 0 {
		return fmt.Errorf("%s has not made the cgroup %s that it was told to", i.l.runtime, i.l.group)
	}
	got, err := i.group.Own()
	if err != nil {
		return err
	}
	if diff := ocispec.Limits(i.l.spec.Setting).Missing(got); diff != "" {
		return fmt.Errorf("%s has not put the setting in force: %s", i.l.runtime, diff)
	}
	return nil
}

// alive reports whether the process runs: a zombie does not, and one that
// took its id since is another.
func alive(id process.Identity) bool {
	stat, err := procfs.Host.Process(id.PID).Stat()
	return err == nil && !stat.Zombie() && stat.StartTicks == id.StartTicks
}

func (i *instance) ended() error {
	return fmt.Errorf("%s in container %s has ended: %w", i.l.spec.Args[0], i.l.spec.Name, platform.ErrGone)
}

// Address implements [platform.Instance]. It is empty without a network that
// the host is joined to.
func (i *instance) Address(port int) string {
	if !i.l.network.Address.IsValid() {
		return ""
	}
	return net.JoinHostPort(i.l.network.Address.String(), strconv.Itoa(port))
}

// Processes implements [platform.Instance].
func (i *instance) Processes() ([]int, error) {
	if i.process == nil || !alive(i.process.Identity) {
		return nil, i.ended()
	}
	pids, err := i.group.Processes()
	if err != nil {
		return nil, fmt.Errorf("list the processes of container %s: %w", i.l.spec.Name, err)
	}
	if at := slices.Index(pids, i.pid); at > 0 {
		pids = slices.Insert(slices.Delete(pids, at, at+1), 0, i.pid)
	}
	return pids, nil
}

// InForce implements [platform.Instance]. Of a program that has ended the
// error wraps [platform.ErrGone].
func (i *instance) InForce() (platform.InForce, error) {
	if i.process == nil {
		return platform.InForce{}, i.ended()
	}
	force, err := platform.ReadInForce(i.pid, i.l.spec.Data)
	// The id named our process all along only if that lives still.
	if !alive(i.process.Identity) {
		return platform.InForce{}, i.ended()
	}
	return force, err
}

// Usage implements [platform.Instance]. After the program's end it is what had
// been used then.
func (i *instance) Usage() (platform.Usage, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.last != nil {
		return *i.last, nil
	}
	return platform.ReadUsage(i.group)
}

// Wait implements [platform.Instance]. All output has been handed on when it
// returns.
func (i *instance) Wait(ctx context.Context) (platform.Exit, error) {
	select {
	case <-i.over:
		return i.exit, i.exitErr
	default:
	}
	select {
	case <-i.over:
		return i.exit, i.exitErr
	case <-ctx.Done():
		return platform.Exit{}, fmt.Errorf("wait for container %s: %w", i.l.spec.Name, context.Cause(ctx))
	}
}

// Signal implements [platform.Instance].
func (i *instance) Signal(sig int) error {
	if i.process == nil || !alive(i.process.Identity) {
		return i.ended()
	}
	err := i.process.Signal(sig)
	if errors.Is(err, process.ErrGone) {
		return i.ended()
	}
	return err
}

// kill signals the program, if it is there; it needs no containerd.
func (i *instance) kill(sig syscall.Signal) error {
	if i.process == nil {
		return nil
	}
	if err := i.process.Signal(int(sig)); err != nil && !errors.Is(err, process.ErrGone) {
		return err
	}
	return nil
}

// Stop implements [platform.Instance]. The program is killed whether or not
// containerd answers; what that then keeps of the container stays in the
// ledger, and the error says so.
func (i *instance) Stop(ctx context.Context) error {
	i.stopping.Lock()
	defer i.stopping.Unlock()
	if i.stopped {
		return nil
	}
	i.once.Do(func() { close(i.begun) })
	if err := i.kill(syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %s in container %s: %w", i.l.spec.Args[0], i.l.spec.Name, err)
	}
	// Version 1's freezer keeps what was killed from dying.
	if err := i.group.Thaw(ctx); err != nil {
		return fmt.Errorf("stop container %s: %w", i.l.spec.Name, err)
	}
	// Before the task is deleted, since its exit is told only while it is there.
	select {
	case <-i.over:
	case <-ctx.Done():
		return fmt.Errorf("stop container %s: %w", i.l.spec.Name, context.Cause(ctx))
	}
	if err := i.l.clear(ctx); err != nil {
		return err
	}
	i.stopped = true
	return nil
}

// hangUp lets go of what hold took hold of.
func (i *instance) hangUp() {
	if i.stopWaiting != nil {
		i.stopWaiting()
	}
	if i.process != nil {
		_ = i.process.Close()
	}
	i.attending.Lock()
	defer i.attending.Unlock()
	if i.attendants != nil {
		i.attendants.Close()
	}
}

// watch stands from the start to the end of the program.
func (i *instance) watch(exited <-chan client.ExitStatus) {
	defer close(i.over)
	ended := make(chan struct{})
	go i.lastWords(ended)
	status, end, err := i.awaitStatus(exited, ended)
	if errors.Is(err, platform.ErrGone) {
		i.l.p.lost.Store(true)
	}
	i.exit.Elapsed = i.l.making + end.Sub(i.l.starting)
	if err == nil {
		<-ended // the counters stand
		i.exit.Code = int(status.ExitCode())
		i.exit.OOMKilled = i.killedForMemory()
		err = i.awaitOutput()
	}
	i.exitErr = err
}

func (i *instance) killedForMemory() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.oomKilled
}

// lastWords reads the counters when the first process has ended. By then the
// kernel has killed all others of its pid namespace, so they are final; the
// group is there until the task is deleted.
func (i *instance) lastWords(ended chan<- struct{}) {
	defer close(ended)
	if i.process != nil {
		if err := i.process.Await(context.Background()); err != nil {
			return
		}
	}
	usage, err := platform.ReadUsage(i.group)
	if err != nil {
		return // somebody else has removed the group
	}
	oom, err := platform.OOMKilled(i.group)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.last, i.oomKilled = &usage, err == nil && oom
}

// awaitStatus waits for containerd to tell the exit, and says when it was. A
// containerd that dies is noticed by its connection, one that hangs by its
// silence after the program's end.
func (i *instance) awaitStatus(exited <-chan client.ExitStatus, ended <-chan struct{}) (client.ExitStatus, time.Time, error) {
	doing := "wait for container " + i.l.spec.Name
	begun := i.begun
	var overdue <-chan time.Time
	for {
		select {
		case status := <-exited:
			now := time.Now()
			if err := status.Error(); err != nil {
				return status, now, i.l.p.explain(doing, errgrpc.ToNative(err)) // which the client leaves to us here
			}
			// What had ended before we looked, ended when the shim says.
			if told := status.ExitTime(); i.process == nil && told.After(i.l.starting) && told.Before(now) {
				now = told
			}
			return status, now, nil
		case <-ended:
			ended, overdue = nil, time.After(i.answerIn())
		case <-begun:
			if begun = nil; overdue == nil || i.l.p.lost.Load() {
				overdue = time.After(i.answerIn())
			}
		case <-overdue:
			return client.ExitStatus{}, time.Now(), i.l.p.silent(doing, i.answerIn())
		}
	}
}

// answerIn is how long containerd may take to tell of the program's end.
func (i *instance) answerIn() time.Duration {
	select {
	case <-i.begun:
		return i.l.p.removalPatience()
	default:
		return i.l.p.patience
	}
}

// awaitOutput waits until the streams have been handed on to their end. A
// process that was left behind outside the pid namespace could hold them open.
func (i *instance) awaitOutput() error {
	if i.l.output == nil {
		return nil
	}
	late := time.NewTimer(i.l.p.patience)
	defer late.Stop()
	select {
	case <-i.l.output.done:
		return i.l.output.err()
	case <-late.C:
		return fmt.Errorf("the output of container %s has not ended %s after the program: %w", i.l.spec.Name, i.l.p.patience, platform.ErrGone)
	}
}
