package profile

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"tare/kernel/procfs"
	"tare/probe"
)

// snapshot is what ran before the recording.
type snapshot struct {
	tasks   map[int]*task
	cgroups map[uint64]string
}

// takeSnapshot reads every process. Those that end meanwhile are left out: their
// samples have no more than a number.
func takeSnapshot() snapshot {
	s := snapshot{tasks: map[int]*task{}, cgroups: cgroups()}
	entries, err := os.ReadDir(string(procfs.Host))
	if err != nil {
		return s
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if t, err := readTask(procfs.Host.Process(pid)); err == nil {
			s.tasks[pid] = t
		}
	}
	return s
}

func readTask(p procfs.Process) (*task, error) {
	stat, err := p.Stat()
	if err != nil {
		return nil, err
	}
	about := &probe.Process{PID: p.PID, Parent: stat.Parent, Comm: stat.Comm}
	t := &task{process: about}
	if about.Exe, err = os.Readlink(p.Path("exe")); err != nil {
		// Kernel threads have no program; of others' programs without the right
		// to look the reason is another.
		about.KernelThread = os.IsNotExist(err) && !stat.Zombie()
		if strings.HasPrefix(about.Comm, "kworker/") {
			// /proc adds what the worker did last, which is not its name.
			about.Comm, _, _ = strings.Cut(about.Comm, "-")
		}
		return t, nil
	}
	if about.Args, err = p.Args(); err != nil {
		return nil, err
	}
	maps, err := p.Maps()
	if err != nil {
		return nil, err
	}
	t.maps = executable(maps)
	return t, nil
}

// executable keeps of what a process maps what can be executed.
func executable(maps []procfs.Mapping) []mapping {
	var kept []mapping
	for i := range maps {
		if m := &maps[i]; m.Execute {
			kept = append(kept, mapping{start: m.Start, end: m.End, offset: m.Offset, file: m.Name()})
		}
	}
	return kept
}

// cgroups lists the control groups of the hierarchy by which perf events name
// them (version 1's perf_event where it is mounted, else version 2's): a group's
// id is its directory's inode.
func cgroups() map[uint64]string {
	paths := map[uint64]string{}
	root := cgroupRoot()
	if root == "" {
		return paths
	}
	filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // a group that went meanwhile
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			paths[st.Ino] = "/" + strings.TrimPrefix(strings.TrimPrefix(path, root), "/")
		}
		return nil
	})
	return paths
}

func cgroupRoot() string {
	mounts, err := procfs.Host.Process(self).Mounts()
	if err != nil {
		return ""
	}
	unified := ""
	for _, m := range mounts {
		switch m.FSType {
		case "cgroup":
			for _, o := range m.SuperOptions {
				if o == "perf_event" {
					return m.Point
				}
			}
		case "cgroup2":
			unified = m.Point
		}
	}
	return unified
}

// contained recognises it by the names that engines, runtimes and tare give to the
// groups of containers.
func contained(cgroup string) bool {
	for part := range strings.SplitSeq(cgroup, "/") {
		if strings.HasSuffix(part, ".service") {
			continue // an engine's own
		}
		for _, name := range []string{"docker", "libpod", "kubepods", "cri-containerd", "crio", "crun", "tare"} {
			if part == name || strings.HasPrefix(part, name+"-") || strings.HasPrefix(part, name+".") {
				return true
			}
		}
	}
	return false
}
