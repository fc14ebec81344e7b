package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Private makes a directory that only its owner can enter: mode 0700, whatever the
// umask. Missing parents get mode 0755. One that is there already must be a directory of this user's and no
// link. Where others could enter it, the mode is mended: older versions made such ones.
// Where others could write in it, it is refused, since what is in it may be theirs.
//
// What is behind it may have any mode: no other user reaches it by a path. An image's
// set-user-ID programs are the reason. Root passes every directory.
func Private(path string) error {
	return Reserved(path, os.Geteuid(), os.Getegid(), 0o700)
}

// Reserved is [Private] with an owner, group and mode of the caller's choice.
func Reserved(path string, uid, gid int, mode fs.FileMode) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	dir, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		return &Exposed{path, "is not a directory itself, and nothing is made, mounted or removed through it", "move it away"}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	info, err := dir.Stat()
	if err != nil {
		return err
	}
	st := info.Sys().(*syscall.Stat_t)
	if st.Uid != uint32(uid) && st.Uid != uint32(os.Geteuid()) {
		return &Exposed{path, fmt.Sprintf("belongs to user %d, who could change what is in it", st.Uid), "move it away"}
	}
	if perm := info.Mode().Perm(); perm&0o022 != 0 {
		return &Exposed{path, fmt.Sprintf("can be written by others (%v)", perm), "move it away"}
	}
	if st.Uid != uint32(uid) || st.Gid != uint32(gid) {
		if err := dir.Chown(uid, gid); err != nil {
			return err
		}
	}
	if info.Mode().Perm() != mode {
		return dir.Chmod(mode)
	}
	return nil
}

// Exposed is the error of a directory that another user could replace or write.
type Exposed struct{ Path, Why, Mend string }

func (e *Exposed) Error() string { return fmt.Sprintf("%s %s: %s", e.Path, e.Why, e.Mend) }

// Guarded checks that no user but root and this one decides what lies at path, a
// directory: neither it, nor a directory above it, nor a link on the way belongs to another,
// and no directory can be written by others. Above it, a sticky directory such as /tmp
// is allowed, since nobody can replace in it what is another's. The error is an [*Exposed]
// where the answer is no.
func Guarded(path string) error { return guarded(path, 0o022) }

// Administered is [Guarded] where members of a group count as root if root lets the group write, as Debian lets staff
// in /usr/local and Ubuntu syslog in /var/log. It is for what is root's by custom and not by tare's making.
func Administered(path string) error { return guarded(path, 0o002) }

func guarded(path string, others fs.FileMode) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	at, rest, links := "/", split(path), 0
	for {
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		if st.Uid != 0 && st.Uid != uint32(os.Geteuid()) {
			return &Exposed{at, fmt.Sprintf("belongs to user %d, who could replace what is in it", st.Uid), "choose another directory"}
		}
		switch perm := info.Mode().Perm(); {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(at)
			if err != nil {
				return err
			}
			if links++; links > 40 {
				return &os.PathError{Op: "follow", Path: path, Err: syscall.ELOOP}
			}
			at, rest = filepath.Dir(at), append(split(target), rest...)
			if filepath.IsAbs(target) {
				at = "/"
			}
		case perm&others != 0 && (len(rest) == 0 || info.Mode()&fs.ModeSticky == 0):
			return &Exposed{at, fmt.Sprintf("can be written by others (%v)", perm), "remove that right (chmod go-w)"}
		}
		if len(rest) == 0 {
			return nil
		}
		at, rest = filepath.Join(at, rest[0]), rest[1:] // ".." leads to what was looked at
	}
}

// MakeDirectory makes a directory where there is none, and those above it, if check accepts it: [Guarded] or
// [Administered]. Nothing is made behind what check refuses, as another user's link.
func MakeDirectory(path string, mode fs.FileMode, check func(path string) error) error {
	err := check(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(path, mode); err != nil {
			return err
		}
		err = check(path) // which another user could have made meanwhile
	}
	return err
}

// split gives the names on a path.
func split(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" })
}
