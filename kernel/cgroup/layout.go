// Package cgroup reads and makes control groups, of version 1, of version 2,
// and of both side by side ("hybrid": the controllers on version 1, an empty
// version 2 hierarchy beside them).
//
// It is not a resource manager: it knows the few files that tare sets and reads
// back. Their meaning is the kernel's: Documentation/admin-guide/cgroup-v1 and
// cgroup-v2.rst, Documentation/scheduler/sched-bwc.rst.
package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tare/kernel/procfs"
)

// Hierarchy is one mounted tree of control groups.
type Hierarchy struct {
	Version     int      // 1 or 2
	Controllers []string // "cpu", "memory", ...; of version 2 those that its root offers
	Name        string   // of a version 1 tree without controllers: "systemd"
	Mount       string   // where it is mounted
	Root        string   // what of the tree is mounted there: "/" but in a container
}

// Layout is every hierarchy of a host, the version 2 one last.
type Layout struct {
	Hierarchies []Hierarchy
}

// Host reads this host's layout.
func Host() (Layout, error) {
	mounts, err := procfs.Host.Process(os.Getpid()).Mounts()
	if err != nil {
		return Layout{}, err
	}
	l := NewLayout(mounts)
	if len(l.Hierarchies) == 0 {
		return Layout{}, fmt.Errorf("no cgroup hierarchy is mounted: mount -t cgroup2 none /sys/fs/cgroup")
	}
	for i, h := range l.Hierarchies {
		if h.Version != 2 {
			continue
		}
		b, err := os.ReadFile(filepath.Join(h.Mount, "cgroup.controllers"))
		if err != nil {
			return Layout{}, err
		}
		l.Hierarchies[i].Controllers = strings.Fields(string(b))
	}
	return l, nil
}

// NewLayout finds the hierarchies among mounts. A hierarchy mounted several
// times is taken where its whole tree can be seen and the path is shortest
// (others are containers' own views). The controllers of version 2 are not in
// the mount table and are left empty.
func NewLayout(mounts []procfs.Mount) Layout {
	best := map[string]Hierarchy{}
	for _, m := range mounts {
		h := Hierarchy{Mount: m.Point, Root: m.Root}
		switch m.FSType {
		case "cgroup2":
			h.Version = 2
		case "cgroup":
			h.Version = 1
			for _, o := range m.SuperOptions {
				if name, ok := strings.CutPrefix(o, "name="); ok {
					h.Name = name
				} else if !slices.Contains(v1Options, o) {
					h.Controllers = append(h.Controllers, o)
				}
			}
			slices.Sort(h.Controllers)
		default:
			continue
		}
		key := h.key()
		if old, ok := best[key]; ok && !better(h, old) {
			continue
		}
		best[key] = h
	}
	var l Layout
	for _, h := range best {
		l.Hierarchies = append(l.Hierarchies, h)
	}
	slices.SortFunc(l.Hierarchies, func(a, b Hierarchy) int {
		if a.Version != b.Version {
			return a.Version - b.Version
		}
		return strings.Compare(a.key(), b.key())
	})
	return l
}

// v1Options are the words in a version 1 mount's options that are no controllers.
var v1Options = []string{"rw", "ro", "xattr", "noprefix", "clone_children", "cpuset_v2_mode", "favordynmods", "none"}

// key distinguishes hierarchies, written as /proc/PID/cgroup writes its second field.
func (h Hierarchy) key() string {
	if h.Version == 2 {
		return ""
	}
	words := slices.Clone(h.Controllers)
	if h.Name != "" {
		words = append(words, "name="+h.Name)
	}
	return strings.Join(words, ",")
}

func better(a, b Hierarchy) bool {
	if (a.Root == "/") != (b.Root == "/") {
		return a.Root == "/"
	}
	return len(a.Mount) < len(b.Mount)
}

// Has reports whether the hierarchy carries the controller.
func (h Hierarchy) Has(controller string) bool { return slices.Contains(h.Controllers, controller) }

// For finds the hierarchy that carries the controller.
func (l Layout) For(controller string) (Hierarchy, bool) {
	for _, h := range l.Hierarchies {
		if h.Has(controller) {
			return h, true
		}
	}
	return Hierarchy{}, false
}

// Unified finds the version 2 hierarchy.
func (l Layout) Unified() (Hierarchy, bool) {
	for _, h := range l.Hierarchies {
		if h.Version == 2 {
			return h, true
		}
	}
	return Hierarchy{}, false
}

// Mode says which versions the host uses: "v1", "v2", or "hybrid (controllers on v1)".
func (l Layout) Mode() string {
	one := slices.ContainsFunc(
		l.Hierarchies,
		func(h Hierarchy) bool { return h.Version == 1 && len(h.Controllers) > 0 },
	)
	_, two := l.Unified()
	switch {
	case one && two:
		return "hybrid (controllers on v1)"
	case one:
		return "v1"
	case two:
		return "v2"
	}
	return "none"
}

// Lacks names the first of the controllers that no hierarchy carries; empty where there
// are all. A kernel for one CPU has no cpuset (CONFIG_CPUSETS depends on SMP) and lacks
// nothing by it: the only list that could be set is what holds anyway.
func (l Layout) Lacks(controllers ...string) string {
	return l.lacks(onlyCPU(), controllers)
}

func (l Layout) lacks(onlyCPU bool, controllers []string) string {
	for _, c := range controllers {
		if _, ok := l.For(c); !ok && !(c == "cpuset" && onlyCPU) {
			return c
		}
	}
	return ""
}

// onlyCPU means that this kernel will never have more than one CPU.
func onlyCPU() bool {
	possible, err := readFile("/sys/devices/system/cpu", "possible")
	return err == nil && possible == "0"
}
