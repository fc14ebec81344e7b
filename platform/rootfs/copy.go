package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"tare/kernel/file"
)

// copyTree copies the contents, owner and mode of the directory from, if there
// is one, to the directory to.
func copyTree(from, to string) error {
	info, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &os.PathError{Op: "copy", Path: from, Err: syscall.ENOTDIR}
	}
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(name, from))
		switch {
		case d.IsDir():
			if name != from {
				err = os.Mkdir(target, 0o700)
			}
		case d.Type() == fs.ModeSymlink:
			return copyLink(name, target)
		case d.Type().IsRegular():
			err = copyFile(name, target)
		default:
			return nil // sockets and pipes are made by those who use them
		}
		if err != nil {
			return err
		}
		return likeness(name, target)
	})
}

// makeLike makes a directory with the owner and mode of another.
func makeLike(from, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	return likeness(from, to)
}

// likeness gives to the owner, mode and times of from, which is no link.
func likeness(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		if err := os.Chown(to, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	// After the owner: changing it clears the set-user-id bit.
	if err := os.Chmod(to, info.Mode()); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

func copyLink(from, to string) error {
	target, err := os.Readlink(from)
	if err != nil {
		return err
	}
	if err := os.Symlink(target, to); err != nil {
		return err
	}
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return os.Lchown(to, int(st.Uid), int(st.Gid))
	}
	return nil
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := file.CopyWithHoles(out, in); err != nil {
		return fmt.Errorf("copying %s: %w", from, err)
	}
	return nil
}
