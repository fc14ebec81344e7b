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

	mu   sync.Mutex
	told map[string]told // by control group's directory: what was found last that an engine told of
}

// told is a container as an engine told of it.
type told struct {
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
// its own, nor its guard's.
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
	var notes []string
	if asksEngines(c.config().Rules) {
		for _, n := range silent {
			notes = append(notes, n.String())
		}
		if kept != "" {
			notes = append(notes, kept)
		}
	}
	own := c.own()
	all = slices.DeleteFunc(all, func(one container.Container) bool { return c.runsIn(one, own) })
	for _, dir := range c.named(own) {
		if slices.ContainsFunc(all, func(one container.Container) bool { return overlap(one.Cgroup, dir) }) {
			continue
		}
		one, err := finder.Find(ctx, dir)
		if unknown := new(container.Unknown); errors.As(err, &unknown) {
			continue // nothing runs in it
		}
		if ended := new(container.Ended); errors.As(err, &ended) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		all = append(all, one)
	}
	return all, notes, nil
}

// remember has what an engine once told of a container hold for as long as that runs: while the engine
// is started anew, or is too slow to answer, its control group or containerd below it would show it, as
// one that most rules do not fit. It tells of whom that is so.
func (c *Containers) remember(all []container.Container) (note string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := map[string]told{}
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
		before, is := c.told[one.Cgroup]
		if is = is && before.inode == stat.Ino; is && !one.Told {
			one.Engine, one.ID, one.Name = before.Engine, before.ID, before.Name
			one.Image, one.ImageID, one.Labels = before.Image, before.ImageID, before.Labels
			note = cmp.Or(note, fmt.Sprintf("%s does not tell what it runs: what it told before holds for what still does, such as %s", one.Engine, one.Name))
		}
		if is || one.Told {
			now[one.Cgroup] = told{*one, stat.Ino}
		}
	}
	c.told = now
	return note
}

// asksEngines tells whether a rule asks for what engines alone know: where all are by control
// group, one that does not answer is missed by nobody.
func asksEngines(rules []config.Rule) bool {
	return slices.ContainsFunc(rules, func(r config.Rule) bool { return r.Name != "" || r.Label != "" || r.Image != "" })
}

// overlap tells that one of two groups is the other, or in it: a process is to be managed
// once.
func overlap(a, b string) bool {
	return a != "" && (a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/"))
}

// mount is the hierarchy in which containers' groups are found.
func (c *Containers) mount() string {
	if h, ok := c.layout.For("memory"); ok {
		return h.Mount
	}
	if h, ok := c.layout.Unified(); ok {
		return h.Mount
	}
	return ""
}

// named are the directories of groups that rules name, those further up first.
func (c *Containers) named(own []string) []string {
	conf, mount := c.config(), c.mount()
	if mount == "" {
		return nil
	}
	var all []string
	for _, r := range conf.Rules {
		if r.Cgroup == "" || r.Class == annex.Ignored {
			continue
		}
		below := strings.TrimPrefix(r.Cgroup, mount)
		dirs, err := filepath.Glob(filepath.Join(mount, below))
		if err != nil {
			continue // the pattern is another kind's: what engines tell of is compared with it
		}
		for _, dir := range dirs {
			if info, err := os.Stat(dir); err == nil && info.IsDir() && dir != mount {
				all = append(all, dir)
			}
		}
	}
	slices.Sort(all)
	for _, group := range own {
		all = exclude(all, group)
	}
	return slices.Compact(all)
}

// own are the directories of this program's groups, in which its guard is too.
func (c *Containers) own() (dirs []string) {
	own, _, err := c.layout.Of(c.self)
	if err != nil {
		return nil
	}
	for _, place := range own.Places {
		dirs = append(dirs, place.Dir())
	}
	return dirs
}

// runsIn tells whether this program runs in a container, by its own groups or, where the
// container has none, by the container's processes.
func (c *Containers) runsIn(one container.Container, own []string) bool {
	if one.Cgroup != "" {
		return slices.ContainsFunc(own, func(group string) bool { return len(exclude([]string{one.Cgroup}, group)) == 0 })
	}
	pids, err := one.Processes()
	return err == nil && slices.Contains(pids, c.self)
}

// exclude leaves out the groups that one is in, or is.
func exclude(dirs []string, one string) []string {
	if one == "" {
		return dirs
	}
	return slices.DeleteFunc(dirs, func(dir string) bool { return one == dir || strings.HasPrefix(one, dir+"/") })
}

// Watched are the directories in which groups of containers come and go: of those that are
// there, and of those that rules name, as far as they exist.
func (c *Containers) Watched(found []container.Container) []string {
	mount := c.mount()
	if mount == "" {
		return nil
	}
	all := []string{mount}
	for _, one := range found {
		if dir := filepath.Dir(one.Cgroup); strings.HasPrefix(dir, mount) {
			all = append(all, dir)
		}
	}
	for _, r := range c.config().Rules {
		if r.Cgroup == "" {
			continue
		}
		dirs, err := filepath.Glob(filepath.Dir(filepath.Join(mount, strings.TrimPrefix(r.Cgroup, mount))))
		if err != nil {
			continue
		}
		all = append(all, dirs...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
