package container

import (
	"path"
	"strings"

	"tare/kernel/cgroup"
)

// OwnGroup keeps of a process' groups those that are the container's alone: whose
// path is named for it, or is that of the group it was found by. What is below
// was made inside the container.
func (c Container) OwnGroup(in cgroup.Group, layout cgroup.Layout) cgroup.Group {
	var found string
	for _, h := range layout.Hierarchies {
		if rest, ok := strings.CutPrefix(c.Cgroup, h.Mount+"/"); ok {
			found = path.Join("/", h.Root, rest)
		}
	}
	var g cgroup.Group
	for _, p := range in.Places {
		if found != "" && (p.Path == found || strings.HasPrefix(p.Path, found+"/")) {
			p.Path = found
			g.Places = append(g.Places, p)
			continue
		}
		// By systemd's driver and by the plain one, hierarchies have other paths.
		if owner, ok := ParsePath(p.Path); ok && owner.ID == c.ID {
			p.Path = owner.Path
			g.Places = append(g.Places, p)
		}
	}
	return g
}
