package procfs

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// resolveCached is RESOLVE_CACHED of include/uapi/linux/openat2.h.
const resolveCached = 0x20

// Settle asks the kernel for the paths whose text has two readings: with "\012" in them, or
// with " (deleted)" at the end. /proc/PID/map_files has the path without escapes and leads to
// the file itself. Where it cannot be read the text's first reading stays: without
// CAP_CHECKPOINT_RESTORE, while the process' memory is locked, and before Linux 5.12, which has no RESOLVE_CACHED.
func (p Process) Settle(maps []Mapping) {
	for i := range maps {
		m := &maps[i]
		if !m.Deleted && !strings.Contains(m.Path, "\n") {
			continue
		}
		was := *m
		settled, err := OfMemory(p, "map_files", func() (Mapping, error) { return p.settled(was) })
		if errors.Is(err, ErrLocked) {
			return
		}
		if err == nil {
			*m = settled
		}
	}
}

func (p Process) settled(m Mapping) (Mapping, error) {
	link := p.Path(fmt.Sprintf("map_files/%x-%x", m.Start, m.End))
	name, err := os.Readlink(link)
	if err != nil {
		return m, err
	}
	m.Path, m.Deleted = strings.CutSuffix(name, deleted)
	if m.Deleted && p.holds(link, name) {
		m.Path, m.Deleted = name, false
	}
	return m, nil
}

// holds reports whether the file that a link leads to is at that path, in the process' root or
// in ours: the kernel prints paths as its reader sees them, and a process may have a root of its own.
func (p Process) holds(link, path string) bool {
	mapped, err := identify(unix.AT_FDCWD, link, 0)
	if err != nil {
		return false
	}
	for _, root := range []string{p.Path("root"), "/"} {
		dir, err := unix.Open(root, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		// A path of a file that is mapped is in the kernel's cache. Nothing else is looked
		// up, so no file system has to answer.
		found, err := identify(dir, path, resolveCached|unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_SYMLINKS)
		_ = unix.Close(dir)
		if err == nil && found == mapped {
			return true
		}
	}
	return false
}

// Executable identifies what a process executes as stat does, and asks no file system, which might not
// answer.
func (p Process) Executable() (device, inode uint64, err error) {
	id, err := identify(unix.AT_FDCWD, p.Path("exe"), 0)
	return unix.Mkdev(id.major, id.minor), id.inode, err
}

// fileID identifies a file, as stat does.
type fileID struct {
	major, minor uint32
	inode        uint64
}

// identify gives the file at a path without opening it. Its file system is not asked either:
// what the kernel knows is enough (AT_STATX_DONT_SYNC).
func identify(dir int, path string, resolve uint64) (fileID, error) {
	fd, err := unix.Openat2(dir, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve})
	if err != nil {
		return fileID{}, err
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written to it
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &st); err != nil {
		return fileID{}, err
	}
	return fileID{st.Dev_major, st.Dev_minor, st.Ino}, nil
}
