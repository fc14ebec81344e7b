package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Locked says that a file's lock is another's.
type Locked struct{ File string }

func (l *Locked) Error() string { return fmt.Sprintf("the lock of %s is another program's", l.File) }

// Lock makes a file where there is none, and takes its lock, or fails with a [*Locked].
// The lock is held until the last copy of the file is closed: a process that inherits
// one holds it too, and on when this one has ended. See flock(2). Nobody but the file's
// owner can open it, and so hold it: a lock that others could have is closed to them.
func Lock(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		held, err := take(f)
		if held {
			err = f.Chmod(0o600)
		}
		if held && err == nil {
			return f, nil
		}
		_ = f.Close()
		if err != nil {
			return nil, err
		}
	}
}

// Hold holds a file's lock while f runs, which gets the file, and waits for it until ctx ends.
// The file stays.
func Hold(ctx context.Context, path string, f func(lock *os.File) error) (err error) {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		held, err := Lock(path)
		if err == nil {
			return errors.Join(f(held), held.Close())
		}
		if locked := new(Locked); !errors.As(err, &locked) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the lock %s: %w", path, context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}

// take takes the lock of an open file. It is not held, without an error, where who had it has
// removed the file since it was opened: its lock is then one that nobody else would find.
func take(f *os.File) (held bool, err error) {
	_, err = retry(func() (int, error) { return 0, unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	switch {
	case err == unix.EWOULDBLOCK:
		return false, &Locked{f.Name()}
	case err != nil:
		return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return isAt(f)
}

// isAt reports whether an open file is the one that its name leads to.
func isAt(f *os.File) (bool, error) {
	opened, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Lstat(f.Name())
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(opened, there), err
}

// Unlock removes the file of a lock, while it is held, and lets go of it: whoever waits for
// it makes the file anew. It is not for a lock that another process has inherited. A file
// that somebody else has put in the place of it stays.
func Unlock(f *os.File) error {
	there, err := isAt(f)
	if there {
		err = os.Remove(f.Name())
	}
	return errors.Join(err, f.Close())
}

// Range is a part of a file by which programs lock it (fcntl(2)); no length is to its end.
type Range struct{ From, Length int64 }

// LockRange takes a range's lock, for writing or for reading, which goes with the open file.
// It waits for nobody.
func LockRange(f *os.File, r Range, writing bool) error {
	l := unix.Flock_t{Type: unix.F_RDLCK, Start: r.From, Len: r.Length}
	if writing {
		l.Type = unix.F_WRLCK
	}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &l); err != nil {
		return &os.PathError{Op: "lock a range of", Path: f.Name(), Err: err}
	}
	return nil
}

// WriteLocked reports whether somebody else, or another open file of this process, holds a
// range's lock for writing. Only who may write the file can.
func WriteLocked(path string, r Range) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	// Of a lock for reading it is asked whether it could be had.
	l := unix.Flock_t{Type: unix.F_RDLCK, Start: r.From, Len: r.Length}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l); err != nil {
		return false, &os.PathError{Op: "look at the locks of", Path: path, Err: err}
	}
	return l.Type != unix.F_UNLCK, nil
}
