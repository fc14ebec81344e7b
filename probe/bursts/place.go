package bursts

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"tare/kernel/cgroup"
	"tare/probe/bpf"
)

// whole picks the hierarchy by whose groups a host is divided.
func whole(layout cgroup.Layout, controller string) (*cgroup.Hierarchy, error) {
	wanted := []string{controller}
	if controller == "" {
		if two, ok := layout.Unified(); ok && two.Has("memory") {
			return &two, nil
		}
		wanted = []string{"memory", "cpu", "pids"}
	}
	for _, c := range wanted {
		if in, ok := layout.For(c); ok {
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
		if id, ok := bpf.GroupID(dir); ok {
			all[id] = filepath.Join("/", in.Root, strings.TrimPrefix(dir, in.Mount))
		}
		return nil
	})
	return all
}
