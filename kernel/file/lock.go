package file

import (
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
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = retry(func() (int, error) { return 0, unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if err == unix.EWOULDBLOCK {
		return nil, &Locked{path}
	}
	return nil, &os.PathError{Op: "lock", Path: path, Err: err}
}
