package profile

import (
	"bufio"
	"fmt"
	"io"
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
// samples tell no more than a number.
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
	f, err := os.Open(p.Path("maps"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if t.maps, err = parseMaps(f); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return t, nil
}

// parseMaps parses /proc/PID/maps and keeps what can be executed.
func parseMaps(r io.Reader) ([]mapping, error) {
	var maps []mapping
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 1<<16)
	for scan.Scan() {
		line := scan.Text()
		fields, file := mapsFields(line)
		if len(fields) < 5 {
			return nil, fmt.Errorf("%q is no mapping", line)
		}
		if !strings.Contains(fields[1], "x") {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		start, err := strconv.ParseUint(from, 16, 64)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		end, err := strconv.ParseUint(to, 16, 64)
		if err != nil || end < start {
			return nil, fmt.Errorf("%q has no end", line)
		}
		offset, err := strconv.ParseUint(fields[2], 16, 64)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		maps = append(maps, mapping{start: start, end: end, offset: offset, file: file})
	}
	return maps, scan.Err()
}

// mapsFields parts a line into "address-end perms offset dev inode" and the
// path, which may hold blanks.
func mapsFields(line string) (fields []string, path string) {
	rest := line
	for len(fields) < 5 && rest != "" {
		var field string
		field, rest, _ = strings.Cut(rest, " ")
		if field != "" {
			fields = append(fields, field)
		}
	}
	return fields, strings.TrimLeft(rest, " ")
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

// contained tells by the names that engines, runtimes and tare give to the
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
