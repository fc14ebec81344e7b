package causes

import (
	"errors"
	"path"
	"path/filepath"
	"strings"

	"tare/kernel/cgroup"
)

// errNoQuota says that there is nothing that a quota could be set on.
var errNoQuota = errors.New("the target has no control group of its own in the hierarchy that has the cpu controller: run it in one")

// quotaGroup finds the target's group in the hierarchy with the cpu controller.
func quotaGroup(t Target) (cgroup.Group, error) {
	layout, err := cgroup.Host()
	if err != nil {
		return cgroup.Group{}, err
	}
	h, ok := layout.For("cpu")
	if !ok {
		return cgroup.Group{}, errors.New("no hierarchy of control groups has the cpu controller (CONFIG_CFS_BANDWIDTH)")
	}
	only := cgroup.Layout{Hierarchies: []cgroup.Hierarchy{h}}
	if name, ok := pathOf(layout, t.Cgroup); ok {
		// Who makes groups gives them the same path everywhere.
		if g := only.At(name); name != "/" && g.Exists() {
			return g, nil
		}
	}
	pids := t.PIDs
	if t.Cgroup != "" {
		if listed, err := processesOf(layout, t.Cgroup); err == nil && len(listed) > 0 {
			pids = listed
		}
	}
	if len(pids) == 0 {
		return cgroup.Group{}, errNoQuota
	}
	g, _, err := only.Of(pids[0])
	if err != nil {
		return cgroup.Group{}, err
	}
	if p, ok := g.For("cpu"); !ok || p.Path == "/" {
		return cgroup.Group{}, errNoQuota
	}
	return g, nil
}

// pathOf is a group's within its hierarchy.
func pathOf(layout cgroup.Layout, dir string) (string, bool) {
	if dir == "" {
		return "", false
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", false
	}
	best, found := "", false
	longest := -1
	for _, h := range layout.Hierarchies {
		rest, ok := strings.CutPrefix(real, h.Mount)
		if ok && (rest == "" || rest[0] == '/') && len(h.Mount) > longest {
			best, found, longest = path.Join("/", h.Root, rest), true, len(h.Mount)
		}
	}
	return best, found
}

// processesOf lists who is in a group of any hierarchy.
func processesOf(layout cgroup.Layout, dir string) ([]int, error) {
	name, ok := pathOf(layout, dir)
	if !ok {
		return nil, errNoQuota
	}
	for _, h := range layout.Hierarchies {
		if real, err := filepath.EvalSymlinks(dir); err == nil && strings.HasPrefix(real, h.Mount+"/") {
			return cgroup.Layout{Hierarchies: []cgroup.Hierarchy{h}}.At(name).Processes()
		}
	}
	return nil, errNoQuota
}
