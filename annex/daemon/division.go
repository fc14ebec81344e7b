package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"tare/annex"
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
	partOf map[int]int // the part that a process is in
	notes  []string    // what an earlier rule keeps from a later one
}

// part is a container, with the rule that gives it its class.
type part struct {
	container.Container
	rule  int
	paths []string // of its groups below their hierarchies' roots
}

// add gives a container its processes. Where one that was added before has any of them, or a group
// of it, the container is left out: then it is false. A critical one is left out only where it has
// no process besides, since its other processes are to stay protected. Groups by one path in two
// hierarchies count as one, whatever is in them: what memory is a container's is found by that path
// too.
func (d *division) add(one container.Container, rule int) (added bool, err error) {
	p := part{Container: one, rule: rule}
	for _, dir := range append([]string{one.Cgroup}, one.Groups...) {
		if path, ok := d.pathOf(dir); ok && !slices.Contains(p.paths, path) {
			p.paths = append(p.paths, path)
		}
	}
	pids, err := d.processes(p)
	if err != nil {
		return false, err
	}
	sharing := map[int]bool{}
	for _, pid := range pids {
		if i, is := d.partOf[pid]; is {
			sharing[i] = true
		}
	}
	critical := d.class(rule) == annex.Critical
	first := ""
	var earlier []part
	for i, other := range d.parts {
		how := related(p.paths, other.paths)
		if how == "" && sharing[i] {
			how = shares
		}
		switch {
		case how == "":
			continue
		case !critical:
			d.note(p, how, other)
			return false, nil
		case how != shares:
			// A process that began there since it was added is the other's too.
			its, err := d.processes(other)
			if err != nil {
				return false, err
			}
			d.claim(its, i)
		}
		first = cmp.Or(first, how)
		earlier = append(earlier, other)
	}
	if d.claim(pids, len(d.parts)) == 0 && len(earlier) > 0 {
		d.note(p, first, earlier[0])
		return false, nil
	}
	d.noteWithout(p, earlier)
	d.parts = append(d.parts, p)
	return true, nil
}

// claim gives a part those of the processes that no part has, and tells how many these are.
func (d *division) claim(pids []int, part int) (claimed int) {
	for _, pid := range pids {
		if _, is := d.partOf[pid]; !is {
			d.partOf[pid] = part
			claimed++
		}
	}
	return claimed
}

// processes lists a part's processes, and those in groups by its paths in every hierarchy. One that
// has ended has none. An error says that they are not known: to take that for none would leave a
// critical container's memory to a later rule.
func (d *division) processes(p part) (all []int, err error) {
	lists := []container.Container{p.Container}
	for _, path := range p.paths {
		for _, place := range d.trees.At(path).Places {
			lists = append(lists, container.Container{Engine: container.Cgroup, Name: path, Cgroup: place.Dir()})
		}
	}
	for _, one := range lists {
		pids, err := one.Processes()
		if err != nil {
			return nil, err
		}
		all = append(all, pids...)
	}
	return all, nil
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
func related(paths, others []string) (how string) {
	for _, a := range paths {
		for _, b := range others {
			switch {
			case a == b:
				return isSame
			case strings.HasPrefix(a, b+"/"):
				return liesIn
			case strings.HasPrefix(b, a+"/"):
				how = contains // unless another of its groups lies in one of those
			}
		}
	}
	return how
}

// class is that which a rule gives; behind the last rule it is Ignored.
func (d *division) class(rule int) annex.Class {
	if rule >= len(d.rules) {
		return annex.Ignored
	}
	return d.rules[rule].Class
}

// note says what a rule does not get, where an earlier one gives it another class.
func (d *division) note(lost part, how string, has part) {
	class, by := d.class(lost.rule), d.class(has.rule)
	if lost.rule >= len(d.rules) || how == isSame || class == by {
		return
	}
	d.say("rule %d (%s) does not decide %s: it %s %s, which rule %d makes %s", lost.rule+1, class, lost.Name, how, has.Name, has.rule+1, by)
}

// noteWithout says which of a critical container's processes earlier rules give another class, and
// what follows: the kernel protects a group, and counts its waits, with all that is in it.
func (d *division) noteWithout(critical part, earlier []part) {
	earlier = slices.DeleteFunc(earlier, func(p part) bool { return d.class(p.rule) == annex.Critical })
	if len(earlier) == 0 {
		return
	}
	first, more := earlier[0], ""
	if len(earlier) > 1 {
		more = fmt.Sprintf(", and without %d more", len(earlier)-1)
	}
	d.say("rule %d (critical) decides %s without %s, which rule %d makes %s%s: the kernel may protect these processes too, and count their waits for memory as those of %s",
		critical.rule+1, critical.Name, first.Name, first.rule+1, d.class(first.rule), more, critical.Name)
}

func (d *division) say(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(d.notes, note) {
		d.notes = append(d.notes, note)
	}
}

func (d *division) pathOf(dir string) (path string, ok bool) {
	return pathIn(d.layout, dir)
}

// pathIn is a group's path below its hierarchy's root; one in no hierarchy has its directory.
func pathIn(layout cgroup.Layout, dir string) (path string, ok bool) {
	if in, known := placeOf(layout, dir); known {
		return in.Path, true
	}
	return dir, dir != ""
}

// placeOf is the place that a group's directory is.
func placeOf(layout cgroup.Layout, dir string) (in cgroup.Place, known bool) {
	for _, h := range layout.Hierarchies {
		below, is := strings.CutPrefix(dir, h.Mount+"/")
		if is && len(h.Mount) > len(in.Mount) {
			in, known = cgroup.Place{Hierarchy: h, Path: filepath.Join("/", h.Root, below)}, true
		}
	}
	return in, known
}

// descend visits the directories below dir that the rule's cgroup fits, parents first. It enters
// those for which visit returns true and below which the rule may fit. It calls entered for each
// directory that it lists. The error is that one could not be listed; one that has gone meanwhile
// has none in it.
func descend(dir string, rule config.Rule, entered func(dir string), visit func(dir string) bool) error {
	entered(dir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list control groups: %w", err)
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
			if err := descend(group, rule, entered, visit); err != nil {
				return err
			}
		}
	}
	return nil
}
