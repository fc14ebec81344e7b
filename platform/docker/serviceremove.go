package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/moby/moby/api/types/swarm"
	"github.com/moby/moby/client"

	"tare/platform"
)

const kindService = "service"

// removalLook is how often is looked whether the orchestrator has let go.
const removalLook = 20 * time.Millisecond

// removeService removes a service of ours, and is back when nothing of it is
// there: neither its containers, which are removed by force, since the
// orchestrator would ask their programs to end first, nor its tasks, of which
// one that was about to start would start after we had looked.
func (p *Platform) removeService(ctx context.Context, name, mark string) error {
	doing := "remove service " + name
	service, err := p.ourService(ctx, name, mark)
	if errors.Is(err, errNoSwarm) {
		return p.removeMarked(ctx, mark) // whose engine has left its swarm: the containers went, or are going
	}
	if err != nil {
		return err
	}
	if service != "" {
		err := p.call(ctx, doing, func(ctx context.Context) error {
			_, err := p.client.ServiceRemove(ctx, service, client.ServiceRemoveOptions{})
			return err
		})
		if err != nil && !gone(err) {
			return err
		}
	}
	if mark == "" {
		return nil
	}
	for until := time.Now().Add(p.requests.Patience); ; {
		if err := p.removeMarked(ctx, mark); err != nil {
			return err
		}
		if service == "" {
			return nil
		}
		tasks, err := p.tasks(ctx, service)
		if err != nil {
			return err
		}
		if len(tasks) == 0 {
			return p.removeMarked(ctx, mark)
		}
		if time.Now().After(until) {
			return fmt.Errorf("%s: %s after its removal its task is still %s: %w", doing, p.requests.Patience, tasks[0].Status.State, platform.ErrGone)
		}
		select {
		case <-time.After(removalLook):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
		}
	}
}

// errNoSwarm says that the engine is in no swarm any more.
var errNoSwarm = errors.New("the engine is in no swarm")

// ourService finds the id of the service; empty where there is none, or where it
// is another's that took the name since.
func (p *Platform) ourService(ctx context.Context, name, mark string) (id string, err error) {
	var found swarm.Service
	inspect := func() error {
		return p.look(ctx, "remove service "+name, func(ctx context.Context) error {
			answer, err := p.client.ServiceInspect(ctx, name, client.ServiceInspectOptions{})
			found = answer.Service
			return err
		})
	}
	err = inspect()
	// As with containers: one that a killed tare had just asked for appears later.
	until := time.Now().Add(stillBeingMade)
	for ; gone(err) && !p.entered(name) && time.Now().Before(until); err = inspect() {
		select {
		case <-time.After(stillBeingMade / 20):
		case <-ctx.Done():
			return "", fmt.Errorf("remove service %s: %w", name, context.Cause(ctx))
		}
	}
	switch {
	case gone(err):
		return "", nil
	case err != nil:
		p.forget()
		if info, ierr := p.engine(ctx); ierr == nil && info.Swarm.LocalNodeState == swarm.LocalNodeStateInactive {
			return "", errNoSwarm
		}
		return "", err
	case mark == "" || found.Spec.Labels[labelLedger] != mark:
		return "", nil
	}
	p.found(name)
	return found.ID, nil
}
