package cgroup

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tare/kernel/procfs"
)

// Membership is one line of /proc/PID/cgroup.
type Membership struct {
	ID          int      // of the hierarchy; 0 is version 2
	Controllers []string // sorted; empty for version 2
	Name        string   // of a version 1 tree without controllers
	Path        string   // from the hierarchy's root
	// Deleted means that the group's directory is gone, which the kernel marks in version 2. A
	// living group whose name ends in " (deleted)" reads the same.
	Deleted bool
}

const deleted = " (deleted)"

// String writes the line as the kernel does.
func (m Membership) String() string {
	line := fmt.Sprintf("%d:%s:%s", m.ID, m.key(), m.Path)
	if m.Deleted {
		line += deleted
	}
	return line
}

func (m Membership) key() string {
	h := Hierarchy{Version: 1, Controllers: m.Controllers, Name: m.Name}
	return h.key()
}

// ParseMembership parses /proc/PID/cgroup. A path may hold every byte but a newline.
func ParseMembership(r io.Reader) ([]Membership, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var all []Membership
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 || !strings.HasPrefix(f[2], "/") {
			return nil, fmt.Errorf("%q is not ID:CONTROLLERS:/PATH", line)
		}
		id, err := strconv.Atoi(f[0])
		if err != nil || id < 0 {
			return nil, fmt.Errorf("%q: the hierarchy's id is not a number", line)
		}
		m := Membership{ID: id, Path: f[2]}
		if id == 0 {
			m.Path, m.Deleted = strings.CutSuffix(f[2], deleted)
		}
		for word := range strings.SplitSeq(f[1], ",") {
			if name, ok := strings.CutPrefix(word, "name="); ok {
				m.Name = name
			} else if word != "" {
				m.Controllers = append(m.Controllers, word)
			}
		}
		slices.Sort(m.Controllers)
		all = append(all, m)
	}
	return all, nil
}

// Place is one directory in one hierarchy.
type Place struct {
	Hierarchy
	Path string // from the hierarchy's root: "/tare/redis-1"
}

// Dir is the place's directory on this host.
func (p Place) Dir() string { return filepath.Join(p.Mount, within(p.Root, p.Path)) }

// File is the path of one of the place's files, such as "cpu.shares".
func (p Place) File(name string) string { return filepath.Join(p.Dir(), name) }

func (p Place) exists() bool {
	_, err := os.Stat(p.Dir())
	return err == nil
}

// within gives name relative to the part of the tree that is mounted. A group
// above that part (seen from inside a container) shows as the part's root.
func within(root, name string) string {
	if root == "/" || root == "" {
		return name
	}
	if name == root {
		return "/"
	}
	if rest, ok := strings.CutPrefix(name, root+"/"); ok {
		return "/" + rest
	}
	if strings.HasPrefix(root, "/..") || strings.HasPrefix(name, "/..") {
		return "/"
	}
	return name
}

// Group is what is one group to its user: a place in each of several hierarchies.
type Group struct {
	Places []Place
}

// At gives the group of that path in every hierarchy, whether it exists or not.
func (l Layout) At(name string) Group {
	var g Group
	for _, h := range l.Hierarchies {
		g.Places = append(g.Places, Place{h, path.Clean("/" + name)})
	}
	return g
}

// Of gives the group that a process is in.
func (l Layout) Of(pid int) (Group, []Membership, error) {
	file := procfs.Host.Process(pid).Path("cgroup")
	f, err := os.Open(file)
	if err != nil {
		return Group{}, nil, err
	}
	defer f.Close()
	members, err := ParseMembership(f)
	if err != nil {
		return Group{}, nil, fmt.Errorf("%s: %w", file, err)
	}
	return l.In(members), members, nil
}

// Outsider finds a process in a group or below it that is neither in a group of another hierarchy nor
// below that one; 0 where there is none.
func (l Layout) Outsider(in, of Place) (pid int, err error) {
	pids, err := Group{Places: []Place{in}}.Processes()
	if err != nil {
		return 0, err
	}
	known, err := Group{Places: []Place{of}}.Processes()
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		if _, is := slices.BinarySearch(known, pid); is {
			continue
		}
		members, _, err := l.Of(pid)
		if err != nil {
			continue // it has ended
		}
		i := slices.IndexFunc(members.Places, func(p Place) bool { return p.Mount == of.Mount })
		if i < 0 {
			return pid, nil
		}
		path := members.Places[i].Path
		if path != of.Path && of.Path != "/" && !strings.HasPrefix(path, of.Path+"/") {
			return pid, nil
		}
	}
	return 0, nil
}

// In gives the group that the memberships name.
func (l Layout) In(members []Membership) Group {
	var g Group
	for _, h := range l.Hierarchies {
		i := slices.IndexFunc(members, func(m Membership) bool { return m.key() == h.key() })
		if i < 0 {
			continue
		}
		place := Place{h, members[i].Path}
		if marked := (Place{h, place.Path + deleted}); members[i].Deleted && marked.exists() {
			place = marked // that is its name
		}
		g.Places = append(g.Places, place)
	}
	return g
}

// Tracking is the part of the group that follows and ends processes without
// any say in how they run: its place in the version 2 hierarchy, or else in
// version 1's freezer and CPU accounting. A child made there gets no
// controller. It is empty where the host has neither.
func (g Group) Tracking() Group {
	var two, one Group
	for _, p := range g.Places {
		switch {
		case p.Version == 2:
			two.Places = append(two.Places, p)
		case slices.Equal(p.Controllers, []string{"freezer"}), slices.Equal(p.Controllers, []string{"cpuacct"}):
			// From the root, since a process may be elsewhere in each tree and
			// one path is to name the group in both.
			p.Path = p.Root
			one.Places = append(one.Places, p)
		}
	}
	if len(two.Places) > 0 {
		return two
	}
	if _, ok := one.For("freezer"); !ok {
		return Group{}
	}
	return one
}

// Child gives the group of that name below this one.
func (g Group) Child(name string) Group {
	c := Group{Places: slices.Clone(g.Places)}
	for i := range c.Places {
		c.Places[i].Path = path.Join(c.Places[i].Path, name)
	}
	return c
}

// For finds the place that carries the controller.
func (g Group) For(controller string) (Place, bool) {
	for _, p := range g.Places {
		if p.Has(controller) {
			return p, true
		}
	}
	return Place{}, false
}

// Exists reports whether the group has a directory in any of its hierarchies.
func (g Group) Exists() bool {
	return slices.ContainsFunc(g.Places, Place.exists)
}

// String names the group's path, as for an error.
func (g Group) String() string {
	if len(g.Places) == 0 {
		return "no cgroup"
	}
	return g.Places[0].Path
}
