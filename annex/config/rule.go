package config

import (
	"slices"
	"strings"

	"tare/annex"
	"tare/container"
)

// Class is a container's: that of the rule that decides, and Ignored where none does.
func (c Config) Class(of container.Container) annex.Class {
	if i := c.Decides(of); i < len(c.Rules) {
		return c.Rules[i].Class
	}
	return annex.Ignored
}

// Decides is which rule gives a container its class: the first that fits. Where none does it is
// behind the last.
func (c Config) Decides(of container.Container) (rule int) {
	if i := slices.IndexFunc(c.Rules, func(r Rule) bool { return r.Fits(of) }); i >= 0 {
		return i
	}
	return len(c.Rules)
}

// Fits tells whether every pattern that the rule has fits a container. One without any
// fits nothing. Name, label and image of a container that an ordinary user may have chosen
// prove nothing, or he could have himself protected by them: what fits it is a rule alone that
// says, by its cgroup, where the container lies.
func (r Rule) Fits(c container.Container) bool {
	if r.Name == "" && r.Label == "" && r.Image == "" && r.Cgroup == "" {
		return false
	}
	if c.Unprivileged && r.Cgroup == "" {
		return false
	}
	return (r.Name == "" || fits(r.Name, strings.TrimPrefix(c.Name, "/"))) &&
		(r.Image == "" || fits(r.Image, c.Image)) &&
		(r.Label == "" || fitsLabel(r.Label, c.Labels)) &&
		(r.Cgroup == "" || r.FitsGroup(c.Cgroup) || slices.ContainsFunc(c.Groups, r.FitsGroup))
}

// FitsGroup tells whether the rule's cgroup fits a control group, by its directory.
func (r Rule) FitsGroup(directory string) bool {
	return slices.ContainsFunc(groupNames(directory), func(name string) bool { return fits(r.Cgroup, name) })
}

// MayFitBelow tells whether the rule's cgroup may fit a control group that lies below another.
func (r Rule) MayFitBelow(directory string) bool {
	return slices.ContainsFunc(groupNames(directory), func(name string) bool { return begins(r.Cgroup, name+"/") })
}

// Pattern is what has to fit, as a configuration has it: `name = "web-*", cgroup = "/batch/*"`.
func (r Rule) Pattern() string {
	var all []string
	for _, k := range ruleKeys {
		if v := k.get(&r); v != "" && k.name != "class" {
			all = append(all, k.name+" = "+v)
		}
	}
	return strings.Join(all, ", ")
}

func fitsLabel(pattern string, labels map[string]string) bool {
	name, value, wants := strings.Cut(pattern, "=")
	has, ok := labels[name]
	return ok && (!wants || fits(value, has))
}

// groupsMount is where control groups are mounted, by common consent (file-hierarchy(7)).
const groupsMount = "/sys/fs/cgroup"

// hierarchies are directories below groupsMount that are hierarchies and not groups: those of
// version 1 that a container's group is found in, and version 2 beside it.
var hierarchies = []string{"memory", "unified", "freezer", "pids", "systemd", "cpu,cpuacct", "cpu", "cpuset", "blkio", "devices"}

// groupNames are those by which a group may be meant: its directory, and its path below the
// hierarchy's root.
func groupNames(directory string) []string {
	if directory == "" {
		return nil
	}
	names := []string{directory}
	below, ok := strings.CutPrefix(directory, groupsMount+"/")
	if !ok {
		return names
	}
	if head, rest, _ := strings.Cut(below, "/"); slices.Contains(hierarchies, head) {
		return append(names, "/"+rest)
	}
	return append(names, "/"+below)
}
