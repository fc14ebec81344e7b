package file

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// CopyWithHoles copies a regular file into a new one, which has holes where it has them.
func CopyWithHoles(to, from *os.File) error {
	info, err := from.Stat()
	if err != nil {
		return err
	}
	for at := int64(0); ; {
		start, err := from.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // no data behind at
			return to.Truncate(info.Size())
		}
		if err != nil {
			return err
		}
		if at, err = from.Seek(start, unix.SEEK_HOLE); err != nil {
			return err
		}
		if _, err := from.Seek(start, io.SeekStart); err != nil {
			return err
		}
		if _, err := to.Seek(start, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(to, from, at-start); err != nil {
			return err
		}
	}
}
