package config

import (
	"slices"
	"strings"

	"tare/annex"
	"tare/container"
)

// Class is a container's: that of the first rule that fits, and Ignored where none does.
func (c Config) Class(of container.Container) annex.Class {
	for _, r := range c.Rules {
		if r.Fits(of) {
			return r.Class
		}
	}
	return annex.Ignored
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
	return (r.Name == "" || glob(r.Name, strings.TrimPrefix(c.Name, "/"))) &&
		(r.Image == "" || glob(r.Image, c.Image)) &&
		(r.Label == "" || fitsLabel(r.Label, c.Labels)) &&
		(r.Cgroup == "" || slices.ContainsFunc(groupNames(c.Cgroup), func(name string) bool { return glob(r.Cgroup, name) }))
}

func fitsLabel(pattern string, labels map[string]string) bool {
	name, value, wants := strings.Cut(pattern, "=")
	has, ok := labels[name]
	return ok && (!wants || glob(value, has))
}

// mount is where control groups are mounted, by common consent (file-hierarchy(7)).
const mount = "/sys/fs/cgroup"

// hierarchies are directories below mount that are hierarchies and not groups: those of
// version 1 that a container's group is found in, and version 2 beside it.
var hierarchies = []string{"memory", "unified", "freezer", "pids", "systemd", "cpu,cpuacct", "cpu", "cpuset", "blkio", "devices"}

// groupNames are those by which a group may be meant: its directory, and its path below the
// hierarchy's root.
func groupNames(directory string) []string {
	if directory == "" {
		return nil
	}
	names := []string{directory}
	below, ok := strings.CutPrefix(directory, mount+"/")
	if !ok {
		return names
	}
	if head, rest, _ := strings.Cut(below, "/"); slices.Contains(hierarchies, head) {
		return append(names, "/"+rest)
	}
	return append(names, "/"+below)
}

// glob tells whether a whole text fits a pattern, of which * stands for any characters,
// slashes among them, and ? for one. It takes time in proportion to the product of the
// lengths at most.
func glob(pattern, text string) bool {
	p, t := []rune(pattern), []rune(text)
	i, j := 0, 0
	star, from := -1, 0 // the last *, and up to where it reaches
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == '*':
			star, from = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i++
			j++
		case star >= 0:
			from++
			i, j = star+1, from
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}
