package monitor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"tare/kernel/cgroup"
)

// locate finds which group a directory is, and the kernel's id of it, which is the
// directory's inode.
func locate(layout cgroup.Layout, dir string) (cgroup.Place, uint64, error) {
	path, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return cgroup.Place{}, 0, fmt.Errorf("%s: %w", dir, ErrGone)
	}
	if err != nil {
		return cgroup.Place{}, 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return cgroup.Place{}, 0, err
	}
	var in *cgroup.Hierarchy
	for i, h := range layout.Hierarchies {
		if (path == h.Mount || strings.HasPrefix(path, h.Mount+"/")) && (in == nil || len(h.Mount) > len(in.Mount)) {
			in = &layout.Hierarchies[i]
		}
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if in == nil || !ok || !info.IsDir() || in.Version == 1 && !in.Has("memory") {
		return cgroup.Place{}, 0, fmt.Errorf("%s is no control group of the memory controller's hierarchy, nor of version 2: name the directory there, as /proc/PID/cgroup and the mounts tell", dir)
	}
	return cgroup.Place{
		Hierarchy: *in,
		Path:      filepath.Join("/", in.Root, strings.TrimPrefix(path, in.Mount)),
	}, stat.Ino, nil
}

// hierarchyOf is the number that bpf/monitor.c has of a place's.
func hierarchyOf(p cgroup.Place) uint32 {
	if p.Version == 2 {
		return 1
	}
	return 0
}
