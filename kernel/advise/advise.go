// Package advise advises the kernel what to do with the memory of another process: that
// its pages are to leave for swap, or to come back, now and in the order given.
//
// It is advice: it changes no content, the kernel may pass any page by, and a process
// that is given no advice goes on as it is. Which pages, when and why is the caller's
// business.
//
// A process is given by its pidfd, which no later process with its id can take the
// place of. A process that executes another program keeps its id, its start time and
// its pidfd, and has other memory: who must know holds its page map too, which ends
// with the memory.
//
// Sources: process_madvise(2), madvise(2), process_vm_readv(2); mm/madvise.c and
// mm/process_vm_access.c of the kernel.
package advise

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Process is an open process: it calls f with its pidfd, which stays what it is
// meanwhile.
type Process interface {
	Control(f func(pidfd int) error) error
}

// Advice is what is to become of pages.
type Advice int

// The advice that one process may give for another.
const (
	// PageOut has pages leave at once. The kernel passes by those that several processes
	// map, that are locked, or for which there is no room in swap.
	PageOut Advice = unix.MADV_PAGEOUT
	// WillNeed has pages that are in swap read, without mapping them, and does not wait for
	// a device that reads by itself. Of those that are in memory nothing changes.
	WillNeed Advice = unix.MADV_WILLNEED
	// Cold has pages be among the first to leave when memory is next wanted.
	Cold Advice = unix.MADV_COLD
)

func (a Advice) String() string {
	switch a {
	case PageOut:
		return "MADV_PAGEOUT"
	case WillNeed:
		return "MADV_WILLNEED"
	case Cold:
		return "MADV_COLD"
	}
	return fmt.Sprintf("advice %d", int(a))
}

// Range is consecutive bytes of a process' memory, of whole pages.
type Range struct{ Start, Length uint64 }

// End is the first byte that is not of the range.
func (r Range) End() uint64 { return r.Start + r.Length }

func (r Range) String() string { return fmt.Sprintf("%#x-%#x", r.Start, r.End()) }

// Passed is a range of which the kernel left at least a part undone, and why: ENOMEM
// where something is not mapped, EINVAL where it is locked or of a kind that does not
// leave, EAGAIN, EIO.
type Passed struct {
	Range
	Err error
}

// ErrGone says that the process has ended: it has no memory any more.
var ErrGone = errors.New("process has no memory any more")

// ErrUnsupported says that the kernel takes no such advice for another process.
var ErrUnsupported = errors.New("the kernel takes no advice for other processes: boot Linux 5.10 or newer, with CONFIG_ADVISE_SYSCALLS")

// Refused says that the caller may not advise: it lacks CAP_SYS_NICE, or may not trace
// the process.
type Refused struct {
	Op  string
	Err error
}

func (r *Refused) Error() string {
	return fmt.Sprintf("%s: %v: run as root, or with CAP_SYS_NICE and CAP_SYS_PTRACE", r.Op, r.Err)
}

func (r *Refused) Unwrap() error { return r.Err }

// Supported reports whether this kernel takes advice for other processes: the error is
// [ErrUnsupported] where it does not.
func Supported() error {
	err := try(Cold)
	if errno := unix.Errno(0); errors.As(err, &errno) {
		return &Refused{"process_madvise", errno}
	}
	return err
}

// Takes reports whether this kernel takes an advice for other processes: WillNeed since Linux 5.15, the
// others since 5.10. The error is that of [Supported].
func Takes(a Advice) (bool, error) {
	if err := Supported(); err != nil {
		return false, err
	}
	err := try(a)
	if errors.Is(err, unix.EINVAL) {
		return false, nil
	}
	return err == nil, err
}

// try gives an advice on no range of this process: the kernel looks at the advice first
// (process_madvise of its mm/madvise.c).
func try(a Advice) error {
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if errors.Is(err, unix.ENOSYS) {
		return ErrUnsupported
	}
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(self)
	var none unix.Iovec
	_, _, errno := unix.Syscall6(
		unix.SYS_PROCESS_MADVISE,
		uintptr(self),
		uintptr(unsafe.Pointer(&none)),
		0,
		uintptr(a),
		0,
		0,
	)
	switch errno {
	case 0:
		return nil
	case unix.ENOSYS:
		return ErrUnsupported
	}
	return errno
}

// most is how many ranges one call takes: UIO_MAXIOV.
const most = 1024

// narrowest is the size below which a range that the kernel refuses is not divided any
// further: 8 pages of 4 KiB, so that 64 pages that are locked cost 15 calls of a
// microsecond.
const narrowest = 8 * 4096

// Give gives advice on ranges of a process' memory, in their order. What the kernel
// refuses of one does not keep it from the others: passed says which those were. The
// error is [ErrGone], [ErrUnsupported] or a [*Refused] where nothing further can be
// done.
//
// It returns when the kernel has; a process that another one holds still inside the
// kernel, its memory locked, may keep it for as long as that takes.
func Give(p Process, advice Advice, ranges []Range) (passed []Passed, err error) {
	for len(ranges) > 0 && err == nil {
		n := min(len(ranges), most)
		passed, err = give(p, advice, ranges[:n], passed)
		ranges = ranges[n:]
	}
	return passed, err
}

func give(p Process, advice Advice, ranges []Range, passed []Passed) ([]Passed, error) {
	// Not as large as may be: most calls are of some ten ranges, in goroutines of their own, whose
	// stacks are small.
	room := make([]unix.RemoteIovec, 0, len(ranges))
	for len(ranges) > 0 {
		done, err := madvise(p, advice, remote(room, ranges))
		// The kernel goes from range to range and stops at the first that it cannot do all
		// of; it then reports how far it got, and the reason only where that is nowhere.
		before := len(ranges)
		for len(ranges) > 0 && done >= ranges[0].Length {
			done -= ranges[0].Length
			ranges = ranges[1:]
		}
		if err == nil && len(ranges) == before {
			return passed, fmt.Errorf("process_madvise(%s): the kernel did nothing of %s and gives no reason", advice, ranges[0])
		}
		if err == nil || len(ranges) == 0 {
			continue
		}
		if err := fatal("process_madvise("+advice.String()+")", err); err != nil {
			return passed, err
		}
		passed = refuse(p, advice, ranges[0], err, passed)
		ranges = ranges[1:]
	}
	return passed, nil
}

// refuse deals with a range of which the kernel refused a part.
func refuse(p Process, advice Advice, r Range, why error, passed []Passed) []Passed {
	// Holes are passed over, and what is mapped was done (madvise_walk_vmas). At any
	// other fault the kernel stopped, and what lies behind is still to be done.
	half := r.Length / 2 / narrowest * narrowest
	if errors.Is(why, unix.ENOMEM) || half == 0 {
		return append(passed, Passed{r, why})
	}
	for _, part := range []Range{{r.Start, half}, {r.Start + half, r.Length - half}} {
		_, err := madvise(p, advice, remote(nil, []Range{part}))
		if err != nil {
			passed = refuse(p, advice, part, err, passed)
		}
	}
	return passed
}

// madvise is process_madvise(2): how many bytes were done of a vector. An error comes
// only with none.
func madvise(p Process, advice Advice, vector []unix.RemoteIovec) (uint64, error) {
	if len(vector) == 0 {
		return 0, nil
	}
	const patience = 3
	var done uintptr
	err := p.Control(func(fd int) error {
		tries := 0
		for {
			n, _, errno := unix.Syscall6(
				unix.SYS_PROCESS_MADVISE,
				uintptr(fd),
				uintptr(unsafe.Pointer(unsafe.SliceData(vector))),
				uintptr(len(vector)),
				uintptr(advice),
				0,
				0,
			)
			switch {
			case errno == 0:
				done = n
				return nil
			case errno == unix.EINTR: // the Go runtime's own signals
				continue
			case errno == unix.EAGAIN && tries < patience: // something is short for a moment
				tries++
				continue
			}
			return errno
		}
	})
	runtime.KeepAlive(vector)
	return uint64(done), err
}

// fatal is the error after which no range of the process can be done.
func fatal(op string, err error) error {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return fmt.Errorf("%s: %w", op, err) // the handle's own
	}
	switch errno {
	case unix.ESRCH:
		return ErrGone
	case unix.ENOSYS:
		return ErrUnsupported
	case unix.EPERM, unix.EACCES:
		return &Refused{op, errno}
	case unix.EBADF:
		return os.NewSyscallError(op, errno)
	}
	return nil
}

// remote writes ranges the way the kernel takes them: their addresses as numbers,
// since as pointers the garbage collector would take them for its own.
func remote(room []unix.RemoteIovec, ranges []Range) []unix.RemoteIovec {
	for _, r := range ranges {
		room = append(room, unix.RemoteIovec{Base: uintptr(r.Start), Len: int(r.Length)})
	}
	return room
}
