package oci

import (
	"slices"

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
	unseen := slices.DeleteFunc(slices.Clone(l.group.Places), func(p cgroup.Place) bool { return !slices.Contains(l.hidden, p.Mount) })
	// By another thread: this one sees what the runtime sees.
	added := make(chan error)
	go func() { added <- cgroup.Group{Places: unseen}.Add(l.init.PID) }()
	return <-added
}
