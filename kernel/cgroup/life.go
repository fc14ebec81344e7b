package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Create makes the group in each of its hierarchies, with what it needs above
// it. controllers are those that version 2 is to hand down to it; version 1
// has them where it has them. What exists already stays.
func (g Group) Create(controllers ...string) error {
	for _, p := range g.Places {
		if err := p.create(controllers); err != nil {
			return fmt.Errorf("making cgroup %s: %w", p.Dir(), err)
		}
	}
	return nil
}

func (p Place) create(controllers []string) error {
	// Another group's removal may take the empty parent away between the two
	// steps of making a child.
	var err error
	for range 10 {
		if err = os.MkdirAll(p.Dir(), 0o755); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return err
	}
	if p.Version == 2 {
		return p.handDown(controllers)
	}
	if p.Has("cpuset") {
		return p.inheritCPUs()
	}
	return nil
}

// inheritCPUs gives version 1 cpusets what is above them: they are made
// empty, and an empty one takes no process.
func (p Place) inheritCPUs() error {
	if p.Path == "/" || p.Path == p.Root {
		return nil
	}
	parent := Place{p.Hierarchy, path.Dir(p.Path)}
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		own, err := readFile(p.Dir(), name)
		if err != nil {
			return err
		}
		if own != "" {
			continue
		}
		if err := parent.inheritCPUs(); err != nil {
			return err
		}
		above, err := readFile(parent.Dir(), name)
		if err != nil {
			return err
		}
		if err := p.write(name, above); err != nil {
			return err
		}
	}
	return nil
}

// ProcessFiles are the files that a process joins the group by, writing its id.
func (g Group) ProcessFiles() []string {
	files := make([]string, len(g.Places))
	for i, p := range g.Places {
		files[i] = filepath.Join(p.Dir(), "cgroup.procs")
	}
	return files
}

// Directory opens the group's place in the version 2 hierarchy, so that a
// process can be born in it; ok is false where it has none.
func (g Group) Directory() (dir *os.File, ok bool, err error) {
	for _, p := range g.Places {
		if p.Version == 2 {
			dir, err = os.Open(p.Dir())
			return dir, true, err
		}
	}
	return nil, false, nil
}

// Kill ends every process of the group with SIGKILL and returns when none is
// left. A group that is not there has none.
func (g Group) Kill(ctx context.Context) error {
	for wait := 100 * time.Microsecond; ; wait = min(2*wait, 10*time.Millisecond) {
		pids, err := g.Processes()
		if err != nil {
			return fmt.Errorf("ending the processes of cgroup %s: %w", g, err)
		}
		if len(pids) == 0 {
			return nil
		}
		if err := g.killOnce(); err != nil {
			return err
		}
		// An exiting process leaves its group when its memory is gone, which
		// may take a while and makes no event in version 1.
		select {
		case <-ctx.Done():
			return fmt.Errorf("cgroup %s still holds %d processes (%v...): %w", g, len(pids), pids[0], ctx.Err())
		case <-time.After(wait):
		}
	}
}

func (g Group) killOnce() error {
	var rest Group // what version 2 does not reach
	for _, p := range g.Places {
		if p.Version == 1 {
			rest.Places = append(rest.Places, p)
			continue
		}
		// The kernel reaches every descendant, forks under way included.
		if err := p.write("cgroup.kill", "1"); err != nil {
			if optional(err) != nil {
				return err
			}
			rest.Places = append(rest.Places, p) // before Linux 5.14
		}
	}
	// Hold the group still, so that nothing forks away while it is listed.
	if p, ok := rest.For("freezer"); ok && p.Version == 1 {
		if err := p.write("freezer.state", "FROZEN"); optional(err) != nil {
			return err
		}
		defer func() { _ = p.write("freezer.state", "THAWED") }()
	}
	pids, err := rest.Processes()
	if err != nil {
		return err
	}
	for some := range slices.Chunk(pids, mostHeld) {
		if err := rest.killThose(some); err != nil {
			return err
		}
	}
	return nil
}

// mostHeld is how many processes are held open at a time.
const mostHeld = 256

// killThose ends those of some processes that are in the group. Others may have the ids by now of those that ended
// since they were listed: so each is held first, and then looked for in the group.
func (g Group) killThose(pids []int) (err error) {
	held := map[int]int{}
	defer func() {
		for _, fd := range held {
			_ = unix.Close(fd) // nothing was written to it
		}
	}()
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return fmt.Errorf("opening process %d of cgroup %s: %w", pid, g, err)
		}
		held[pid] = fd
	}
	members, err := g.Processes()
	if err != nil {
		return err
	}
	for pid, fd := range held {
		if !slices.Contains(members, pid) {
			continue
		}
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("killing process %d of cgroup %s: %w", pid, g, err)
		}
	}
	return nil
}

// Remove removes the group, which must hold no process, and all groups below
// it; and the group above it, if that is then empty and is named as one of
// tare's. A group that is not there is removed already.
func (g Group) Remove(ctx context.Context) error {
	var errs []error
	for _, p := range g.Places {
		if err := p.remove(ctx); err != nil {
			errs = append(errs, fmt.Errorf("removing cgroup: %w", err))
		}
	}
	return errors.Join(errs...)
}

func (p Place) remove(ctx context.Context) error {
	if p.Path == "/" {
		return errors.New("will not remove the root of a hierarchy")
	}
	if err := removeTree(ctx, p.Dir()); err != nil {
		return err
	}
	if up := path.Dir(p.Path); strings.HasPrefix(path.Base(up), "tare") {
		// Shared with other groups of ours: whoever is last takes it away.
		_ = os.Remove(Place{p.Hierarchy, up}.Dir())
	}
	return nil
}

func removeTree(ctx context.Context, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return optional(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(ctx, filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	for wait := 100 * time.Microsecond; ; wait = min(2*wait, 10*time.Millisecond) {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		// Busy while the last process is being torn down.
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", err, ctx.Err())
		case <-time.After(wait):
		}
	}
}

// Add moves a process, all its threads, into the group. What it has started
// before stays where it is.
func (g Group) Add(pid int) error {
	for _, file := range g.ProcessFiles() {
		if err := os.WriteFile(file, []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("moving process %d into a cgroup: %w", pid, err)
		}
	}
	return nil
}

// Join moves the calling process, all its threads, into the groups with those
// process files.
func Join(files []string) error {
	for _, file := range files {
		if err := os.WriteFile(file, []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
			return fmt.Errorf("joining a cgroup: %w", err)
		}
	}
	return nil
}

// Enclose makes the groups that this process is in the roots of what it sees of control groups, in a
// mount namespace of its own: the hierarchies are mounted anew. It is for the calling thread, and for
// what that executes and starts. See cgroup_namespaces(7).
func Enclose() error {
	layout, err := Host()
	if err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return os.NewSyscallError("unshare(CLONE_NEWCGROUP)", err)
	}
	for _, h := range layout.Hierarchies {
		if err := h.mountAnew(); err != nil {
			return &os.PathError{Op: "mount control groups anew on", Path: h.Mount, Err: err}
		}
	}
	return nil
}

func (h Hierarchy) mountAnew() error {
	fsType, options := "cgroup2", ""
	if h.Version == 1 {
		fsType, options = "cgroup", strings.Join(h.Controllers, ",")
		if h.Name != "" {
			options = "none,name=" + h.Name
		}
	}
	if err := unix.Unmount(h.Mount, unix.MNT_DETACH); err != nil {
		return err
	}
	return unix.Mount(fsType, h.Mount, fsType, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options)
}
