// Package small reads the short files in which the kernel reports itself: those of proc, sysfs
// and control groups.
//
// It gives what [os.ReadFile] would, in half of the time: that hands each file to the runtime's
// poller first (epoll_ctl(2)), which control groups' files let it do, and asks for its size, which
// they do not say. Whoever reads some thousand of them a second feels that.
package small

import (
	"io/fs"
	"math"
	"slices"
	"syscall"
)

// first is how much room is made at first; most files fit.
const first = 512

// Read gives what a file holds. The error is a [*fs.PathError].
func Read(path string) ([]byte, error) {
	b, _, err := ReadMost(path, math.MaxInt)
	return b, err
}

// ReadMost is [Read] of a file whose length somebody else decides: it takes no more than most bytes. isCut
// reports that the file has more.
func ReadMost(path string, most int) (b []byte, isCut bool, err error) {
	fd, err := again(func() (int, error) { return syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0) })
	if err != nil {
		return nil, false, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(fd)
	b = make([]byte, 0, first)
	for {
		n, err := again(func() (int, error) { return syscall.Read(fd, b[len(b):cap(b)]) })
		if err != nil {
			return b, false, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if n <= 0 {
			return b, false, nil
		}
		b = b[:len(b)+n]
		if len(b) > most {
			return b[:most], true, nil
		}
		if len(b) == cap(b) {
			b = slices.Grow(b, len(b)) // a rest that is asked for in small pieces may change between them
		}
	}
}

// again calls until no signal came between.
func again(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); err != syscall.EINTR {
			return n, err
		}
	}
}
