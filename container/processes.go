package container

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"tare/kernel/procfs"
	"tare/kernel/small"
)

// OfProcess is the process with that id, with all that descends from it, as a
// container. The error is an *Ended.
func OfProcess(pid int) (Container, error) { return ofProcess(procfs.Host, pid) }

func ofProcess(proc procfs.FS, pid int) (Container, error) {
	name := "pid:" + strconv.Itoa(pid)
	if pid <= 0 {
		return Container{}, fmt.Errorf("%s is no process: ids begin with 1", name)
	}
	stat, err := proc.Process(pid).Stat()
	switch {
	case procfs.Gone(err):
		return Container{}, &Ended{"process " + strconv.Itoa(pid)}
	case err != nil:
		return Container{}, err
	case stat.Zombie():
		return Container{}, &Ended{"process " + strconv.Itoa(pid)}
	}
	if leader := leaderOf(proc, pid); leader != pid {
		return Container{}, fmt.Errorf("%s is a thread: its process is pid:%d", name, leader)
	}
	return Container{Engine: Process, ID: strconv.Itoa(pid), Name: stat.Comm + "/" + strconv.Itoa(pid), PID: pid}, nil
}

// leaderOf is the id of the process that a thread belongs to. /proc does not list
// threads, and answers all the same if it is asked for one.
func leaderOf(proc procfs.FS, thread int) int {
	b, err := os.ReadFile(proc.Process(thread).Path("status"))
	if err != nil {
		return thread // it has just ended, which the next to ask will find
	}
	for line := range bytes.Lines(b) {
		if id, ok := bytes.CutPrefix(line, []byte("Tgid:")); ok {
			if leader, err := strconv.Atoi(string(bytes.TrimSpace(id))); err == nil {
				return leader
			}
		}
	}
	return thread
}

// Processes lists the ids of its processes, the first process first and the
// others ascending: all those in its control group and below, but for what is of another
// container there, or, where it has no group of its own, its first process with all that descends from it.
// Those that end meanwhile may be among them, those that begin may be missing.
// It is empty where the container has ended.
func (c Container) Processes() ([]int, error) { return c.processes(procfs.Host) }

func (c Container) processes(proc procfs.FS) ([]int, error) {
	var pids []int
	var err error
	if c.Cgroup != "" {
		pids, err = below(c.Cgroup, c.inner...)
	} else {
		pids, err = descendants(proc, c.PID)
	}
	if err != nil {
		return nil, fmt.Errorf("processes of %s %s: %w", c.Engine, c.Name, err)
	}
	slices.Sort(pids)
	pids = slices.Compact(pids)
	if i := slices.Index(pids, c.PID); i > 0 {
		pids = slices.Insert(slices.Delete(pids, i, i+1), 0, c.PID)
	}
	return pids, nil
}

// below lists the processes of a control group and of all groups in it but some.
func below(dir string, but ...string) ([]int, error) {
	var pids []int
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENODEV):
			return nil // it was removed meanwhile
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		case slices.Contains(but, name):
			return fs.SkipDir
		}
		in, err := members(name)
		if pids = append(pids, in...); err == nil && isLowest(d) {
			return fs.SkipDir
		}
		return err
	})
	return pids, err
}

// isLowest reports of a group that there is none below it, without listing its files, of which there are
// dozens: a directory's links are two and one for each directory in it. A file system that does not count
// them so says one.
func isLowest(d fs.DirEntry) bool {
	info, err := d.Info()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink == 2
}

// members lists the processes in one control group.
func members(dir string) ([]int, error) {
	b, err := small.Read(filepath.Join(dir, "cgroup.procs"))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENODEV):
		return nil, nil
	case errors.Is(err, syscall.EOPNOTSUPP):
		// Version 2 lists the processes of a threaded group in the group above,
		// which is one of those that are read.
		return nil, nil
	case err != nil:
		return nil, err
	}
	var pids []int
	for line := range bytes.Lines(b) {
		pid, err := strconv.Atoi(string(bytes.TrimSpace(line)))
		if err != nil {
			return nil, fmt.Errorf("%s/cgroup.procs: %w", dir, err)
		}
		if pid > 0 { // 0 is a process outside our process namespace
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// descendants lists the process and all that descends from it. A process whose parent has
// ended descends from another, and is found no more.
func descendants(proc procfs.FS, pid int) ([]int, error) {
	if _, err := proc.Process(pid).Stat(); err != nil {
		if procfs.Gone(err) {
			return nil, nil
		}
		return nil, err
	}
	pids := []int{pid}
	for i := 0; i < len(pids); i++ {
		children, err := proc.Process(pids[i]).Children()
		if err != nil && !procfs.Gone(err) {
			return nil, err
		}
		for _, child := range children {
			if !slices.Contains(pids, child) {
				pids = append(pids, child)
			}
		}
	}
	return pids, nil
}
