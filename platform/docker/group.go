package docker

import (
	"context"

	"github.com/moby/moby/api/types/system"

	"tare/kernel/cgroup"
	"tare/platform"
)

var (
	_ platform.Grouping = (*Platform)(nil)
	_ platform.Grouping = (*Swarm)(nil)
)

// Groups implements [platform.Grouping].
func (p *Platform) Groups(ctx context.Context) error {
	info, err := p.engine(ctx)
	if err != nil {
		return err
	}
	return p.groups(info)
}

// groups refuses what cannot put a container into a group that others made.
func (p *Platform) groups(info *system.Info) error {
	switch {
	case p.name == NameRootless:
		return p.unsupported("box", "the rootless engine's containers are below its user's own control group, or in none; docker has them in the box's")
	case groupless(info):
		return p.unsupported("box", "the engine has no control groups (cgroup driver none)")
	case info.CgroupDriver == "systemd":
		return p.unsupported("box", "the engine's cgroup driver is systemd, which takes slices of its own and no other group; start it with --exec-opt native.cgroupdriver=cgroupfs, or use containerd or oci")
	}
	return nil
}

// Groups implements [platform.Grouping].
func (s *Swarm) Groups(context.Context) error {
	return s.engine.unsupported("box", "a service cannot name a control group: its tasks are where the engine puts its own; docker has them in the box's")
}

// findGroup refuses a group that the engine has no use for, or that is not there: the
// engine would make it, and never remove it.
func (p *Platform) findGroup(spec platform.Spec, info *system.Info) error {
	if spec.Group == "" {
		return nil
	}
	if err := p.groups(info); err != nil {
		return err
	}
	layout, err := cgroup.Host()
	if err != nil {
		return err
	}
	return spec.FindGroup(layout)
}
