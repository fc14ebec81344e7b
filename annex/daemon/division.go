package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tare/annex/config"
	"tare/container"
	"tare/kernel/cgroup"
)

// division gives each process of the host to one container at most. A process can be found
// through several hierarchies, and in a container as well as in a directory above it: of all that
// hold it the container has it that was added first, which is that of the earliest rule.
type division struct {
	rules  []config.Rule
	layout cgroup.Layout
	trees  cgroup.Layout // the hierarchies by which memory is accounted for and containers are found
	parts  []part
	of     map[int]int // the part that a process is in
	notes  []string    // what an earlier rule keeps from a later one
}

// part is a container, with the rule that gives it its class.
type part struct {
	container.Container
	rule  int
	paths []string // of its groups below their hierarchies' roots
}

// add gives a container its processes, unless one that was added before has any of them: then it
// is false. Groups by one path in two hierarchies count as one, whatever is in them: what memory is
// a container's is told by that path too.
func (d *division) add(one container.Container, rule int) bool {
	p := part{Container: one, rule: rule}
	var groups cgroup.Group
	for _, dir := range append([]string{one.Cgroup}, one.Groups...) {
		if path, ok := d.pathOf(dir); ok && !slices.Contains(p.paths, path) {
			p.paths = append(p.paths, path)
			groups.Places = append(groups.Places, d.trees.At(path).Places...)
		}
	}
	for _, other := range d.parts {
		if how := related(p.paths, other.paths); how != "" {
			d.note(p, how, other)
			return false
		}
	}
	// What cannot be listed has ended meanwhile, which whoever begins with it finds.
	pids, _ := one.Processes()
	others, _ := groups.Processes()
	pids = append(pids, others...)
	for _, pid := range pids {
		if other, is := d.of[pid]; is {
			d.note(p, shares, d.parts[other])
			return false
		}
	}
	for _, pid := range pids {
		d.of[pid] = len(d.parts)
	}
	d.parts = append(d.parts, p)
	return true
}

// in tells whether a directory is a group of a container that was added, or lies in one. A later
// rule that would have it otherwise is noted.
func (d *division) in(dir string, rule int) bool {
	path, ok := d.pathOf(dir)
	if !ok {
		return false
	}
	for _, p := range d.parts {
		how := related([]string{path}, p.paths)
		if how == isSame {
			return true
		}
		if how == liesIn {
			d.note(part{Container: container.Container{Name: path, Cgroup: dir}, rule: rule}, how, p)
			return true
		}
	}
	return false
}

// How one container stands to another that has its processes.
const (
	isSame   = "is"
	liesIn   = "lies in"
	contains = "contains"
	shares   = "has processes of"
)

// related tells how groups of these paths stand to groups of those; empty where they have nothing
// in common.
func related(paths, others []string) string {
	for _, a := range paths {
		for _, b := range others {
			switch {
			case a == b:
				return isSame
			case strings.HasPrefix(a, b+"/"):
				return liesIn
			case strings.HasPrefix(b, a+"/"):
				return contains
			}
		}
	}
	return ""
}

// note says what a rule does not get, where an earlier one gives it another class.
func (d *division) note(lost part, how string, has part) {
	if lost.rule >= len(d.rules) || how == isSame {
		return
	}
	class, by := d.rules[lost.rule].Class, d.rules[has.rule].Class
	note := fmt.Sprintf("rule %d (%s) does not have %s: it %s %s, which is %s by rule %d", lost.rule+1, class, lost.Name, how, has.Name, by, has.rule+1)
	if class != by && !slices.Contains(d.notes, note) {
		d.notes = append(d.notes, note)
	}
}

func (d *division) pathOf(dir string) (path string, ok bool) {
	if dir == "" {
		return "", false
	}
	path, mount := dir, ""
	for _, h := range d.layout.Hierarchies {
		if below, in := strings.CutPrefix(dir, h.Mount+"/"); in && len(h.Mount) > len(mount) {
			path, mount = filepath.Join("/", h.Root, below), h.Mount
		}
	}
	return path, true
}

// descend goes through the directories below one that a rule's cgroup fits, those further up
// first, and into those of which visit says so and whose groups it may fit; entered is told of
// each whose groups are gone through.
func descend(dir string, rule config.Rule, entered func(dir string), visit func(dir string) bool) {
	entered(dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // it has gone meanwhile
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		group := filepath.Join(dir, e.Name())
		if rule.FitsGroup(group) && !visit(group) {
			continue
		}
		if rule.MayFitBelow(group) {
			descend(group, rule, entered, visit)
		}
	}
}
