package bound

import (
	"fmt"

	"tare/annex"
	"tare/container"
	"tare/kernel/pressure"
)

// NoPressure says why a container's pressure is not reported.
type NoPressure struct {
	Name, Why string
	Mend      string
}

func (n *NoPressure) Error() string {
	return fmt.Sprintf("no pressure is told of container %s: %s: %s", n.Name, n.Why, n.Mend)
}

// Pressure is for how long a container's tasks have waited for memory. The error is a
// [*NoPressure], a [*pressure.Off] or a [*pressure.NoGroup] where that is not reported.
func (b *Bound) Pressure(c container.Container) (annex.Pressure, error) {
	source, err := b.source(c)
	if err != nil {
		return annex.Pressure{}, err
	}
	s, err := source.Read()
	return annex.Pressure{At: b.now(), Some: s.Some.Total, Full: s.Full.Total}, err
}

// source is where a container's pressure is reported: its place in the version 2 hierarchy.
func (b *Bound) source(c container.Container) (pressure.Source, error) {
	if _, ok := b.layout.Unified(); !ok {
		return pressure.Source{}, &NoPressure{c.Name, "there is no hierarchy of version 2", "mount -t cgroup2 none /sys/fs/cgroup/unified, and start the container anew"}
	}
	g, err := b.Place(c)
	if err != nil {
		return pressure.Source{}, err
	}
	dir, ok := g.Unified()
	if !ok {
		return pressure.Source{}, &NoPressure{c.Name, "in the hierarchy of version 2 its processes are in the root, with everybody's", "have its engine make groups there too, or put its processes into one"}
	}
	return pressure.Group(dir, pressure.Memory), nil
}
