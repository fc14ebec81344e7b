// Package filesystem distinguishes the file systems of this host: which one a path
// is on, how much it has left, and how much was written to any and is not yet on a
// disk; and it brings one to its disk.
//
// It mounts nothing (package mount does) and times nothing: how fast a file system
// is, a program that writes to it shows.
//
// Sources: stat(2), statfs(2), syncfs(2), proc(5); for what is dirty, and from where
// on writers are made to wait, Documentation/admin-guide/sysctl/vm.rst and
// mm/page-writeback.c, whose own figures /proc/vmstat shows.
package filesystem

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// FileSystem is what holds the files at a path.
type FileSystem struct {
	// Device is its number, "8:1". Two paths of one number are on one file system;
	// where a file system gives parts of itself numbers of their own (subvolumes of
	// Btrfs) they count as several.
	Device string
	// Free is how many bytes it has left for who is not root.
	Free int64
	// Memory means that its files lie in memory.
	Memory bool
}

// At finds what a path is on: the nearest part of it that exists.
func At(path string) (FileSystem, error) {
	path, err := existing(path)
	if err != nil {
		return FileSystem{}, err
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return FileSystem{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	var of unix.Statfs_t
	if err := unix.Statfs(path, &of); err != nil {
		return FileSystem{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	free := of.Bavail * uint64(of.Bsize)
	if of.Files > 0 && of.Ffree == 0 {
		free = 0 // without an inode nothing fits, whatever the bytes
	}
	return FileSystem{
		Device: fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)),
		Free:   int64(free),
		Memory: of.Type == unix.TMPFS_MAGIC || of.Type == unix.RAMFS_MAGIC,
	}, nil
}

// existing is the nearest directory above a path, or the path itself, that is there.
func existing(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for {
		_, err := os.Stat(path)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return path, err
		}
		path = filepath.Dir(path) // ends at /, which is there
	}
}

// Sync brings everything that was written to the file system of a path to its disk,
// by whomever, and waits for it. An error that a disk gave earlier, to nobody, is reported
// here, as syncfs(2) has it since Linux 5.8.
//
// The kernel cannot be made to give up: where ctx ends first Sync does, and the
// kernel goes on.
func Sync(ctx context.Context, path string) error {
	if err := ctx.Err(); err != nil {
		return &os.PathError{Op: "syncfs", Path: path, Err: err}
	}
	done := make(chan error, 1)
	go func() { done <- syncfs(path) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return &os.PathError{Op: "syncfs", Path: path, Err: ctx.Err()}
	}
}

func syncfs(path string) error {
	path, err := existing(path)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return &os.PathError{Op: "syncfs", Path: path, Err: err}
	}
	return nil
}
