package k8s

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/netns"
	"tare/kernel/process"
	"tare/kernel/procfs"
	"tare/platform"
	"tare/platform/engine"
)

// instance is one started pod. It implements [platform.Instance].
type instance struct {
	*engine.Program
	l       *launch
	group   cgroup.Group // the container's
	address string       // the pod's, or the node's

	stop    sync.Mutex
	stopped bool
}

var (
	_ platform.Freezing  = (*instance)(nil)
	_ platform.Attending = (*instance)(nil)
	_ platform.Phased    = created{}
)

// hold takes hold of the started program.
func (l *launch) hold(ctx context.Context) (platform.Instance, error) {
	i := &instance{Program: engine.NewProgram(l.engine.Requests(), l.spec, l.spec.Name), l: l}
	_, program, _ := l.pod.state()
	i.PID, i.Began, i.Exited, i.NotedOOM = program.pid, l.starting, l.pod.ended, l.pod.wasOOMKilled
	i.Output = l.output
	l.instance = i
	if err := i.open(); err != nil {
		return nil, err
	}
	if i.Process != nil {
		if err := platform.AwaitProgram(ctx, i.PID, "runc"); err != nil {
			return nil, err
		}
		if err := i.findAddress(); err != nil {
			return nil, err
		}
	}
	go i.Watch()
	return i, nil
}

// findAddress finds the pod's. A program that has ended is in no network any more.
func (i *instance) findAddress() error {
	if i.Spec.Setting.Network != platform.NetworkBridge {
		i.address = loopback
		return nil
	}
	addresses, err := netns.Addresses(procfs.Host.Process(i.PID).Path("ns/net"))
	if procfs.Gone(err) {
		return nil
	}
	if len(addresses) > 0 {
		i.address = addresses[0].String()
	}
	return err
}

// open takes hold of the first process. One that has ended is no error.
func (i *instance) open() error {
	doing := fmt.Sprintf("follow %s in pod %s", i.Spec.Args[0], i.Container)
	identity, err := process.Identify(i.PID)
	if procfs.Gone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	handle, err := identity.Open()
	if errors.Is(err, process.ErrGone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	group, err := groupOf(i.PID, i.l.uid)
	if err != nil || len(group.Places) == 0 {
		return handle.Close()
	}
	i.Process, i.group, i.Account = handle, group, account{engine.GroupAccount{Group: group}}
	return nil
}

// groupOf is the group of a process in those hierarchies in which it is one of the pod's. It has
// none where another process has the id by now.
func groupOf(pid int, uid string) (cgroup.Group, error) {
	group, err := platform.OwnGroup(pid)
	group.Places = slices.DeleteFunc(group.Places, func(p cgroup.Place) bool { return !strings.Contains(p.Path, uid) })
	return group, err
}

// account is that of the container's group, and in the end the pod's, since the CRI plugin removes
// the container's at once. The pod's includes the sandbox's process, which sleeps.
type account struct{ engine.GroupAccount }

// LastUsage implements [engine.Account].
func (a account) LastUsage() (platform.Usage, bool, error) {
	usage, oomKilled, err := a.GroupAccount.LastUsage()
	if err == nil {
		return usage, oomKilled, nil
	}
	pod := engine.GroupAccount{Group: a.Group}
	pod.Places = slices.Clone(a.Places)
	for i := range pod.Places {
		pod.Places[i].Path = path.Dir(pod.Places[i].Path)
	}
	return pod.LastUsage()
}

// Address implements [platform.Instance].
func (i *instance) Address(port int) string {
	if i.address == "" {
		return ""
	}
	if s := i.l.ways.service; s != nil {
		place := slices.Index(i.Spec.Ports, port)
		if place < 0 {
			return ""
		}
		return s.at(place)
	}
	if published, ok := i.l.ways.published[port]; ok {
		port = published
	}
	return net.JoinHostPort(i.address, strconv.Itoa(port))
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

// Freeze implements [platform.Freezing].
func (i *instance) Freeze(ctx context.Context) error { return i.Program.Freeze(ctx, i.group) }

// Thaw implements [platform.Freezing].
func (i *instance) Thaw(ctx context.Context) error { return i.Program.Thaw(ctx, i.group) }

// Attendants implements [platform.Attending]: the kubelet, containerd and the pod's shim.
func (i *instance) Attendants() (time.Duration, error) {
	return i.Attend(func() ([]int, error) {
		sandbox, _, _ := i.l.pod.state()
		pids, err := i.l.engine.Serving(context.Background(), sandbox.id)
		return append(pids, i.l.node.process.PID), err
	})
}

// Stop implements [platform.Instance]. The program is killed whether or not the kubelet works.
func (i *instance) Stop(ctx context.Context) error {
	i.stop.Lock()
	defer i.stop.Unlock()
	if i.stopped {
		return nil
	}
	i.Stopping()
	if i.Process != nil {
		if err := i.Process.Signal(int(syscall.SIGKILL)); err != nil && !errors.Is(err, process.ErrGone) {
			return fmt.Errorf("kill %s in pod %s: %w", i.Spec.Args[0], i.Container, err)
		}
	}
	// Version 1's freezer keeps what was killed from dying.
	if err := i.group.Thaw(ctx); err != nil {
		return fmt.Errorf("stop pod %s: %w", i.Container, err)
	}
	if err := i.AwaitEnd(ctx); err != nil {
		return fmt.Errorf("stop pod %s: %w", i.Container, err)
	}
	if err := i.l.clear(ctx); err != nil {
		return err
	}
	i.stopped = true
	return nil
}
