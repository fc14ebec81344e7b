package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"tare/annex/config"
	"tare/container"
	"tare/kernel/cgroup"
)

// unused says why a rule decides of no container that runs.
func unused(c config.Config, rule int, found []container.Container, layout cgroup.Layout) string {
	r := c.Rules[rule]
	for _, one := range found {
		if !r.Fits(one) {
			continue
		}
		by := c.Decides(one)
		return fmt.Sprintf("rule %d (%s) comes first and fits %s too: put the narrower rule first", by+1, c.Rules[by].Class, one.Name)
	}
	if r.Cgroup == "" {
		return "no container that runs has such a " + wanted(r)
	}
	looked, other := []cgroup.Hierarchy{}, []cgroup.Hierarchy{}
	for _, h := range layout.Hierarchies {
		if h.Version == 2 || h.Has("memory") {
			looked = append(looked, h)
		} else {
			other = append(other, h)
		}
	}
	if dir := fitting(r, looked); dir != "" {
		return ofGroup(r, dir)
	}
	if dir := fitting(r, other); dir != "" {
		return fmt.Sprintf("%s is in a hierarchy without memory: give the path of its group in that of the memory controller, or in version 2", dir)
	}
	return "there is no control group of such a path (systemd-cgls shows them)"
}

// wanted are the patterns of a rule that has no cgroup.
func wanted(r config.Rule) string {
	var all []string
	for _, k := range []struct{ name, pattern string }{{"image", r.Image}, {"label", r.Label}, {"name", r.Name}} {
		if k.pattern != "" {
			all = append(all, k.name)
		}
	}
	return strings.Join(all, " and ")
}

// fitting is the first group of some hierarchies that a rule's cgroup fits; empty is none. What cannot be
// listed is not known to fit.
func fitting(r config.Rule, in []cgroup.Hierarchy) (first string) {
	for _, h := range in {
		_ = descend(h.Mount, r, func(string) {}, func(dir string) bool {
			if first == "" {
				first = dir
			}
			return false
		})
	}
	return first
}

// ofGroup says why a group that a rule fits is no container of it.
func ofGroup(r config.Rule, dir string) string {
	kind, _ := os.ReadFile(filepath.Join(dir, "cgroup.type")) // version 1 has none
	switch strings.TrimSpace(string(kind)) {
	case "threaded", "domain invalid":
		return fmt.Sprintf("%s is a threaded group, whose memory counts for a group above it: name that one", dir)
	}
	if others := wanted(r); others != "" {
		return fmt.Sprintf("%s fits, but what runs there has another %s", dir, others)
	}
	pids, err := (container.Container{Engine: container.Cgroup, Name: dir, Cgroup: dir}).Processes()
	if err == nil && len(pids) == 0 {
		return "nothing runs in " + dir
	}
	return fmt.Sprintf("what runs in %s is annexd itself, or in another container", dir)
}
