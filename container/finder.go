package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/procfs"
	"tare/nearest"
)

// defaultPatience bounds all that one socket is asked. Engines answer in milliseconds. One
// that takes longer is reported in a Note, and what it did not describe is found by its control
// groups.
const defaultPatience = 2 * time.Second

// Options say whom to ask. The zero value asks every engine that has a socket
// where sockets usually are. What a socket below /run/user/UID answers is believed of processes
// that run as that user, or as one of the user's subordinate ids (/etc/subuid), alone.
type Options struct {
	// Host asks the host's own engines alone, and none at a socket below /run/user/UID, at
	// which a user may have anything answer: what users' engines run is found by its control
	// groups.
	Host bool
	// Docker are sockets that speak Docker's API, podman's among them; nil
	// are the usual ones, an empty list none.
	Docker []string
	// Containerd are containerd's sockets, likewise, and CRIO are CRI-O's.
	Containerd, CRIO []string
	// Patience bounds all that one socket is asked; 0 is 2 s. All are asked at once.
	Patience time.Duration
	// Proc is where processes are described; empty is this host's.
	Proc procfs.FS
	// Layout are the control groups' hierarchies; nil is this host's.
	Layout *cgroup.Layout
}

// Finder finds running containers. It may be used by several goroutines.
type Finder struct {
	docker, containerd, crio []string
	patience                 time.Duration
	proc                     procfs.FS
	layout                   *cgroup.Layout
	users, subuid            string // where users' sockets are, and their subordinate ids
}

// Open makes a finder. It asks nobody yet, and holds nothing that needs closing.
func Open(o Options) *Finder {
	f := &Finder{
		docker: o.Docker, containerd: o.Containerd, crio: o.CRIO, layout: o.Layout,
		patience: cmp.Or(o.Patience, defaultPatience), proc: cmp.Or(o.Proc, procfs.Host),
		users: userSockets, subuid: subordinates,
	}
	if f.docker == nil {
		f.docker = usual("DOCKER_HOST", dockerSockets, o.Host)
	}
	if f.containerd == nil {
		f.containerd = usual("CONTAINERD_ADDRESS", containerdSockets, o.Host)
	}
	if f.crio == nil {
		f.crio = usual("", crioSockets, o.Host)
	}
	if o.Host {
		f.docker, f.containerd = f.hosts(f.docker), f.hosts(f.containerd)
	}
	return f
}

// Where engines have their sockets; patterns, as filepath.Match has them.
var (
	dockerSockets = []string{
		"/var/run/docker.sock", "/run/user/*/docker.sock",
		"/run/podman/podman.sock", "/run/user/*/podman/podman.sock",
	}
	containerdSockets = []string{
		"/run/containerd/containerd.sock", "/var/run/docker/containerd/containerd.sock",
		"/run/k3s/containerd/containerd.sock", "/run/k0s/containerd.sock",
		"/var/snap/microk8s/common/run/containerd.sock",
	}
	crioSockets = []string{"/var/run/crio/crio.sock"}
)

// usual are the sockets that exist, the one that the environment names before all others. For
// the host's own, users' directories are not even looked into.
func usual(variable string, patterns []string, host bool) []string {
	sockets := []string{}
	if named := os.Getenv(variable); strings.HasPrefix(named, "/") || strings.HasPrefix(named, "unix://") {
		sockets = append(sockets, strings.TrimPrefix(named, "unix://"))
	}
	for _, p := range patterns {
		if host && strings.HasPrefix(p, userSockets+"/") {
			continue
		}
		found, err := filepath.Glob(p)
		if err == nil {
			sockets = append(sockets, found...)
		}
	}
	return once(sockets)
}

// once drops sockets that are another's under another name.
func once(sockets []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(sockets, func(s string) bool {
		real, err := filepath.EvalSymlinks(s)
		if err != nil {
			real = s
		}
		if seen[real] {
			return true
		}
		seen[real] = true
		return false
	})
}

// All finds every running container, by name: what the engines report, and what
// only the control groups show of engines that do not answer, of none that we
// know, and of our own trials. Every process of the host is at most one container's.
// The notes are engines that could not say. The error is ctx's, that there
// are no control groups to be read, or that no more files can be opened.
func (f *Finder) All(ctx context.Context) ([]Container, []Note, error) {
	layout, err := f.hierarchies()
	if err != nil {
		return nil, nil, err
	}
	answers, notes := f.ask(ctx)
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("ask the engines what they run: %w", context.Cause(ctx))
	}
	groups, err := f.search(layout)
	if err != nil {
		return nil, nil, err
	}
	for _, socket := range f.crio {
		found, note := f.askCRIO(ctx, socket, groups)
		answers = append(answers, found...)
		if note != nil {
			notes = append(notes, *note)
		}
	}
	var all []Container
	known := map[string]bool{} // ids, and groups' paths
	firsts, pids, listed := map[int]bool{}, map[int]bool{}, map[string][]int{}
	for _, g := range groups {
		listed[g.dir] = g.processes
	}
	add := func(c Container) {
		all = append(all, c)
		firsts[c.PID], pids[c.PID] = true, true
		its, ok := listed[c.Cgroup]
		if !ok {
			// Where they cannot be listed, the next caller that lists them reports it.
			its, _ = c.processes(f.proc)
		}
		for _, pid := range its {
			pids[pid] = true
		}
	}
	for _, c := range answers {
		if known[c.ID] || c.PID != 0 && firsts[c.PID] {
			continue // containerd shows what Docker runs
		}
		if c.PID == 0 {
			// The engine reported it and then not where it is. A user may have made a group
			// of that name, too.
			i := slices.IndexFunc(groups, func(g group) bool { return g.owner.ID == c.ID && !delegated(layout, g.dir) })
			if i < 0 {
				continue
			}
			c.PID = f.first(groups[i].processes)
		}
		dirs, path, err := f.own(layout, c.PID, func(name string) (string, bool) { return upTo(name, c.ID) })
		if err != nil {
			return nil, nil, err
		}
		if len(dirs) > 0 {
			c.Cgroup, c.Groups = dirs[0], dirs
		} else if lives, err := f.lives(c.PID); err != nil {
			return nil, nil, err
		} else if !lives {
			continue // it has ended meanwhile
		}
		c.Unprivileged = c.users || delegated(layout, c.Cgroup)
		// A user may have given the id of another's container, which is not to be hidden.
		known[c.ID], known[path] = !c.users, true
		add(c.Container)
	}
	for _, g := range groups {
		// By ids that engines draw, one is known wherever its group lies; a chosen one may be
		// another's too.
		if isID(g.owner.ID) && known[g.owner.ID] || known[g.owner.Path] {
			continue
		}
		// The same processes may be found by another path in another hierarchy.
		if slices.ContainsFunc(g.processes, func(pid int) bool { return pids[pid] }) {
			continue
		}
		c, err := f.describe(layout, g)
		if err != nil {
			return nil, nil, err
		}
		add(c)
	}
	for i, c := range all {
		within := c.Cgroup + "/"
		for _, o := range all {
			if c.Cgroup != "" && strings.HasPrefix(o.Cgroup, within) {
				all[i].inner = append(all[i].inner, o.Cgroup)
			}
		}
	}
	slices.SortFunc(all, func(a, b Container) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	return all, notes, nil
}

func (f *Finder) hierarchies() (cgroup.Layout, error) {
	if f.layout != nil {
		return *f.layout, nil
	}
	return cgroup.Host()
}

// reported is a container as an engine reported it.
type reported struct {
	Container
	users bool // the engine is a user's own
}

// ask asks all engines at once. What Docker says comes before what containerd
// says, since it knows the names; and what users' engines say after both.
func (f *Finder) ask(ctx context.Context) ([]reported, []Note) {
	type answer struct {
		containers []Container
		users      bool
		note       *Note
	}
	answers := make([]answer, len(f.docker)+len(f.containerd))
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			a := &answers[i]
			engine, socket := Docker, ""
			if i < len(f.docker) {
				socket = f.docker[i]
			} else {
				engine, socket = Containerd, f.containerd[i-len(f.docker)]
			}
			uid, users := f.userOf(socket)
			if users && f.astray(socket, uid) {
				a.note = &Note{Engine: engine, Socket: socket, What: "is a link to a socket that is not the user's", Mend: "name that socket itself"}
				return
			}
			// What answers there may take its time at every question.
			ctx, cancel := context.WithTimeout(ctx, f.patience)
			defer cancel()
			if engine == Docker {
				a.containers, a.note = f.askDocker(ctx, socket, users)
			} else {
				a.containers, a.note = f.askContainerd(ctx, socket)
			}
			if users {
				a.containers, a.users = f.ofUser(uid, a.containers), true
			}
		})
	}
	all.Wait()
	var hosts, users []reported
	var notes []Note
	for _, a := range answers {
		for _, c := range a.containers {
			if a.users {
				users = append(users, reported{c, true})
			} else {
				hosts = append(hosts, reported{c, false})
			}
		}
		if a.note != nil {
			notes = append(notes, *a.note)
		}
	}
	return append(hosts, users...), notes
}

// shortest is how much of an id names a container at least.
const shortest = 3

// Find finds one running container, by its name; by its id or the beginning of
// one; by namespace/pod/container, where Kubernetes runs it; by the path of a
// control group, from its hierarchy's root or as a directory; or as pid:NUMBER, a process and
// its descendants. A whole name goes before the beginning of an id. The error is an
// *Unknown, an *Ambiguous, an *Ended, or one of All's.
func (f *Finder) Find(ctx context.Context, name string) (Container, error) {
	found, err := f.FindEach(ctx, []string{name})
	if err != nil {
		return Container{}, err
	}
	return found[0], nil
}

// FindEach finds containers as Find does, and asks the engines once for all. Two
// names of the same one, or of two that have a process in common, are a *Twice, since
// a process can be counted only once.
func (f *Finder) FindEach(ctx context.Context, names []string) ([]Container, error) {
	var all []Container
	var notes []Note
	asked := false
	var found []Container
	for _, name := range names {
		c, ok, err := f.unasked(name)
		if err != nil {
			return nil, err
		}
		if !ok {
			if !asked {
				if all, notes, err = f.All(ctx); err != nil {
					return nil, err
				}
				asked = true
			}
			if c, err = pick(all, notes, name); err != nil {
				return nil, err
			}
		}
		same := func(o Container) bool { return o.PID == c.PID && o.Cgroup == c.Cgroup }
		if i := slices.IndexFunc(found, same); i >= 0 {
			return nil, &Twice{First: names[i], Second: name}
		}
		found = append(found, c)
	}
	if err := f.apart(names, found); err != nil {
		return nil, err
	}
	return found, nil
}

// apart refuses containers that have a process in common. One whose processes
// cannot be listed is left to the next caller that lists them.
func (f *Finder) apart(names []string, found []Container) error {
	of := map[int]int{}
	for i, c := range found {
		pids, err := c.processes(f.proc)
		if err != nil {
			continue
		}
		for _, pid := range pids {
			if other, ok := of[pid]; ok && other != i {
				return &Twice{First: names[other], Second: names[i], PID: pid}
			}
			of[pid] = i
		}
	}
	return nil
}

// unasked finds what needs no engine: a process, or a control group by its path.
func (f *Finder) unasked(name string) (Container, bool, error) {
	if digits, ok := strings.CutPrefix(name, "pid:"); ok {
		pid, err := strconv.Atoi(digits)
		if err != nil {
			return Container{}, false, fmt.Errorf("%q is no process: want pid:NUMBER", name)
		}
		c, err := ofProcess(f.proc, pid)
		return c, err == nil, err
	}
	if strings.HasPrefix(name, "/") {
		return f.Group(name)
	}
	return Container{}, false, nil
}

// pick finds one by name among all.
func pick(all []Container, notes []Note, name string) (Container, error) {
	for _, match := range []func(Container) bool{
		func(c Container) bool { return c.Name == name || c.ID == name },
		func(c Container) bool { return len(name) >= shortest && strings.HasPrefix(c.ID, name) },
		func(c Container) bool { return c.Engine == Kubernetes && strings.HasSuffix(c.Name, "/"+name) },
	} {
		matches := slices.DeleteFunc(slices.Clone(all), func(c Container) bool { return !match(c) })
		switch len(matches) {
		case 0:
		case 1:
			return matches[0], nil
		default:
			return Container{}, &Ambiguous{Name: name, Matches: matches}
		}
	}
	unknown := &Unknown{Name: name, Notes: notes}
	for _, c := range all {
		unknown.Running = append(unknown.Running, c.Name)
	}
	unknown.Nearest = meant(name, unknown.Running)
	return Container{}, unknown
}

// Group takes a control group by its path, or by its directory. A container
// that lies there keeps its name and id; any other group is taken as it is. It is false where
// nothing runs in it.
func (f *Finder) Group(name string) (Container, bool, error) {
	layout, err := f.hierarchies()
	if err != nil {
		return Container{}, false, err
	}
	name = filepath.Clean(name)
	for _, h := range preferred(layout) {
		path := name
		if name == h.Mount || strings.HasPrefix(name, h.Mount+"/") {
			path = "/" + strings.TrimPrefix(strings.TrimPrefix(name, h.Mount), "/")
		}
		place := cgroup.Place{Hierarchy: h, Path: path}
		if path == "/" {
			continue
		}
		pids, err := below(place.Dir())
		if err != nil && !errors.Is(err, os.ErrPermission) {
			return Container{}, false, err
		}
		if len(pids) == 0 {
			continue // not there, or with its processes in another hierarchy
		}
		owner, ok := ParsePath(path)
		if !ok || owner.Path != path {
			owner = Owner{Engine: Cgroup, ID: path, Name: path, Path: path}
		}
		c, err := f.describe(layout, group{owner: owner, dir: place.Dir(), processes: pids})
		return c, err == nil, err
	}
	return Container{}, false, nil
}

// meant picks at most three names that a mistyped one may have meant: those
// that hold it, and those a few keystrokes away.
func meant(name string, running []string) []string {
	const most = 3
	return nearest.Of(running, most, func(known string) (int, bool) {
		if len(name) >= shortest && strings.Contains(known, name) {
			return 0, true
		}
		far := nearest.Edits(strings.ToLower(name), strings.ToLower(known))
		return far, far <= max(1, len(known)/4)
	})
}
