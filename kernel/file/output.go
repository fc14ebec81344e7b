package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// What root writes where a command line names it may lie in a directory in which others write, as /tmp or a
// user's home. A link there would lead root to write elsewhere. So root follows no link of another user
// on the way to an output, but of the one who ran sudo.

// Replace writes a file of mode 0644 in the place of one that path names, whole or not at all. A link to a
// file is replaced itself. A pipe, and a device such as a terminal or /dev/null, is written to. The error is an
// [*Exposed] where another user's link is on the way, and where something else is in the place.
func Replace(path string, write func(io.Writer) error) (err error) {
	to, err := replacedBy(path)
	if err != nil {
		return err
	}
	if to != nil {
		f, err := to.opened()
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	in, err := hold(path)
	if err != nil {
		return err
	}
	defer in.Close()
	made, err := os.CreateTemp(in.held(), ".tare-*")
	if err != nil {
		return in.named(err)
	}
	defer func() {
		if err != nil {
			os.Remove(made.Name())
		}
	}()
	if err := write(made); err != nil {
		made.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := made.Chmod(0o644); err != nil {
		made.Close()
		return err
	}
	if err := made.Close(); err != nil {
		return fmt.Errorf("write %s: %w", path, in.named(err))
	}
	return in.named(os.Rename(made.Name(), filepath.Join(in.held(), filepath.Base(path))))
}

// Replaceable tries whether [Replace] can make a file for path.
func Replaceable(path string) error {
	if to, err := replacedBy(path); to != nil || err != nil {
		if err == nil {
			err = to.Close()
		}
		return err
	}
	in, err := hold(path)
	if err != nil {
		return err
	}
	defer in.Close()
	made, err := os.CreateTemp(in.held(), ".tare-*")
	if err != nil {
		return in.named(err)
	}
	return in.named(errors.Join(made.Close(), os.Remove(made.Name())))
}

// OutputDirectory makes a directory of outputs, and those above it, where they are missing. The error is an
// [*Exposed] where another user's link is on the way.
func OutputDirectory(path string) error {
	real, err := follow(path)
	if err != nil {
		return err
	}
	at, missing := real, []string(nil)
	for {
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() {
			return &os.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		at, missing = filepath.Dir(at), append(missing, filepath.Base(at))
	}
	in, err := hold(filepath.Join(at, "made"))
	if err != nil {
		return err
	}
	defer in.Close()
	fd := int(in.Fd())
	for _, name := range slices.Backward(missing) {
		if err := unix.Mkdirat(fd, name, 0o755); err != nil && err != unix.EEXIST {
			return &os.PathError{Op: "mkdir", Path: path, Err: err}
		}
		next, err := unix.Openat(fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return &os.PathError{Op: "mkdir", Path: path, Err: err}
		}
		defer unix.Close(next)
		fd = next
	}
	return nil
}

// Create opens a file to be written anew from its beginning. Root refuses one to which another user's
// link leads, with an [*Exposed], and one that has a second name, which may be any file of the same file system.
// Pipes and devices are as for [Replace].
func Create(path string) (*os.File, error) {
	to, err := sink(path)
	if err != nil {
		return nil, err
	}
	if to != nil {
		return to.opened()
	}
	real, err := follow(path)
	if err != nil {
		return nil, err
	}
	in, err := hold(real)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	// A pipe that somebody has put there since is not waited for.
	flags := os.O_WRONLY | os.O_CREATE | unix.O_NOFOLLOW | unix.O_NONBLOCK
	f, err := os.OpenFile(filepath.Join(in.held(), filepath.Base(real)), flags, 0o666)
	if err != nil {
		return nil, in.named(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &Exposed{path, "is no regular file", "name another file"}
	}
	if err == nil {
		if links := info.Sys().(*syscall.Stat_t).Nlink; links > 1 && os.Geteuid() == 0 {
			err = &Exposed{path, fmt.Sprintf("is one of %d names of a file (hard links)", links), "remove it, or choose another file"}
		} else {
			err = f.Truncate(0)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// sink takes hold of what path leads to, where that takes what is written and is no file: a pipe, or a device of
// characters. For a regular file, and for nothing, it is nil. Anything else is an [*Exposed], as is what has its
// place among devices: /dev/stdout may lead to a regular file, and is not to be replaced by one.
func sink(path string) (*Pinned, error) {
	real, err := follow(path)
	if err != nil {
		return nil, err
	}
	if p, err := pinned(path, real); err == nil { // else it is not there, or cannot be reached, which making it reports
		info, err := p.handle.Stat()
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		kind := info.Mode().Type()
		if kind == fs.ModeNamedPipe || kind == fs.ModeDevice|fs.ModeCharDevice {
			return p, nil
		}
		p.Close()
		switch kind {
		case 0:
		case fs.ModeDir:
			return nil, &os.PathError{Op: "write", Path: path, Err: syscall.EISDIR}
		default:
			return nil, &Exposed{path, "is no regular file", "name another file"}
		}
	}
	if isAmongDevices(path) || isAmongDevices(real) {
		return nil, &Exposed{path, "has its place among devices and settings of the kernel", "name a file elsewhere"}
	}
	return nil, nil
}

// replacedBy is [sink], but for a link: that is replaced itself, wherever it leads.
func replacedBy(path string) (*Pinned, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 && !isAmongDevices(path) {
		return nil, nil
	}
	return sink(path)
}

// pinned takes hold of what lies at path, of which real is what [follow] made: no link is followed that was not
// there then, but among devices, where no user lays any. There the way may lead on to what has no path: a pipe.
func pinned(path, real string) (*Pinned, error) {
	if os.Geteuid() != 0 || isAmongDevices(path) {
		return Pin(path)
	}
	return PinEntry("/", real)
}

// isAmongDevices tells that a path names a device or a setting of the kernel, or would.
func isAmongDevices(path string) bool {
	path, err := filepath.Abs(path)
	if err != nil || strings.HasPrefix(path, "/dev/shm/") {
		return false
	}
	return slices.ContainsFunc([]string{"/dev/", "/proc/", "/sys/"}, func(of string) bool { return strings.HasPrefix(path, of) })
}

// opened opens what was held to be written to, and lets go of it.
func (p *Pinned) opened() (*os.File, error) {
	defer p.Close()
	return os.OpenFile(p.Path(), os.O_WRONLY, 0)
}

// directory is held open, so that what others do to its path makes no difference.
type directory struct {
	*os.File
	path string
}

// hold takes hold of the directory of path.
func hold(path string) (*directory, error) {
	dir := filepath.Dir(path)
	if os.Geteuid() != 0 {
		p, err := Pin(dir)
		if err != nil {
			return nil, err
		}
		return &directory{p.handle, dir}, nil
	}
	real, err := follow(dir)
	if err != nil {
		return nil, err
	}
	p, err := PinEntry("/", real)
	if err != nil {
		return nil, err
	}
	if !p.IsDirectory() { // a link that was laid since, among others
		return nil, errors.Join(&os.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}, p.Close())
	}
	return &directory{p.handle, dir}, nil
}

// held is a path that leads to the directory whatever becomes of its own.
func (d *directory) held() string { return fmt.Sprintf("/proc/self/fd/%d", d.Fd()) }

// named has an error name the directory by its own path.
func (d *directory) named(err error) error {
	if at := new(os.PathError); errors.As(err, &at) {
		return &os.PathError{Op: at.Op, Path: filepath.Join(d.path, filepath.Base(at.Path)), Err: at.Err}
	}
	if at := new(os.LinkError); errors.As(err, &at) {
		return &os.PathError{Op: at.Op, Path: filepath.Join(d.path, filepath.Base(at.New)), Err: at.Err}
	}
	return err
}

// follow is path without links. Its own ".." are taken by name; else links are followed as the kernel does. What
// is not there is taken as it is named. The error is an [*Exposed] where root would follow the link of another user.
func follow(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	at, rest, links := "/", split(path), 0
	for len(rest) > 0 {
		next := filepath.Join(at, rest[0]) // ".." leads up from a directory, as no link is left in at
		rest = rest[1:]
		info, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			return filepath.Join(next, filepath.Join(rest...)), nil
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if uid := info.Sys().(*syscall.Stat_t).Uid; os.Geteuid() == 0 && !isTrusted(uid) {
			return "", &Exposed{next, fmt.Sprintf("is a link of user %d, which root does not follow to write a file", uid),
				"name the file where it is to lie"}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if links++; links > 40 {
			return "", &os.PathError{Op: "follow", Path: path, Err: syscall.ELOOP}
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = slices.Concat(split(target), rest)
	}
	return at, nil
}

// isTrusted reports whether root follows links of a user: its own, and those of the user who ran sudo.
func isTrusted(uid uint32) bool {
	sudo, err := strconv.ParseUint(os.Getenv("SUDO_UID"), 10, 32)
	return uid == 0 || err == nil && uint64(uid) == sudo
}
