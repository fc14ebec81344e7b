// Package memory maps memory into this program: that which it shares with the
// kernel through a descriptor, and anonymous memory of which it
// knows that no other part of it has a page there.
//
// It is no allocator: a mapping is whole pages, and stays until its Close. See
// mmap(2) and madvise(2).
package memory

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Mapping is mapped memory. None of its bytes may be used after its Close.
type Mapping struct{ bytes []byte }

// MapShared maps the first size bytes of what a descriptor stands for, to be
// read: what others write there is seen.
func MapShared(fd, size int) (*Mapping, error) {
	b, err := unix.Mmap(fd, 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %d bytes of descriptor %d: %w", size, fd, os.NewSyscallError("mmap", err))
	}
	return &Mapping{b}, nil
}

// MapAnonymous maps private memory, to be read and written. No page is there
// until it is touched.
func MapAnonymous(size int) (*Mapping, error) {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("mapping %d bytes: %w", size, os.NewSyscallError("mmap", err))
	}
	return &Mapping{b}, nil
}

// Bytes is the memory.
func (m *Mapping) Bytes() []byte { return m.bytes }

// Words is the memory as words of the machine's own order.
func (m *Mapping) Words() []uint64 {
	// A mapping begins at a page.
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(m.bytes))), len(m.bytes)/8)
}

// Address is where the memory begins in this program's address space.
func (m *Mapping) Address() uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(m.bytes)))) }

// Close unmaps the memory. It may be called again.
func (m *Mapping) Close() error {
	if m.bytes == nil {
		return nil
	}
	err := unix.Munmap(m.bytes)
	m.bytes = nil
	return os.NewSyscallError("munmap", err)
}
