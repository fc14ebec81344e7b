package file

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// HasWriter reports whether anybody has a file open for writing. The file is open for reading alone, and
// its owner asks: the kernel gives a lease for reading where there is no writer (F_SETLEASE in fcntl(2)).
func HasWriter(f *os.File) (bool, error) {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	if errors.Is(err, unix.EAGAIN) {
		return true, nil
	}
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	}
	if err != nil {
		return false, fmt.Errorf("ask for a lease of %s: %w", f.Name(), err)
	}
	return false, nil
}
