package file

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Locked says that a file's lock is another's.
type Locked struct{ File string }

func (l *Locked) Error() string { return fmt.Sprintf("the lock of %s is another program's", l.File) }

// Lock makes a file where there is none, and takes its lock, or fails with a [*Locked].
// The lock is held until the last copy of the file is closed: a process that inherits
// one holds it too, and on when this one has ended. See flock(2).
func Lock(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		held, err := take(f)
		if held {
			return f, nil
		}
		_ = f.Close()
		if err != nil {
			return nil, err
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

// isAt tells whether an open file is the one that its name leads to.
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
