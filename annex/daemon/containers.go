package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
}

// FindContainers makes one. It asks nobody yet.
func FindContainers(of func() config.Config) (*Containers, error) {
	layout, err := cgroup.Host()
	if err != nil {
		return nil, err
	}
	return &Containers{layout: layout, config: of}, nil
}

// Find finds them.
func (c *Containers) Find(ctx context.Context) ([]container.Container, []string, error) {
	// Anew each time: an engine that is started later has its socket from then on.
	// Users' engines are not asked, as what answers at their sockets may be anything: what they
	// run is found by its control groups.
	finder := container.Open(container.Options{Host: true, Layout: &c.layout})
	all, told, err := finder.All(ctx)
	if err != nil {
		return nil, nil, err
	}
	var notes []string
	if asksEngines(c.config().Rules) {
		for _, n := range told {
			notes = append(notes, n.String())
		}
	}
	for _, dir := range c.named() {
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
func (c *Containers) named() []string {
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
	return slices.Compact(exclude(all, c.own()))
}

// own is the directory of this program's group, in which its guard is too: what moves pages
// does not move its own. Empty is that it has none but the root.
func (c *Containers) own() string {
	own, _, err := c.layout.Of(os.Getpid())
	if err != nil {
		return ""
	}
	if place, ok := own.For("memory"); ok && place.Dir() != c.mount() {
		return place.Dir()
	}
	return ""
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
