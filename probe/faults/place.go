package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cilium/ebpf/btf"

	"tare/kernel/cgroup"
)

// maxHierarchies is how many hierarchies of control groups targets may be of.
const maxHierarchies = 4

// directory is a control group's, as bpf/faults.c names it.
type directory struct {
	ID           uint64
	Hierarchy, _ uint32
}

// places finds which hierarchies directories are of.
type hierarchies struct {
	layout     cgroup.Layout
	kernel     *btf.Spec
	subsystems []int32 // of each hierarchy in use; -1 is version 2
	known      map[int32]uint32
}

// locate says what a directory is to the kernel.
func (h *hierarchies) locate(dir string) (directory, error) {
	path, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return directory{}, fmt.Errorf("control group %s: %w", dir, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return directory{}, fmt.Errorf("control group %s: %w", dir, err)
	}
	var in *cgroup.Hierarchy
	for i, l := range h.layout.Hierarchies {
		if (path == l.Mount || strings.HasPrefix(path, l.Mount+"/")) && (in == nil || len(l.Mount) > len(in.Mount)) {
			in = &h.layout.Hierarchies[i]
		}
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if in == nil || !ok || !info.IsDir() {
		return directory{}, fmt.Errorf("%s is no control group: name a directory below a mounted hierarchy, as /proc/PID/cgroup and the mounts tell", dir)
	}
	subsystem, err := h.subsystem(in)
	if err != nil {
		return directory{}, fmt.Errorf("control group %s: %w", dir, err)
	}
	at, ok := h.known[subsystem]
	if !ok {
		if len(h.subsystems) == maxHierarchies {
			return directory{}, fmt.Errorf("control group %s: the targets are of more than %d hierarchies: name all by one controller's", dir, maxHierarchies)
		}
		at = uint32(len(h.subsystems))
		h.subsystems = append(h.subsystems, subsystem)
		h.known[subsystem] = at
	}
	// A directory's inode is the id that the kernel has of it.
	return directory{ID: stat.Ino, Hierarchy: at}, nil
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
