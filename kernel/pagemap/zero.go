package pagemap

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ZeroFrame finds the frame of the kernel's page of zeros, which is what memory
// that was read and never written is mapped to.
func ZeroFrame() (uint64, error) {
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return 0, os.NewSyscallError("mmap", err)
	}
	defer unix.Munmap(page)
	// The reading maps it.
	if page[0] != 0 {
		return 0, errors.New("fresh memory does not read as 0")
	}
	e, err := Own(address(page))
	if err != nil {
		return 0, err
	}
	if !e.Present() {
		return 0, fmt.Errorf("memory that was read has no frame (%#x)", uint64(e))
	}
	return e.Frame(), nil
}

func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
