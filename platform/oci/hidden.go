package oci

import (
	"context"
	"errors"
	"slices"
	"syscall"

	"tare/kernel/cgroup"
)

// takeHidden moves a container at rest, in a box, into its group of a hierarchy that the
// runtime was not shown: what is read there of the box's classes, such as the time that
// they waited for memory, is to hold it. Outside of a box nothing is read there that
// the other hierarchies do not tell, and the start is not kept waiting.
func (l *launch) takeHidden() error {
	if l.spec.Group == "" || len(l.hidden) == 0 {
		return nil
	}
	if l.init == nil {
		if err := l.openProgram(); err != nil {
			return err
		}
	}
	// By another thread: this one sees what the runtime sees.
	added := make(chan error)
	go func() { added <- l.unseen().Add(l.init.PID) }()
	return <-added
}

// unseen is the container's group in the hierarchies that the runtime was not shown.
func (l *launch) unseen() (g cgroup.Group) {
	for _, p := range l.group.Places {
		if slices.Contains(l.hidden, p.Mount) {
			g.Places = append(g.Places, p)
		}
	}
	return g
}

// gather moves the program's processes into its group of the hierarchies that the runtime
// was not shown. All programs are then frozen by the same freezer, that of version 2.
func (i *instance) gather(ctx context.Context) error {
	if len(i.unseen.Places) == 0 {
		return nil
	}
	moved := i.unseen
	for ctx.Err() == nil {
		pids, err := i.group.Processes()
		if err != nil {
			return err
		}
		there, err := moved.Processes()
		if err != nil {
			return err
		}
		left := slices.DeleteFunc(pids, func(pid int) bool { return slices.Contains(there, pid) })
		if len(left) == 0 {
			i.unseen = cgroup.Group{} // what they start is born there
			return nil
		}
		for _, pid := range left {
			if err := moved.Add(pid); err != nil && !errors.Is(err, syscall.ESRCH) { // it has ended
				return err
			}
		}
	}
	return context.Cause(ctx)
}
