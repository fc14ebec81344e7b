package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"tare/kernel/cgroup"
	"tare/kernel/process"
	"tare/kernel/procfs"
	"tare/platform"
	"tare/platform/engine"
)

// instance is one container, from its making to its end. It implements
// [platform.Instance] from when it has been taken hold of.
type instance struct {
	*engine.Program
	p       *Platform
	program platform.Process
	info    *system.Info
	mark    string // labelLedger

	// Set by the steps from Create to Instance, one after the other.
	id        string
	rested    time.Time // since when it lay at rest
	group     cgroup.Group
	addresses map[int]string

	releasing sync.Mutex
	mu        sync.Mutex
	owned     []owned
	marks     []string // words that name the instance in the engine's command lines
}

func newInstance(p *Platform, spec platform.Spec, program platform.Process, info *system.Info) *instance {
	i := &instance{
		Program: engine.NewProgram(&p.requests, spec, "tare-"+spec.Name),
		p:       p, program: program, info: info, mark: engine.NewMark(),
	}
	i.AwaitProgram = func() { _ = platform.AwaitProgram(context.Background(), i.PID, i.runtime()) }
	i.RecordedExit, i.NotedOOM = i.recordedExit, i.notedOOM
	return i
}

// hold takes hold of the first process, so that its end is known from the
// kernel and its counters can be read at that moment: the engine removes the
// cgroup some milliseconds later. A program that has ended already is no error.
func (i *instance) hold() error {
	if i.PID <= 0 {
		return nil
	}
	identity, err := process.Identify(i.PID)
	if procfs.Gone(err) {
		return nil
	}
	var handle *process.Handle
	if err == nil {
		handle, err = identity.Open()
	}
	if errors.Is(err, process.ErrGone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("follow %s in container %s: %w", i.Spec.Args[0], i.Container, err)
	}
	if groupless(i.info) {
		return i.holdGroupless(handle)
	}
	group, err := platform.OwnGroup(i.PID)
	if err == nil && i.names(group) {
		group = containersOwn(group, i.id)
		i.Process, i.Account, i.group = handle, engine.GroupAccount{Group: group}, group
		return nil
	}
	handle.Close()
	if errors.Is(err, platform.ErrGone) || !identity.Alive() {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("process %d, which the engine named, is not in its cgroup; the engine runs on another machine, or in a container", i.PID)
	}
	return err
}

// containersOwn is the container's own group, of that of a process in it. An ending process leaves one
// hierarchy after the other for its root, whose account is the whole host's. And crun puts podman's programs
// into a group below the container's, in which nothing counts their memory.
func containersOwn(group cgroup.Group, id string) (own cgroup.Group) {
	for _, p := range group.Places {
		before, after, found := strings.Cut(p.Path, id)
		if !found {
			continue
		}
		rest, _, _ := strings.Cut(after, "/") // such as .scope
		p.Path = before + id + rest
		own.Places = append(own.Places, p)
	}
	return own
}

// names reports whether the cgroup is the container's: the id may have gone to
// another process, or belong to another machine's.
func (i *instance) names(group cgroup.Group) bool {
	for _, place := range group.Places {
		if strings.Contains(place.Path, i.id) {
			return true
		}
	}
	return false
}

// Address implements [platform.Instance]. It is empty where nothing on the
// host reaches the port.
func (i *instance) Address(port int) string { return i.addresses[port] }

// runtime is the file that the container's runtime runs from.
func (i *instance) runtime() string {
	name := cmp.Or(i.Spec.Setting.Runtime, i.info.DefaultRuntime)
	return cmp.Or(i.info.Runtimes[name].Path, name)
}

// Signal implements [platform.Instance].
func (i *instance) Signal(sig int) error {
	err := i.p.call(context.Background(), "signal container "+i.Container, func(ctx context.Context) error {
		_, err := i.p.client.ContainerKill(ctx, i.id, client.ContainerKillOptions{Signal: strconv.Itoa(sig)})
		return err
	})
	// Engines say "is not running" in classes of their own.
	if err != nil && (errdefs.IsConflict(err) || gone(err) || !i.Runs()) {
		return i.Ended()
	}
	return err
}

// Stop implements [platform.Instance]. With the engine gone it kills the
// program itself; what the engine keeps of the container stays in the ledger,
// and the error says so.
func (i *instance) Stop(ctx context.Context) error {
	i.Stopping()
	err := i.remove(ctx)
	if ending := i.AwaitEnd(ctx); ending != nil {
		return errors.Join(err, fmt.Errorf("stop container %s: %w", i.Container, ending))
	}
	i.HangUp()
	if err != nil {
		return i.leftovers(err)
	}
	i.p.leave(i)
	return nil
}

func (i *instance) leftovers(err error) error {
	return fmt.Errorf("stop container %s (tare clean removes what is left of it): %w", i.Container, err)
}

// remove releases everything, and ends the program where the engine does not;
// before it is asked, where it did not answer before.
func (i *instance) remove(ctx context.Context) error {
	if i.p.requests.Lost.Load() {
		_ = i.endProgram(ctx) // tried again where it counts
	}
	err := i.release(ctx)
	if err != nil {
		err = errors.Join(err, i.endProgram(ctx))
	}
	return err
}

// endProgram ends the program without the engine: whatever that says, or does
// not say any more, the program does not go on. Nor does it where the caller's
// time is over: what has been killed is gone in a moment.
func (i *instance) endProgram(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), i.p.requests.Brief)
	defer cancel()
	if i.Process != nil {
		err := i.Process.Signal(int(syscall.SIGKILL))
		if errors.Is(err, process.ErrGone) || errors.Is(err, os.ErrClosed) {
			return nil
		}
		return errors.Join(err, i.group.Thaw(ctx))
	}
	if i.id == "" {
		return nil
	}
	// The engine has not named its process, but its shim names the id.
	if has(i.info, "rootless") {
		var errs []error
		for _, pid := range kept(i.p.user(), i.id) {
			if identity, err := process.Identify(pid); err == nil {
				errs = append(errs, identity.Kill(ctx))
			}
		}
		return errors.Join(errs...)
	}
	// Or its cgroup does.
	group, found, err := i.findGroup()
	if err != nil || !found {
		return err // none where nothing was started
	}
	return group.Kill(ctx)
}

// findGroup finds the container's cgroup by the id in its name.
func (i *instance) findGroup() (group cgroup.Group, found bool, err error) {
	layout, err := cgroup.Host()
	if err != nil {
		return group, false, err
	}
	parent := layout.At(i.p.parent(i.info))
	for _, place := range parent.Places {
		groups, _ := os.ReadDir(place.Dir())
		for _, g := range groups {
			if g.IsDir() && isContainers(g.Name(), i.id) {
				return parent.Child(g.Name()), true, nil
			}
		}
	}
	return group, false, nil
}

// isContainers tells whether a group of that name is the container's own: podman has its keeper's
// beside it, libpod-conmon-ID.scope.
func isContainers(name, id string) bool {
	before, _, found := strings.Cut(name, id)
	return found && !strings.HasSuffix(before, "conmon-")
}

// recordedExit asks the engine for the exit status that it has on record.
func (i *instance) recordedExit() (code int, known bool) {
	err := i.p.look(context.Background(), "inspect container "+i.Container, func(ctx context.Context) error {
		answer, err := i.p.client.ContainerInspect(ctx, i.id, client.ContainerInspectOptions{})
		if state := answer.Container.State; err == nil && state != nil && state.Status == container.StateExited {
			code, known = state.ExitCode, true
		}
		return err
	})
	return code, known && err == nil
}

// notedOOM asks the engine whether memory ended the program.
func (i *instance) notedOOM() (killed bool) {
	err := i.p.call(context.Background(), "inspect container "+i.Container, func(ctx context.Context) error {
		answer, err := i.p.client.ContainerInspect(ctx, i.id, client.ContainerInspectOptions{})
		if err == nil && answer.Container.State != nil {
			killed = answer.Container.State.OOMKilled
		}
		return err
	})
	return err == nil && killed
}
