package container

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"tare/kernel/cgroup"
)

// group is a control group whose name shows that it is a container's, with what runs in it.
type group struct {
	owner     Owner
	dir       string
	processes []int
}

// preferred orders hierarchies by how well they show which container a process is
// in: version 2, where it is used; memory, whose groups every engine makes; and then
// the others.
func preferred(l cgroup.Layout) []cgroup.Hierarchy {
	rank := func(h cgroup.Hierarchy) int {
		switch {
		case h.Version == 2:
			return 0
		case h.Has("memory"):
			return 1
		case h.Has("freezer"), h.Has("pids"):
			return 2
		case len(h.Controllers) > 0:
			return 3
		}
		return 4 // systemd's own, which knows nothing of the plain driver's containers
	}
	sorted := slices.Clone(l.Hierarchies)
	slices.SortStableFunc(sorted, func(a, b cgroup.Hierarchy) int { return rank(a) - rank(b) })
	return sorted
}

// isOut tells that no file can be opened for now: from what cannot be read then nothing follows.
func isOut(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// search finds the groups of containers in all hierarchies, each path once, in the best
// hierarchy where it has processes. One that holds another's processes, in whichever
// hierarchy, comes before that.
func (f *Finder) search(l cgroup.Layout) ([]group, error) {
	var found []group
	seen := map[string]bool{}
	for _, h := range preferred(l) {
		// An unreadable part of a tree is left out: what an engine runs there, it
		// shows itself.
		err := filepath.WalkDir(h.Mount, func(dir string, d fs.DirEntry, err error) error {
			switch {
			case isOut(err):
				return err
			case err != nil && d != nil && d.IsDir():
				return fs.SkipDir
			case err != nil || !d.IsDir():
				return nil
			}
			owner, ok := ParsePath(path.Join("/", h.Root, strings.TrimPrefix(dir, h.Mount)))
			if !ok {
				return nil
			}
			if seen[owner.Path] {
				return fs.SkipDir
			}
			pids, err := below(dir)
			if isOut(err) {
				return err
			}
			if err == nil && len(pids) > 0 {
				seen[owner.Path] = true
				found = append(found, group{owner, dir, pids})
			}
			return fs.SkipDir
		})
		if err != nil {
			return nil, fmt.Errorf("look for containers' control groups: %w", err)
		}
	}
	slices.SortStableFunc(found, func(a, b group) int { return len(b.processes) - len(a.processes) })
	return found, nil
}

// describe makes a container of a group that no engine reported.
func (f *Finder) describe(l cgroup.Layout, g group) (_ Container, err error) {
	c := Container{
		Engine: g.owner.Engine, ID: g.owner.ID, Name: g.owner.Name, PID: f.first(g.processes),
		Cgroup: g.dir, Unprivileged: delegated(l, g.dir),
	}
	c.Groups, _, err = f.own(l, c.PID, func(name string) (string, bool) {
		if name == g.owner.Path || strings.HasPrefix(name, g.owner.Path+"/") {
			return g.owner.Path, true
		}
		owner, ok := ParsePath(name)
		return owner.Path, ok && owner.ID == g.owner.ID
	})
	if g.owner.Pod != "" {
		c.Labels = map[string]string{labelPodUID: g.owner.Pod}
	}
	return c, err
}

// first is the process that the others descend from: of those whose parent is
// outside, the one that began first.
func (f *Finder) first(pids []int) int {
	pids = slices.Sorted(slices.Values(pids))
	var pid int
	var began uint64
	for _, p := range pids {
		stat, err := f.proc.Process(p).Stat()
		if err != nil {
			continue
		}
		if _, inside := slices.BinarySearch(pids, stat.Parent); !inside && (pid == 0 || stat.StartTicks < began) {
			pid, began = p, stat.StartTicks
		}
	}
	if pid == 0 && len(pids) > 0 {
		pid = pids[0]
	}
	return pid
}

func (f *Finder) lives(pid int) (bool, error) {
	stat, err := f.proc.Process(pid).Stat()
	if isOut(err) {
		return false, err
	}
	return err == nil && !stat.Zombie(), nil
}

// own finds the groups that are a container's own, in version 2 and in the hierarchy with the
// memory controller, or in the best one that has any, and the path of the first. of cuts the path
// of a group, in which its first process is, to that of the container's own: its first process may
// be in a group below, made inside the container. A process that is not there has none.
func (f *Finder) own(
	l cgroup.Layout,
	pid int,
	of func(name string) (string, bool),
) (dirs []string, within string, err error) {
	b, err := os.ReadFile(f.proc.Process(pid).Path("cgroup"))
	if isOut(err) {
		return nil, "", fmt.Errorf("control groups of process %d: %w", pid, err)
	}
	if err != nil {
		return nil, "", nil
	}
	members, err := cgroup.ParseMembership(bytes.NewReader(b))
	if err != nil {
		return nil, "", nil
	}
	in := l.In(members)
	for _, h := range preferred(l) {
		if len(dirs) > 0 && h.Version == 1 && !h.Has("memory") {
			continue
		}
		for _, p := range in.Places {
			if p.Mount != h.Mount {
				continue
			}
			name, ok := of(p.Path)
			if !ok {
				continue
			}
			p.Path = name
			if info, err := os.Stat(p.Dir()); err == nil && info.IsDir() {
				dirs = append(dirs, p.Dir())
				within = cmp.Or(within, name)
			}
		}
	}
	return dirs, within, nil
}

// upTo cuts a group's path behind the part that names the container. Where none does, the
// processes may be among others (a login session, where a runtime makes no groups), and the
// container has no group of its own. It is the first
// that holds a drawn id; of a chosen one, which may be the namespace's name as well,
// the last that is it, alone or behind the prefix of systemd's driver.
func upTo(name, id string) (string, bool) {
	parts := strings.Split(name, "/")
	at := -1
	for i, part := range parts {
		if isID(id) {
			if strings.Contains(part, id) {
				at = i
				break
			}
		} else if scope, ok := strings.CutSuffix(part, ".scope"); part == id || ok && strings.HasSuffix(scope, "-"+id) {
			at = i
		}
	}
	return strings.Join(parts[:at+1], "/"), at >= 0
}
