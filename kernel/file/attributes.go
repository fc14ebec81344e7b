package file

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Born is when the file was made. Not every file system keeps that.
func (p *Pinned) Born() (time.Time, error) {
	var st unix.Statx_t
	if err := unix.Statx(int(p.handle.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st); err != nil {
		return time.Time{}, &os.PathError{Op: "statx", Path: p.handle.Name(), Err: err}
	}
	if st.Mask&unix.STATX_BTIME == 0 {
		return time.Time{}, fmt.Errorf("%s: when it was made: %w", p.handle.Name(), errors.ErrUnsupported)
	}
	return time.Unix(st.Btime.Sec, int64(st.Btime.Nsec)), nil
}

// Path leads to the file, whatever becomes of its own, for as long as it is not closed. It is a link of the kernel's.
func (p *Pinned) Path() string { return fmt.Sprintf("/proc/self/fd/%d", p.handle.Fd()) }

// HasAttribute reports whether the file has an extended attribute.
func (p *Pinned) HasAttribute(name string) bool {
	// A handle that did not open the file cannot be asked itself (xattr(7)).
	_, err := unix.Getxattr(p.Path(), name, nil)
	return err == nil
}
