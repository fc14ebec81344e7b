// Package pagemap reads what the kernel reports of pages: which frame each
// virtual page of a process has (/proc/PID/pagemap), and for each frame its
// flags (/proc/kpageflags) and how often it is mapped (/proc/kpagecount).
//
// It interprets nothing and counts nothing. The formats are those of the
// kernel's Documentation/admin-guide/mm/pagemap.rst: arrays of 64-bit words,
// indexed by page number. Every reader takes an [io.ReaderAt], so that reading
// recorded words needs no kernel.
package pagemap

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"strconv"
	"unsafe"
)

// wordSize is the size of an entry in bytes, in all three files.
const wordSize = 8

// ErrHidden says that the kernel shows this program no frame numbers: it lacks
// CAP_SYS_ADMIN, and they all read as 0.
var ErrHidden = errors.New("the kernel hides frame numbers: run as root, or with CAP_SYS_ADMIN")

// Entry is a word of /proc/PID/pagemap.
type Entry uint64

// The bits of an Entry above its frame.
const (
	frameMask       Entry = 1<<55 - 1
	softDirty       Entry = 1 << 55
	exclusive       Entry = 1 << 56
	writeProtected  Entry = 1 << 57
	guard           Entry = 1 << 58
	fileOrShared    Entry = 1 << 61
	swapped         Entry = 1 << 62
	present         Entry = 1 << 63
	swapTypeBits          = 5
	swapTypeMask    Entry = 1<<swapTypeBits - 1
	highestSwapType       = 31
)

// Present reports whether the page has a frame that is mapped, be it without the
// right to touch it.
func (e Entry) Present() bool { return e&present != 0 }

// Swapped reports whether the page table has something other than a frame: a
// place in swap, or one of the kernel's own marks in the same form (see
// [Entry.SwapType]).
func (e Entry) Swapped() bool { return e&swapped != 0 }

// Frame is the frame's number, of a present page.
func (e Entry) Frame() uint64 { return uint64(e & frameMask) }

// SwapType is which swap device, of a swapped page. The kernel keeps the
// highest numbers for other things: see [FirstSpecialType] and [MarkerType].
func (e Entry) SwapType() int { return int(e & swapTypeMask) }

// SwapOffset is the place in the swap device, in pages.
func (e Entry) SwapOffset() uint64 { return uint64(e & frameMask >> swapTypeBits) }

// FileOrShared reports whether the frame is a file's, or of shared memory.
func (e Entry) FileOrShared() bool { return e&fileOrShared != 0 }

// Exclusive reports whether the frame is mapped nowhere else (Linux 4.2).
func (e Entry) Exclusive() bool { return e&exclusive != 0 }

// Guard reports whether the page is a guard that MADV_GUARD_INSTALL placed (Linux 6.15).
func (e Entry) Guard() bool { return e&guard != 0 }

// Types of swap that are none, from include/linux/swap.h of the kernel. How
// many there are depends on its configuration; the lowest there can be is
// FirstSpecialType, which no host has swap devices enough to reach. Those below
// MarkerType name a frame in place of a place in swap: one that is on its way to
// another (migration), one whose memory failed, one in a device's memory.
const (
	FirstSpecialType = 23
	// MarkerType is that of markers, which have no page at all: a guard, a page
	// protected by userfaultfd before it was there, a poisoned one.
	MarkerType = highestSwapType
)

// Words reads as many words as to holds, from that of index on, and returns how
// many there were: fewer at the end.
func Words(r io.ReaderAt, index uint64, to []uint64) (int, error) {
	if len(to) == 0 || index > math.MaxInt64/wordSize-uint64(len(to)) {
		return 0, nil
	}
	// The words are the kernel's, in the machine's own order: they need no more than to be read.
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(to))), len(to)*wordSize)
	n, err := readAt(r, b, int64(index*wordSize))
	return n / wordSize, err
}

// readAt is ReadAt, to which the end is no error. The kernel hands out less than
// was asked for at no place but the end.
func readAt(r io.ReaderAt, b []byte, at int64) (int, error) {
	n, err := r.ReadAt(b, at)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Own gives the entry of the page of this program at an address, in bytes. Its
// error is [ErrHidden] where frames are.
func Own(address uint64) (Entry, error) {
	f, err := Open("/proc/self/pagemap")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var word [1]uint64
	n, err := Words(f, address/uint64(os.Getpagesize()), word[:])
	if err != nil {
		return 0, fmt.Errorf("%s: %w", f.Name(), err)
	}
	if n == 0 {
		return 0, fmt.Errorf("%s: nothing at %#x", f.Name(), address)
	}
	e := Entry(word[0])
	if e.Present() && e.Frame() == 0 {
		return 0, ErrHidden
	}
	return e, nil
}

// MaxFrame gives how many words a file of frames has: the number above the
// highest frame. It has no size, so it is tried where it ends.
func MaxFrame(kpageflags io.ReaderAt) (uint64, error) {
	// Physical addresses have 52 bits.
	const most = 1 << 40
	var failed error
	n := sort.Search(most, func(i int) bool {
		var b [wordSize]byte
		n, err := readAt(kpageflags, b[:], int64(i)*wordSize)
		if err != nil && failed == nil {
			failed = err
		}
		return n < wordSize
	})
	if failed != nil {
		return 0, failed
	}
	if n == 0 || n == most {
		return 0, errors.New(strconv.Itoa(n) + " frames cannot be")
	}
	return uint64(n), nil
}
