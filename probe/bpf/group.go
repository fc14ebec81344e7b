package bpf

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cilium/ebpf/btf"

	"tare/kernel/cgroup"
)

// MostHierarchies is how many hierarchies of control groups programs can look a task up in.
const MostHierarchies = 4

// Group is a control group as programs find it. kernel/bpf/group.h lays it out.
type Group struct {
	ID           uint64 // its directory's inode
	Hierarchy, _ uint32 // its place in [Hierarchies.Subsystems]
}

// Hierarchies finds which hierarchies control groups are of. Of a host it is made by
// [NewHierarchies].
type Hierarchies struct {
	Layout cgroup.Layout
	// Subsystems are the kernel's numbers of those in use, each of its first controller; -1 is
	// version 2.
	Subsystems []int32

	kernel *btf.Spec
	known  map[int32]uint32
}

// NewHierarchies makes one of which none is in use yet.
func NewHierarchies(kernel *btf.Spec) (*Hierarchies, error) {
	layout, err := cgroup.Host()
	if err != nil {
		return nil, err
	}
	return &Hierarchies{Layout: layout, kernel: kernel, known: map[int32]uint32{}}, nil
}

// Locate finds a group by its directory.
func (h *Hierarchies) Locate(dir string) (Group, error) {
	path, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return Group{}, fmt.Errorf("control group %s: %w", dir, err)
	}
	var in *cgroup.Hierarchy
	for i, l := range h.Layout.Hierarchies {
		if (path == l.Mount || strings.HasPrefix(path, l.Mount+"/")) && (in == nil || len(l.Mount) > len(in.Mount)) {
			in = &h.Layout.Hierarchies[i]
		}
	}
	id, ok := GroupID(path)
	if in == nil || !ok {
		return Group{}, fmt.Errorf("%s is no control group: name a directory below a mounted hierarchy, as /proc/PID/cgroup and the mounts show", dir)
	}
	at, err := h.Use(in)
	if err != nil {
		return Group{}, fmt.Errorf("control group %s: %w", dir, err)
	}
	return Group{ID: id, Hierarchy: at}, nil
}

// GroupID is what the kernel calls the group of a directory; false where it is none.
func GroupID(dir string) (uint64, bool) {
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return 0, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return stat.Ino, true
}

// Use gives a hierarchy its place among those in use.
func (h *Hierarchies) Use(in *cgroup.Hierarchy) (uint32, error) {
	subsystem := int32(-1)
	if in.Version == 1 {
		var err error
		if subsystem, err = Subsystem(h.kernel, in.Controllers...); err != nil {
			return 0, fmt.Errorf("%w: name the group's directory in a hierarchy that has one, such as memory or pids", err)
		}
	}
	at, ok := h.known[subsystem]
	if !ok {
		if len(h.Subsystems) == MostHierarchies {
			return 0, fmt.Errorf("the targets are of more than %d hierarchies: name all by one controller's", MostHierarchies)
		}
		at = uint32(len(h.Subsystems))
		h.Subsystems = append(h.Subsystems, subsystem)
		h.known[subsystem] = at
	}
	return at, nil
}

// Subsystem is the kernel's number of the first of some controllers that it has, by which a task's
// place in a hierarchy of version 1 is found.
func Subsystem(kernel *btf.Spec, controllers ...string) (int32, error) {
	var ids *btf.Enum
	if err := kernel.TypeByName("cgroup_subsys_id", &ids); err != nil {
		return 0, fmt.Errorf("find the controllers in %s: %w", kernelBTF, err)
	}
	for _, controller := range controllers {
		if controller == "blkio" {
			controller = "io" // its name since version 2
		}
		for _, v := range ids.Values {
			if v.Name == controller+"_cgrp_id" {
				return int32(v.Value), nil
			}
		}
	}
	return 0, fmt.Errorf("the kernel names no controller of %q", controllers)
}
