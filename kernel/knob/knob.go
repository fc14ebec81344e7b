// Package knob reads and writes single files by which the kernel is set how to treat
// something, such as the limit of a control group, and knows again whether the directory
// that a file is in is still the one that it was.
//
// A write may have the kernel work first: a limit below what is used is set once the rest
// was reclaimed, in the writer's time. Such a write ends early, with what was there left
// as it was, when the writer's thread is sent a signal: here when a context ends.
//
// It does not know what a file means, and undoes nothing.
//
// Sources: mem_cgroup_resize_max of mm/memcontrol-v1.c, memory_reclaim of mm/memcontrol.c,
// signal(7); openat(2), and kernfs, which gives the number of a directory to no other for
// as long as the host is up.
package knob

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

// Knob is one file of a directory that is held: should another be made under its name,
// that one is never read or written. Close lets go.
type Knob struct {
	file      string
	directory int // descriptor
	identity  uint64
}

// Gone says that the directory of a knob, or the knob, is not there, or not any more.
type Gone struct {
	File string
	Err  error
}

func (g *Gone) Error() string { return fmt.Sprintf("%s is not there: %v", g.File, g.Err) }

func (g *Gone) Unwrap() error { return g.Err }

// Open takes hold of the directory of a file that is there. The error is a [*Gone] where
// there is none.
func Open(file string) (*Knob, error) {
	k := &Knob{file: filepath.Clean(file), directory: -1}
	fd, err := open(unix.AT_FDCWD, filepath.Dir(k.file), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, k.failed("open", err)
	}
	k.directory = fd
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, errors.Join(k.failed("stat", err), k.Close())
	}
	k.identity = stat.Ino
	if err := unix.Faccessat(fd, k.name(), unix.F_OK, 0); err != nil {
		return nil, errors.Join(k.failed("look for", err), k.Close())
	}
	return k, nil
}

func (k *Knob) name() string { return filepath.Base(k.file) }

// File is the path by which it was opened.
func (k *Knob) File() string { return k.file }

// Identity is the number of its directory, which distinguishes a control group from another
// that is made under its name later.
func (k *Knob) Identity() uint64 { return k.identity }

// Read reads it, without the white space around it.
func (k *Knob) Read() (string, error) {
	fd, err := open(k.directory, k.name(), unix.O_RDONLY)
	if err != nil {
		return "", k.failed("open", err)
	}
	defer unix.Close(fd)
	// A knob's text is short; the kernel gives it by one read.
	text := make([]byte, 4096)
	for {
		n, err := unix.Read(fd, text)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return "", k.failed("read", err)
		default:
			return string(bytes.TrimSpace(text[:n])), nil
		}
	}
}

// Write writes a text to it by one system call, and returns when the kernel has done
// what that asks for. Where ctx ends before, the kernel is interrupted, again and
// again until it does; the error then wraps that of ctx, unless it was done all the same.
// A thread that the kernel lets wait for a device hears nothing of it before the device
// has answered.
func (k *Knob) Write(ctx context.Context, text string) error {
	// The rest of an ordinary file, in a test, would stay; a knob has none.
	fd, err := open(k.directory, k.name(), unix.O_WRONLY|unix.O_TRUNC)
	if err != nil {
		return k.failed("open", err)
	}
	defer unix.Close(fd)
	write := func() error {
		for {
			// Not by package os, which writes again after each signal.
			_, err := unix.Write(fd, []byte(text))
			if err != unix.EINTR {
				return err
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	if err := interrupted(ctx, write); err != nil {
		return k.failed(fmt.Sprintf("write %q to", text), err)
	}
	return nil
}

// Close lets go of its directory. It may be called again.
func (k *Knob) Close() error {
	if k.directory < 0 {
		return nil
	}
	err := unix.Close(k.directory)
	k.directory = -1
	return os.NewSyscallError("close", err)
}

func (k *Knob) failed(op string, err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return &Gone{k.file, err}
	}
	return &os.PathError{Op: op, Path: k.file, Err: err}
}

func open(at int, path string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(at, path, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// signalAgain is how long a thread that is to leave off is given before it gets another:
// a signal that comes before its system call is lost on it.
const signalAgain = time.Millisecond
