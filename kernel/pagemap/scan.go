package pagemap

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Category is what a page is, as PAGEMAP_SCAN reports it.
type Category uint64

// The categories, by the names of include/uapi/linux/fs.h without their PAGE_IS_.
const (
	CategoryPresent Category = 1 << 3
	CategorySwapped Category = 1 << 4
	CategoryZero    Category = 1 << 5
	CategoryHuge    Category = 1 << 6 // mapped by an entry of a higher level
)

// Region is a range of addresses whose pages are of the same categories.
type Region struct {
	Start, End uint64 // bytes
	Categories Category
}

// ErrCannotScan says that the kernel does not scan page maps: it is older than
// Linux 6.7.
var ErrCannotScan = errors.New("the kernel does not scan page maps (Linux 6.7 does)")

// scanArgument is struct pm_scan_arg.
type scanArgument struct {
	size, flags, start, end, walkEnd uint64
	regions, room, most              uint64
	inverted, all, any, returned     uint64
}

// Scan finds the ranges between two addresses whose pages are of any of the
// categories, as many as to has room for, and of no more than most pages in all
// where most is not 0. It passes over what is not mapped without looking at
// each page. next is the address to go on at, end where nothing is left. It
// changes nothing in the process.
func Scan(
	pagemap *File,
	start, end uint64,
	any Category,
	most uint64,
	to []Region,
) (found []Region, next uint64, err error) {
	if len(to) == 0 {
		return nil, start, errors.New("scan a page map: no room for what is found")
	}
	// The kernel writes there, by a number that keeps nothing in its place.
	var pinned runtime.Pinner
	pinned.Pin(unsafe.SliceData(to))
	defer pinned.Unpin()
	a := scanArgument{
		start: start, end: end, room: uint64(len(to)), most: most,
		regions: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(to)))),
		any:     uint64(any), returned: uint64(any),
	}
	a.size = uint64(unsafe.Sizeof(a))
	const scan = 3<<30 | 96<<16 | 'f'<<8 | 16 // _IOWR('f', 16, struct pm_scan_arg)
	n, _, errno := unix.Syscall(unix.SYS_IOCTL, pagemap.fd, scan, uintptr(unsafe.Pointer(&a)))
	switch errno {
	case 0:
		return to[:n], a.walkEnd, nil
	case unix.ENOTTY, unix.EINVAL:
		return nil, start, ErrCannotScan
	}
	return nil, start, fmt.Errorf("%s: scan %#x-%#x: %w", pagemap.Name(), start, end, errno)
}
