package memory

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// MapFile maps the first size bytes of a file, to be read and written: shared,
// so that what is written is the file's, or privately, so that it is a copy. No
// page is there until it is touched.
func MapFile(f *os.File, size int, shared bool) (*Mapping, error) {
	flags := unix.MAP_PRIVATE
	if shared {
		flags = unix.MAP_SHARED
	}
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return nil, fmt.Errorf("mapping %d bytes of %s: %w", size, f.Name(), os.NewSyscallError("mmap", err))
	}
	return &Mapping{b}, nil
}

// SmallPages asks for base pages alone, where the kernel has huge ones.
func (m *Mapping) SmallPages() error {
	err := unix.Madvise(m.bytes, unix.MADV_NOHUGEPAGE)
	if err == unix.EINVAL {
		return nil // it has none
	}
	return os.NewSyscallError("madvise(MADV_NOHUGEPAGE)", err)
}

// Lock keeps so many bytes from the beginning on in memory, as mlock(2) does.
func (m *Mapping) Lock(size int) error {
	return os.NewSyscallError("mlock", unix.Mlock(m.bytes[:size]))
}

// Forget takes every page out of the mapping, so that the next touch faults
// again. What private memory held is lost.
func (m *Mapping) Forget() error {
	return os.NewSyscallError("madvise(MADV_DONTNEED)", unix.Madvise(m.bytes, unix.MADV_DONTNEED))
}
