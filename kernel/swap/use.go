package swap

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Discard is what the device below an area learns of blocks that hold nothing.
type Discard int

// The kinds of discard, of include/linux/swap.h.
const (
	DiscardNever Discard = 0
	DiscardOnce  Discard = 0x10000 | 0x20000 // of the whole area, when it is put to use
	DiscardPages Discard = 0x10000 | 0x40000 // of clusters of pages, as they become free
)

// preferred is SWAP_FLAG_PREFER: the flags hold a priority.
const preferred = 0x8000

// Refused says that the kernel would not put an area to use or take it out of it. It
// wraps the system call's error: syscall.EPERM, ENOMEM, EBUSY, EINVAL.
type Refused struct {
	Op   string // "swapon" or "swapoff"
	Path string
	Err  error
	Mend string
}

func (r *Refused) Error() string { return fmt.Sprintf("%s %s: %v: %s", r.Op, r.Path, r.Err, r.Mend) }

func (r *Refused) Unwrap() error { return r.Err }

// mends say what the errors of swapon(2) mean there, by mm/swapfile.c.
var mends = map[string]map[unix.Errno]string{
	"swapon": {
		unix.EPERM:  "it needs root (CAP_SYS_ADMIN), and fewer areas in use than the kernel has places for (some 30)",
		unix.EBUSY:  "it is in use already, as swap or otherwise: take it out of use first",
		unix.EINVAL: "it has no swap header of this machine's page size, or its file system does not take it for one without holes (the kernel's log says which): write all of it, or choose a directory on ext4 or XFS",
		unix.ENOENT: "make it first",
		unix.ENOMEM: "the kernel has not the memory for its tables of that area: ask for a smaller one",
		unix.ENOSYS: "this kernel has no swap (CONFIG_SWAP)",
	},
	"swapoff": {
		unix.EPERM:  "it needs root (CAP_SYS_ADMIN)",
		unix.ENOMEM: "what it holds does not fit into memory, or below a group's limit: end the programs whose pages are there first, or raise that limit",
		unix.EINVAL: "it is not in use",
		unix.ENOENT: "no such file: where it was deleted while in use, only a restart frees it",
		unix.EINTR:  "it was broken off, and is in use as before: call it again",
		unix.EBUSY:  "somebody else is taking it out of use",
		unix.ENOSYS: "this kernel has no swap (CONFIG_SWAP)",
	},
}

func refused(op, path string, errno unix.Errno) error {
	mend, ok := mends[op][errno]
	if !ok {
		mend = "the kernel's log may say more"
	}
	return &Refused{op, path, errno, mend}
}

// On puts an area to use, with a priority from 0 to [MaxPriority]. The error is a
// [*Refused].
func On(path string, priority int, discard Discard) error {
	if priority < 0 || priority > MaxPriority {
		return fmt.Errorf("swapon %s: priority %d: want 0 to %d", path, priority, MaxPriority)
	}
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return fmt.Errorf("swapon %q: %w", path, err)
	}
	_, _, errno := unix.Syscall(
		unix.SYS_SWAPON,
		uintptr(unsafe.Pointer(name)),
		uintptr(preferred|priority|int(discard)),
		0,
	)
	if errno != 0 {
		return refused("swapon", path, errno)
	}
	return nil
}

// Off takes an area out of use: what it holds comes back to memory first, which takes
// its time. The error is a [*Refused], of ENOMEM where that does not fit, and the area
// is in use as before.
//
// Programs that may not have more memory than they do are not spared: where the pages
// that come back do not fit below the limit of their group, the kernel's OOM killer ends
// programs of that group, and where the host has no room this very program first. So
// whoever uses it ends the programs whose pages are there beforehand.
//
// A signal to this program breaks the call off, and the Go runtime sends itself such;
// it is then called again, unless ctx has ended. What has come back by then stays.
func Off(ctx context.Context, path string) error {
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return fmt.Errorf("swapoff %q: %w", path, err)
	}
	for {
		_, _, errno := unix.Syscall(unix.SYS_SWAPOFF, uintptr(unsafe.Pointer(name)), 0, 0)
		switch {
		case errno == 0:
			return nil
		case errno != unix.EINTR:
			return refused("swapoff", path, errno)
		case ctx.Err() != nil:
			return errors.Join(refused("swapoff", path, errno), ctx.Err())
		}
	}
}
