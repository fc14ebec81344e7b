package docker

import (
	"context"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"

	"tare/kernel/accounting"
	"tare/platform"
)

var (
	_ platform.Freezer   = (*Platform)(nil)
	_ platform.Freezer   = (*Swarm)(nil)
	_ platform.Freezing  = (*instance)(nil)
	_ platform.Attending = (*instance)(nil)
)

// Freezes implements [platform.Freezer].
func (p *Platform) Freezes(ctx context.Context, s platform.Setting) error {
	if p.clientErr != nil {
		return p.Check(ctx)
	}
	info, err := p.engine(ctx)
	if err != nil {
		return p.missing(err)
	}
	if err := p.freezesBy(info, s); err != nil {
		return err
	}
	return platform.CheckFreezer()
}

// freezesBy refuses what an engine has that cannot be frozen.
func (p *Platform) freezesBy(info *system.Info, s platform.Setting) error {
	if groupless(info) {
		return p.freezesNothing()
	}
	runtime := s.Runtime
	if runtime == "" {
		runtime = info.DefaultRuntime
	}
	for _, name := range []string{runtime, info.Runtimes[runtime].Path} {
		if err := platform.CheckRuntimeFreezes(p.name, name); err != nil {
			return err
		}
	}
	return nil
}

func (p *Platform) freezesNothing() error {
	return p.unsupported("freezing", "the engine has no control groups (cgroup driver none), by which programs are frozen")
}

// Freezes implements [platform.Freezer].
func (s *Swarm) Freezes(context.Context, platform.Setting) error {
	return s.engine.unsupported("freezing", "the swarm keeps a service's tasks, and may put another container in the place of one at any time; docker has it")
}

// Freeze implements [platform.Freezing].
func (i *instance) Freeze(ctx context.Context) error {
	if err := i.freezes(); err != nil {
		return err
	}
	return i.Program.Freeze(ctx, i.group)
}

// Thaw implements [platform.Freezing].
func (i *instance) Thaw(ctx context.Context) error {
	if err := i.freezes(); err != nil {
		return err
	}
	return i.Program.Thaw(ctx, i.group)
}

// freezes refuses what cannot be frozen.
func (i *instance) freezes() error {
	if i.p.name == NameSwarm {
		return (&Swarm{i.p}).Freezes(context.Background(), i.Spec.Setting)
	}
	return i.p.freezesBy(i.info, i.Spec.Setting)
}

// thaw lets a container run that was frozen behind the engine's back: version 1's freezer
// would keep its processes from dying.
func thaw(ctx context.Context, c container.InspectResponse) error {
	if c.State == nil || c.State.Pid <= 0 {
		return nil
	}
	group, err := platform.OwnGroup(c.State.Pid)
	if err != nil {
		return nil // it has ended
	}
	// The id may have gone to another process by now.
	return containersOwn(group, c.ID).Thaw(ctx)
}

// Attendants implements [platform.Attending]: the engine's daemons, the container's shim and
// the proxies of its ports. Daemons serve all containers.
func (i *instance) Attendants() (time.Duration, error) {
	return i.Attend(func() ([]int, error) {
		all, err := accounting.Take("/proc")
		return i.p.servants(all, i.words()), err
	})
}
