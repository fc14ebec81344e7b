package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/api/types/swarm"
	"github.com/moby/moby/client"

	"tare/platform"
	"tare/platform/engine"
)

// looksAtTask is how often a task is looked at until its container runs: a task
// that will never run makes no event, and one that runs makes one.
const looksAtTask = 100 * time.Millisecond

// runService asks for the service and waits until its task's container has been
// started. The container's events are followed from before it is asked for, to
// its end.
func (i *instance) runService(ctx context.Context, spec swarm.ServiceSpec) error {
	following, cancel := context.WithCancel(context.WithoutCancel(ctx))
	i.StopWaiting = cancel
	stream, err := i.events(ctx, following)
	if err != nil {
		return err
	}
	entry := platform.Entry{
		Platform: i.p.name,
		Kind:     kindService,
		ID:       i.Container,
		Attrs:    map[string]string{labelLedger: i.mark},
	}
	serviceID := ""
	err = i.acquire(ctx, entry, func(ctx context.Context) error {
		i.Began = time.Now() // the data is laid out and the ledger written: what follows is the engine's
		err := i.p.call(ctx, "create service "+i.Container, func(ctx context.Context) error {
			answer, err := i.p.client.ServiceCreate(ctx, client.ServiceCreateOptions{Spec: spec})
			serviceID = answer.ID
			return err
		})
		if errdefs.IsConflict(err) || errdefs.IsAlreadyExists(err) {
			return &engine.Error{Doing: "create service " + i.Container, Message: "a service of that name exists already; tare clean removes it if it is tare's, docker service rm if it is yours", Err: err}
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := i.awaitTask(ctx, serviceID, stream); err != nil {
		return err
	}
	ended := make(chan engine.Ending, 1)
	go func() { ended <- i.awaitDeath(stream) }()
	i.Exited = ended
	return nil
}

// events follows what happens to the containers of the instance's mark.
func (i *instance) events(ctx, following context.Context) (stream client.EventsResult, err error) {
	err = i.p.call(ctx, "follow the containers of service "+i.Container, func(ctx context.Context) error {
		// The request outlives this call, so only its beginning is bounded.
		unbind := context.AfterFunc(ctx, i.StopWaiting)
		stream = i.p.client.Events(following, client.EventsListOptions{
			Filters: client.Filters{}.Add("type", string(events.ContainerEventType)).Add("label", labelLedger+"="+i.mark),
		})
		if !unbind() {
			return ctx.Err()
		}
		select {
		case err := <-stream.Err:
			return err
		default:
			return nil
		}
	})
	return stream, err
}

// awaitTask waits until the service's container has been started, or its task
// has failed.
func (i *instance) awaitTask(ctx context.Context, serviceID string, stream client.EventsResult) error {
	doing := "start " + i.Spec.Args[0] + " in a task of service " + i.Container
	look := time.NewTicker(looksAtTask)
	defer look.Stop()
	late := time.NewTimer(i.p.requests.Patience)
	defer late.Stop()
	last := swarm.TaskStatus{State: swarm.TaskStateNew}
	var attached attachment
	settled := false
	defer func() {
		if !settled {
			attached.drop()
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
		case e := <-stream.Messages:
			if e.Action == events.ActionCreate {
				i.id = e.Actor.ID
				i.known(i.id)
				var err error
				if attached, err = i.attachToTask(ctx); err != nil {
					return err
				}
			}
			if e.Action == events.ActionStart && e.Actor.ID == i.id {
				settled = true
				return attached.settle(i, time.Unix(0, e.TimeNano))
			}
		case err := <-stream.Err:
			return i.p.explain(doing, cutOff(err))
		case <-look.C:
			status, known, err := i.p.taskOf(ctx, serviceID)
			if err != nil {
				return err
			}
			if known {
				last = status
			}
			// One whose container has run and ended shows by its events.
			if finished(last.State) && !i.ran(ctx) {
				return &engine.Error{
					Doing:   doing,
					Message: oneLine(errors.New(cmp.Or(last.Err, last.Message, string(last.State)))),
				}
			}
		case <-late.C:
			why := string(last.State)
			if last.Message != "" {
				why += ", " + last.Message
			}
			if last.Err != "" {
				why += ": " + last.Err
			}
			return &engine.Error{Doing: doing, Message: fmt.Sprintf("it has not started for %s, and its task is %s", i.p.requests.Patience, why)}
		}
	}
}

// errLate says that a container was started before its output was attached to.
var errLate = errors.New("its container was started before its output could be attached to")

// attachment is the connection to the output of a container that its task starts,
// of which nothing is read until it is known to have been in time.
type attachment struct {
	connection *client.HijackedResponse // nil where nobody wants the output
	at         time.Time                // when the engine had answered
	early      bool                     // the program had not been executed then
}

// attachToTask attaches to the container that the task is about to start. The
// engine answers at once, or when it has started the container: it does one thing
// after the other.
func (i *instance) attachToTask(ctx context.Context) (a attachment, err error) {
	a.connection, err = i.connect(ctx)
	a.at, a.early = time.Now(), !i.executed()
	return a, err
}

// settle hands the output on, where the container was started after the
// connection stood. Else the error wraps errLate.
func (a attachment) settle(i *instance, started time.Time) error {
	if a.connection == nil {
		return nil
	}
	if !a.early || !started.After(a.at) {
		a.drop()
		return fmt.Errorf("service %s: %w", i.Container, errLate)
	}
	i.handOn(a.connection)
	return nil
}

func (a attachment) drop() {
	if a.connection != nil {
		a.connection.Close()
	}
}

// executed reports whether a process other than the runtime's is in the
// container's cgroup, which the runtime makes before it executes the program.
func (i *instance) executed() bool {
	group, found, err := i.findGroup()
	if err != nil || !found {
		return err != nil
	}
	pids, err := group.Processes()
	if err != nil {
		return true // it may have been, and be over
	}
	return slices.ContainsFunc(pids, func(pid int) bool { return !platform.BeforeProgram(pid, i.runtime()) })
}

// cutOff is the error of a stream that should not have ended.
func cutOff(err error) error {
	if err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}

// finished tells a task that will not run any more.
func finished(s swarm.TaskState) bool {
	switch s {
	case swarm.TaskStateComplete,
		swarm.TaskStateFailed,
		swarm.TaskStateRejected,
		swarm.TaskStateShutdown,
		swarm.TaskStateOrphaned,
		swarm.TaskStateRemove:
		return true
	}
	return false
}

// ran reports whether the container, where there is one, was ever started.
func (i *instance) ran(ctx context.Context) bool {
	if i.id == "" {
		return false
	}
	started := false
	err := i.p.call(ctx, "inspect container "+i.id, func(ctx context.Context) error {
		answer, err := i.p.client.ContainerInspect(ctx, i.id, client.ContainerInspectOptions{})
		if state := answer.Container.State; err == nil && state != nil {
			at, perr := time.Parse(time.RFC3339Nano, state.StartedAt)
			started = perr == nil && at.Year() > 1
		}
		return err
	})
	return err == nil && started
}

// taskOf tells of the service's one task.
func (p *Platform) taskOf(ctx context.Context, serviceID string) (status swarm.TaskStatus, known bool, err error) {
	tasks, err := p.tasks(ctx, serviceID)
	if len(tasks) == 0 {
		return status, false, err
	}
	return tasks[0].Status, true, err
}

// tasks lists what the swarm still has of a service. (The engine's own filter
// refuses a service that is gone, whose tasks may be there still.)
func (p *Platform) tasks(ctx context.Context, serviceID string) ([]swarm.Task, error) {
	var tasks []swarm.Task
	err := p.call(ctx, "list the tasks of service "+serviceID, func(ctx context.Context) error {
		answer, err := p.client.TaskList(ctx, client.TaskListOptions{})
		for _, task := range answer.Items {
			if task.ServiceID == serviceID {
				tasks = append(tasks, task)
			}
		}
		return err
	})
	return tasks, err
}

// awaitDeath gives the exit that the container's events tell of.
func (i *instance) awaitDeath(stream client.EventsResult) engine.Ending {
	for {
		select {
		case e := <-stream.Messages:
			if e.Action != events.ActionDie || e.Actor.ID != i.id {
				continue
			}
			code, err := strconv.Atoi(e.Actor.Attributes["exitCode"])
			if err != nil {
				return i.broke(fmt.Errorf("the engine reports the end of container %s with exit status %q", i.id, e.Actor.Attributes["exitCode"]))
			}
			return engine.Ending{Code: code, At: time.Now()}
		case err := <-stream.Err:
			return i.broke(cutOff(err))
		}
	}
}

// takeTask takes hold of the container that the task has started.
func (i *instance) takeTask(ctx context.Context) (platform.Instance, error) {
	if err := i.locate(ctx); err != nil {
		return nil, err
	}
	if i.Spec.Setting.Network == platform.NetworkNAT {
		if err := i.locateMesh(ctx); err != nil {
			return nil, err
		}
	}
	if err := i.hold(); err != nil {
		return nil, err
	}
	go i.Watch()
	return i, nil
}

// gatewayNetwork is the bridge by which the mesh's packets reach the node's tasks.
const gatewayNetwork = "docker_gwbridge"

// locateMesh learns where the routing mesh has published the ports: on all of the
// node's addresses, of which the one that its own packets leave by is taken.
func (i *instance) locateMesh(ctx context.Context) error {
	return i.p.call(ctx, "find the ports of service "+i.Container, func(ctx context.Context) error {
		answer, err := i.p.client.ServiceInspect(ctx, i.Container, client.ServiceInspectOptions{})
		if err != nil {
			return err
		}
		bridge, err := i.p.client.NetworkInspect(ctx, gatewayNetwork, client.NetworkInspectOptions{})
		if err != nil {
			return err
		}
		on := gatewayOf(bridge.Network)
		if !on.IsValid() {
			return fmt.Errorf("the network %s has no gateway address", gatewayNetwork)
		}
		i.addresses = publishedAt(on, answer.Service.Endpoint.Ports)
		return nil
	})
}

// gatewayOf is a network's gateway, as far as the engine tells one.
func gatewayOf(n network.Inspect) netip.Addr {
	for _, c := range n.IPAM.Config {
		if c.Gateway.Is4() {
			return c.Gateway
		}
	}
	return netip.Addr{}
}
