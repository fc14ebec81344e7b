package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"tare/annex"
	"tare/annex/config"
	"tare/container"
	"tare/kernel/cgroup"
)

// Containers finds what runs on this host, by the host's own engines, and by the control groups that a
// configuration's rules name.
type Containers struct {
	layout cgroup.Layout
	config func() config.Config
	self   int // this program's id

	mu       sync.Mutex
	reported map[string]reported // by control group's directory: what was found last that an engine reported
	entered  []string            // directories that were looked into for groups that rules name
}

// reported is a container as an engine reported it.
type reported struct {
	container.Container
	inode uint64 // of its directory, which another that is made by that name does not have
}

// FindContainers makes one. It asks nobody yet.
func FindContainers(of func() config.Config) (*Containers, error) {
	layout, err := cgroup.Host()
	if err != nil {
		return nil, err
	}
	return &Containers{layout: layout, config: of, self: os.Getpid()}, nil
}

// Find finds them, but for the one that this program runs in: what moves pages does not move
// its own, nor its guard's. No process is in two of them: of all that hold it, by whichever
// hierarchy or level, it is in the one that the earliest rule fits, and of what one rule fits, in
// the container rather than in a plain control group, and in the one further up.
func (c *Containers) Find(ctx context.Context) ([]container.Container, []string, error) {
	// Anew each time: an engine that is started later has its socket from then on.
	// Users' engines are not asked, as what answers at their sockets may be anything: what they
	// run is found by its control groups.
	finder := container.Open(container.Options{Host: true, Layout: &c.layout})
	all, silent, err := finder.All(ctx)
	if err != nil {
		return nil, nil, err
	}
	kept := c.remember(all)
	conf := c.config()
	var notes []string
	if asksEngines(conf.Rules) {
		for _, n := range silent {
			notes = append(notes, n.String())
		}
		if kept != "" {
			notes = append(notes, kept)
		}
	}
	own, err := c.own()
	if err != nil {
		return nil, nil, err
	}
	var failed error
	all = slices.DeleteFunc(all, func(one container.Container) bool {
		is, err := c.runsIn(one, own)
		failed = errors.Join(failed, err)
		return is
	})
	slices.SortStableFunc(all, func(a, b container.Container) int {
		return strings.Count(a.Cgroup, "/") - strings.Count(b.Cgroup, "/")
	})
	trees := c.trees()
	d := &division{rules: conf.Rules, layout: c.layout, trees: cgroup.Layout{Hierarchies: trees}, partOf: map[int]int{}}
	var entered []string
	for i := range len(conf.Rules) + 1 {
		for _, one := range all {
			if conf.Decides(one) == i {
				_, err := d.add(one, i)
				failed = errors.Join(failed, err)
			}
		}
		if i == len(conf.Rules) || conf.Rules[i].Cgroup == "" {
			continue
		}
		visit := func(dir string) (into bool) {
			if d.in(dir, i) {
				return false
			}
			if ctx.Err() != nil || len(exclude([]string{dir}, own)) == 0 {
				return true
			}
			one, runs, err := finder.Group(dir)
			added := false
			if err == nil && runs && conf.Decides(one) == i {
				added, err = d.add(one, i)
			}
			failed = errors.Join(failed, err)
			// Nothing runs in it, a name does not fit, or another container has what runs in it.
			return !added
		}
		for _, tree := range trees {
			err := descend(tree.Mount, conf.Rules[i], func(dir string) { entered = append(entered, dir) }, visit)
			failed = errors.Join(failed, err)
		}
	}
	if err := errors.Join(failed, ctx.Err()); err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	c.entered = entered
	c.mu.Unlock()
	all = all[:0]
	for _, p := range d.parts {
		all = append(all, p.Container)
	}
	return all, append(notes, few(d.notes)...), nil
}

// few keeps of notes of one kind as many as are read.
func few(notes []string) []string {
	const most = 8
	if len(notes) <= most {
		return notes
	}
	return append(notes[:most:most], fmt.Sprintf("%d more of this kind are left out", len(notes)-most))
}

// remember has what an engine once reported of a container hold for as long as that runs: while the engine
// is started anew, or is too slow to answer, its control group or containerd below it would show it, as
// one that most rules do not fit. It tells of whom that is so.
func (c *Containers) remember(all []container.Container) (note string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := map[string]reported{}
	for i := range all {
		one := &all[i]
		info, err := os.Stat(one.Cgroup)
		if one.Cgroup == "" || err != nil {
			continue
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			continue
		}
		before, is := c.reported[one.Cgroup]
		if is = is && before.inode == stat.Ino; is && !one.Told {
			one.Engine, one.ID, one.Name = before.Engine, before.ID, before.Name
			one.Image, one.ImageID, one.Labels = before.Image, before.ImageID, before.Labels
			note = cmp.Or(note, fmt.Sprintf("%s does not tell what it runs: what it told before holds for what still does, such as %s", one.Engine, one.Name))
		}
		if is || one.Told {
			now[one.Cgroup] = reported{*one, stat.Ino}
		}
	}
	c.reported = now
	return note
}

// asksEngines tells whether a rule asks for what engines alone know: where all are by control
// group, one that does not answer is missed by nobody.
func asksEngines(rules []config.Rule) bool {
	return slices.ContainsFunc(
		rules,
		func(r config.Rule) bool { return r.Name != "" || r.Label != "" || r.Image != "" },
	)
}

// trees are the hierarchies in which containers' groups are looked for: that of the memory
// controller and version 2.
func (c *Containers) trees() (trees []cgroup.Hierarchy) {
	if h, ok := c.layout.For("memory"); ok {
		trees = append(trees, h)
	}
	if h, ok := c.layout.Unified(); ok && (len(trees) == 0 || trees[0].Version == 1) {
		trees = append(trees, h)
	}
	return trees
}

// own are the directories of this program's groups, in which its guard is too.
func (c *Containers) own() (dirs []string, err error) {
	own, _, err := c.layout.Of(c.self)
	if err != nil {
		return nil, fmt.Errorf("find the control groups of this program: %w", err)
	}
	for _, place := range own.Places {
		dirs = append(dirs, place.Dir())
	}
	return dirs, nil
}

// runsIn tells whether this program runs in a container, by its own groups or, where the
// container has none, by the container's processes.
func (c *Containers) runsIn(one container.Container, own []string) (bool, error) {
	if one.Cgroup != "" {
		return len(exclude([]string{one.Cgroup}, own)) == 0, nil
	}
	pids, err := one.Processes()
	return slices.Contains(pids, c.self), err
}

// exclude leaves out the groups that one of these is in, or is.
func exclude(dirs []string, these []string) []string {
	return slices.DeleteFunc(dirs, func(dir string) bool {
		return slices.ContainsFunc(these, func(one string) bool { return one == dir || strings.HasPrefix(one, dir+"/") })
	})
}

// protecting are the directories whose memory.low protects a group of version 2: its own, and those above.
func (c *Containers) protecting(dir string) (all []string) {
	h, ok := c.layout.Unified()
	if !ok {
		return nil
	}
	for ; strings.HasPrefix(dir, h.Mount+"/"); dir = filepath.Dir(dir) {
		all = append(all, dir)
	}
	return all
}

// Watched are the directories in which protections may be set back, and those in which groups of containers
// come and go: of those that are
// there, in plain groups that are managed, and of those that rules name, as far as they exist.
func (c *Containers) Watched(found []container.Container) []string {
	c.mu.Lock()
	all := slices.Clone(c.entered)
	c.mu.Unlock()
	trees, conf := c.trees(), c.config()
	for _, tree := range trees {
		all = append(all, tree.Mount)
	}
	for _, one := range found {
		if !slices.ContainsFunc(trees, func(h cgroup.Hierarchy) bool {
			return strings.HasPrefix(one.Cgroup, h.Mount+"/")
		}) {
			continue
		}
		all = append(all, filepath.Dir(one.Cgroup))
		if one.Engine == container.Cgroup {
			all = append(all, one.Cgroup) // what is critical may begin in it
		}
		if conf.Class(one) == annex.Critical {
			all = append(all, c.protecting(one.Cgroup)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
