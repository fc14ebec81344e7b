// Package file opens files whose paths, or whose file systems, are in the hands of
// others: of a container, or of another user.
//
// A file is pinned first, by a handle that does nothing to it (O_PATH); looked
// at; and opened only if it is a regular file, by the handle and not by its path again.
// So what is opened is what was looked at, and no device or pipe is opened
// ever: opening one can do anything, or never end. It does not say whether the bytes may be
// believed.
//
// Sources: open(2), openat2(2), statx(2), proc_pid_fd(5).
package file

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrNotRegular says that what is there is no regular file.
var ErrNotRegular = errors.New("no regular file")

// Pinned is a handle on a file that was not opened. Close ends it.
type Pinned struct{ handle *os.File }

// Pin takes hold of what path leads to, links followed.
func Pin(path string) (*Pinned, error) {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return &Pinned{os.NewFile(uintptr(fd), path)}, nil
}

// PinBelow takes hold of path within dir, on dir's mount: no link is followed, and no
// other mount is entered, as one that an attacker laid in the way, or whose
// file system does not answer.
func PinBelow(dir, path string) (*Pinned, error) {
	root, err := Pin(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if path = strings.TrimLeft(path, "/"); path == "" {
		path = "." // what is mounted may be a single file's
		if !root.IsDirectory() {
			return Pin(dir)
		}
	}
	return root.resolve(path, dir+"/"+path, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_XDEV)
}

// PinEntry takes hold of path within dir, a link at its end itself. No link is followed on the way. Other mounts
// are entered.
func PinEntry(dir, path string) (*Pinned, error) {
	return PinThrough(dir, path, func(*Pinned) error { return nil })
}

// PinThrough is [PinEntry] with a check of dir and of each entry on the way, before anything is looked up in it,
// and of the last.
func PinThrough(dir, path string, check func(*Pinned) error) (*Pinned, error) {
	in, err := Pin(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range split(path) {
		next, err := (*Pinned)(nil), check(in)
		if err == nil {
			next, err = in.Entry(name)
		}
		if err = errors.Join(err, in.Close()); err != nil {
			return nil, err
		}
		in = next
	}
	if err := check(in); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return in, nil
}

// Entry takes hold of an entry of a directory that is held, a link itself: what becomes of the directory's path
// makes no difference. It takes no openat2(2), which older seccomp profiles refuse.
func (p *Pinned) Entry(name string) (*Pinned, error) {
	fd, err := -1, error(unix.EXDEV)
	if name != ".." && !strings.Contains(name, "/") {
		fd, err = retry(func() (int, error) {
			return unix.Openat(int(p.handle.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		})
	}
	path := filepath.Join(p.Name(), name)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return &Pinned{os.NewFile(uintptr(fd), path)}, nil
}

// Entries are the names in a directory, at most so many, sorted. isCut reports that there are more.
func (p *Pinned) Entries(most int) (names []string, isCut bool, err error) {
	dir, err := os.OpenFile(p.Path(), os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, false, err
	}
	defer dir.Close()
	names, err = dir.Readdirnames(most + 1)
	if err != nil && err != io.EOF {
		return nil, false, fmt.Errorf("read directory %s: %w", p.Name(), err)
	}
	isCut = len(names) > most
	names = names[:min(most, len(names))]
	slices.Sort(names)
	return names, isCut, nil
}

// PinIn takes hold of what path leads to for a process whose root directory is root: links
// are followed as that process would follow them, so that none leads out.
func PinIn(root, path string) (*Pinned, error) {
	dir, err := Pin(root)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.resolve(path, path, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS)
}

// resolve takes hold of a path seen from a directory. The kernel keeps to the rules of how.
func (p *Pinned) resolve(path, name string, how uint64) (*Pinned, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat2(int(p.handle.Fd()), path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: how})
	})
	// The kernel itself refuses a path for O_PATH by EACCES; EPERM is a seccomp profile's.
	if err == unix.ENOSYS || err == unix.EPERM {
		err = fmt.Errorf("%w: the call openat2 requires Linux 5.6, and a seccomp profile that allows it", err)
	}
	if err != nil {
		return nil, &os.PathError{Op: "openat2", Path: name, Err: err}
	}
	return &Pinned{os.NewFile(uintptr(fd), name)}, nil
}

// retry repeats a call that a signal interrupted, and a look-up that stayed within a
// directory while something was renamed or mounted on the host, by which the kernel could
// not be sure that it did (EAGAIN, openat2(2)).
func retry(call func() (int, error)) (fd int, err error) {
	const most = 1000 // of the latter
	for again := 0; ; {
		switch fd, err = call(); {
		case err == unix.EINTR:
		case err == unix.EAGAIN && again < most:
			again++
		default:
			return fd, err
		}
	}
}

// IsDirectory reports whether it is a directory.
func (p *Pinned) IsDirectory() bool {
	info, err := p.handle.Stat()
	return err == nil && info.IsDir()
}

// Mount is the id of the mount that it lies on, as mountinfo has it. Its file
// system is not asked, which might not answer.
func (p *Pinned) Mount() (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", p.handle.Fd()))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		var id int
		if n, _ := fmt.Sscanf(line, "mnt_id: %d", &id); n == 1 {
			return id, nil
		}
	}
	return 0, fmt.Errorf("%s: the kernel does not say on which mount it lies", p.handle.Name())
}

// Name is the path by which it was found.
func (p *Pinned) Name() string { return p.handle.Name() }

// Lstat describes it, whatever it is.
func (p *Pinned) Lstat() (os.FileInfo, error) { return p.handle.Stat() }

// Readlink is where it leads, if it is a link.
func (p *Pinned) Readlink() (string, error) {
	for size := 256; ; size *= 2 {
		target := make([]byte, size)
		n, err := retry(func() (int, error) { return unix.Readlinkat(int(p.handle.Fd()), "", target) })
		if err != nil {
			return "", &os.PathError{Op: "readlink", Path: p.handle.Name(), Err: err}
		}
		if n < size {
			return string(target[:n]), nil
		}
	}
}

// Stat describes it. The error is an [ErrNotRegular] of anything but a regular file.
func (p *Pinned) Stat() (os.FileInfo, error) {
	info, err := p.handle.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", p.handle.Name(), ErrNotRegular)
	}
	return info, nil
}

// Open opens it for reading, if it is a regular file.
func (p *Pinned) Open() (*os.File, error) {
	if _, err := p.Stat(); err != nil {
		return nil, err
	}
	// A lease that another holds on it is not waited for.
	f, err := os.OpenFile(p.Path(), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", p.handle.Name(), err)
	}
	return f, nil
}

// Close lets go of it. What was opened stays open.
func (p *Pinned) Close() error { return p.handle.Close() }

// Open opens a regular file for reading; the error of anything else is an
// [ErrNotRegular]. Links are followed.
func Open(path string) (*os.File, error) {
	p, err := Pin(path)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p.Open()
}
