package bursts

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cilium/ebpf/btf"

	"tare/kernel/cgroup"
)

// maxHierarchies is how many the programs can look a task up in.
const maxHierarchies = 4

// directory is a control group as the programs know it. bpf/bursts.c lays it out.
type directory struct {
	ID           uint64
	Hierarchy, _ uint32
}

// hierarchies finds which hierarchies directories are of.
type hierarchies struct {
	layout     cgroup.Layout
	kernel     *btf.Spec
	subsystems []int32 // of each hierarchy in use; -1 is version 2
	known      map[int32]uint32
}

func newHierarchies() (*hierarchies, error) {
	layout, err := cgroup.Host()
	if err != nil {
		return nil, err
	}
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kernelBTF, err)
	}
	return &hierarchies{layout: layout, kernel: kernel, known: map[int32]uint32{}}, nil
}

// locate says what a directory is to the kernel.
func (h *hierarchies) locate(dir string) (directory, error) {
	path, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return directory{}, fmt.Errorf("control group %s: %w", dir, err)
	}
	var in *cgroup.Hierarchy
	for i, l := range h.layout.Hierarchies {
		if (path == l.Mount || strings.HasPrefix(path, l.Mount+"/")) && (in == nil || len(l.Mount) > len(in.Mount)) {
			in = &h.layout.Hierarchies[i]
		}
	}
	id, ok := inode(path)
	if in == nil || !ok {
		return directory{}, fmt.Errorf("%s is no control group: name a directory below a mounted hierarchy, as /proc/PID/cgroup and the mounts tell", dir)
	}
	at, err := h.use(in)
	if err != nil {
		return directory{}, fmt.Errorf("control group %s: %w", dir, err)
	}
	return directory{ID: id, Hierarchy: at}, nil
}

// inode is a directory's, which is the id that the kernel has of a group.
func inode(path string) (uint64, bool) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return 0, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return stat.Ino, true
}

// use gives a hierarchy a number among those in use.
func (h *hierarchies) use(in *cgroup.Hierarchy) (uint32, error) {
	subsystem, err := h.subsystem(in)
	if err != nil {
		return 0, err
	}
	at, ok := h.known[subsystem]
	if !ok {
		if len(h.subsystems) == maxHierarchies {
			return 0, fmt.Errorf("the targets are of more than %d hierarchies: name all by one controller's", maxHierarchies)
		}
		at = uint32(len(h.subsystems))
		h.subsystems = append(h.subsystems, subsystem)
		h.known[subsystem] = at
	}
	return at, nil
}

// subsystem is the kernel's number of a hierarchy's first controller, by which a
// task's place in it is found; -1 of version 2.
func (h *hierarchies) subsystem(in *cgroup.Hierarchy) (int32, error) {
	if in.Version == 2 {
		return -1, nil
	}
	var ids *btf.Enum
	if err := h.kernel.TypeByName("cgroup_subsys_id", &ids); err != nil {
		return 0, fmt.Errorf("find the controllers in %s: %w", kernelBTF, err)
	}
	for _, controller := range in.Controllers {
		if controller == "blkio" {
			controller = "io" // its name since version 2
		}
		for _, v := range ids.Values {
			if v.Name == controller+"_cgrp_id" {
				return int32(v.Value), nil
			}
		}
	}
	return 0, fmt.Errorf("its hierarchy has no controller: name the group's directory in one that has, such as memory or pids")
}

// whole picks the hierarchy whose groups are told apart.
func (h *hierarchies) whole(controller string) (*cgroup.Hierarchy, error) {
	wanted := []string{controller}
	if controller == "" {
		if two, ok := h.layout.Unified(); ok && two.Has("memory") {
			return &two, nil
		}
		wanted = []string{"memory", "cpu", "pids"}
	}
	for _, c := range wanted {
		if in, ok := h.layout.For(c); ok {
			return &in, nil
		}
	}
	return nil, fmt.Errorf("no hierarchy of control groups carries the controller %s: mount one, or name targets", strings.Join(wanted, ", "))
}

// paths finds the groups of a hierarchy by their ids.
func paths(in *cgroup.Hierarchy) map[uint64]string {
	all := map[uint64]string{}
	// What has gone meanwhile, or cannot be read, has no name.
	_ = filepath.WalkDir(in.Mount, func(dir string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && d != nil && d.IsDir():
			return fs.SkipDir
		case err != nil || !d.IsDir():
			return nil
		}
		if id, ok := inode(dir); ok {
			all[id] = filepath.Join("/", in.Root, strings.TrimPrefix(dir, in.Mount))
		}
		return nil
	})
	return all
}
