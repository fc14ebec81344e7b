package netns

import (
	"os"

	"golang.org/x/sys/unix"
)

// Enter moves the calling thread into the network namespace kept at file. What
// the thread executes or starts is there too. Whoever calls it holds the thread,
// and ends with it.
func Enter(file string) error {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open namespace", Path: file, Err: err}
	}
	defer unix.Close(fd)
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return &os.PathError{Op: "join namespace", Path: file, Err: err}
	}
	return nil
}
