package cgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// ErrEmpty says that a group holds no process to freeze.
var ErrEmpty = errors.New("it holds no process")

// Freeze stops every process of the group and of the groups below it where it is, and
// returns when all stand still. A group that is frozen stays so. Where it fails the group
// is thawed. The error wraps [ErrEmpty] where there is no process.
//
// Version 2 does it (cgroup.freeze, Linux 5.2) where the group's place there holds its
// processes, and version 1's freezer elsewhere. Both wake a thread that sleeps in the kernel
// and send it to sleep again: epoll_wait(2) returns EINTR, as it does after SIGSTOP, and
// most other system calls go on. SIGKILL ends a process that version 2 has frozen. One that
// version 1 has frozen ends when it is thawed.
func (g Group) Freeze(ctx context.Context) error {
	p, err := g.freezer()
	if err != nil {
		return fmt.Errorf("freezing cgroup %s: %w", g, err)
	}
	if err := p.freeze(ctx); err != nil {
		return fmt.Errorf("freezing cgroup %s: %w", p.Dir(), errors.Join(err, g.Thaw(context.WithoutCancel(ctx))))
	}
	return nil
}

// Thaw lets the processes of the group run, whichever version has frozen them. A group that
// is not frozen, or not there, is no error.
func (g Group) Thaw(context.Context) error {
	for _, p := range g.Places {
		var err error
		switch {
		case p.Version == 2:
			err = optional(p.write("cgroup.freeze", "0"))
		case p.Has("freezer"):
			err = optional(p.write("freezer.state", "THAWED"))
		}
		// The group may be removed between the opening of a file and the writing.
		if err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("thawing cgroup %s: %w", p.Dir(), err)
		}
	}
	return nil
}

// Frozen reports whether the processes of the group are frozen, by whichever version, or are about
// to be: here, or in a group above. Where it has no place that shows it, they are not.
func (g Group) Frozen() (bool, error) {
	for _, p := range g.Places {
		switch {
		case p.Version == 2:
			events, err := readKeyed(p.Dir(), "cgroup.events")
			if optional(err) != nil {
				return false, err
			}
			if events["frozen"] == 1 {
				return true, nil
			}
		case p.Has("freezer"):
			state, err := readFile(p.Dir(), "freezer.state")
			if optional(err) != nil {
				return false, err
			}
			if state == "FROZEN" || state == "FREEZING" {
				return true, nil
			}
		}
	}
	return false, nil
}

// HasFreezer reports whether this host can freeze groups.
func (l Layout) HasFreezer() bool {
	for _, h := range l.Hierarchies {
		if h.Version == 1 && h.Has("freezer") {
			return true
		}
	}
	h, ok := l.Unified()
	if !ok {
		return false
	}
	// The root cannot be frozen, so that only groups below it have the file.
	if files, err := filepath.Glob(filepath.Join(h.Mount, "*", "cgroup.freeze")); err == nil && len(files) > 0 {
		return true
	}
	var name unix.Utsname
	return unix.Uname(&name) == nil && since(unix.ByteSliceToString(name.Release[:]), 5, 2)
}

// freezer finds the place by which the group is frozen: that of version 2 where processes
// are in it, else that of version 1's freezer.
func (g Group) freezer() (Place, error) {
	var one Group
	for _, p := range g.Places {
		if p.Version == 1 && p.Has("freezer") {
			one.Places = append(one.Places, p)
		}
		if p.Version != 2 {
			continue
		}
		events, err := readKeyed(p.Dir(), "cgroup.events")
		if optional(err) != nil && !errors.Is(err, unix.ENODEV) {
			return Place{}, err
		}
		if _, freezes := events["frozen"]; freezes && events["populated"] == 1 {
			return p, nil
		}
	}
	pids, err := one.Processes()
	if err != nil {
		return Place{}, err
	}
	if len(pids) == 0 {
		return Place{}, ErrEmpty
	}
	return one.Places[0], nil
}

func (p Place) freeze(ctx context.Context) error {
	if p.Version == 2 {
		if err := p.write("cgroup.freeze", "1"); err != nil {
			return err
		}
		return p.awaitFrozen(ctx)
	}
	if err := p.write("freezer.state", "FROZEN"); err != nil {
		return err
	}
	// Version 1 informs nobody of the change: to read the file is what makes it look.
	for wait := 20 * time.Microsecond; ; wait = min(2*wait, longestWait) {
		state, err := readFile(p.Dir(), "freezer.state")
		if err != nil || state == "FROZEN" {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("its state is %s: %w", state, context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}

// longestWait bounds a wait for the kernel's word: it reports changes in cgroup.events at
// most every 10 ms (CGROUP_FILE_NOTIFY_MIN_INTV), and of those between them late.
const longestWait = 10 * time.Millisecond

// awaitFrozen waits until cgroup.events says that the group is frozen.
func (p Place) awaitFrozen(ctx context.Context) error {
	file := p.File("cgroup.events")
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: file, Err: err}
	}
	defer unix.Close(fd)
	b := make([]byte, 512)
	for wait := 100 * time.Microsecond; ; wait = min(2*wait, longestWait) {
		n, err := unix.Pread(fd, b, 0)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return &os.PathError{Op: "read", Path: file, Err: err}
		}
		events, err := ParseKeyed(bytes.NewReader(b[:max(0, n)]))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if events["frozen"] == 1 {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("some of its processes run still: %w", context.Cause(ctx))
		}
		timeout := unix.NsecToTimespec(int64(wait))
		_, err = unix.Ppoll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}, &timeout, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("waiting for %s: %w", file, err)
		}
	}
}
