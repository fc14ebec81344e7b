package advise

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Map has pages of a process mapped, by reading a byte of each: what is in memory
// already is mapped at once, and what is in swap is waited for. pid is the process' id.
// It tells how many pages were read; those that cannot be, being unmapped or
// unreadable, are passed by.
//
// The kernel offers it in no other way: MADV_POPULATE_READ is for a process itself
// alone (process_madvise_remote_valid), and /proc/PID/mem takes one call a page. A page
// that was never touched is given the page of zeros by it, so that only such as are in
// swap are worth naming.
//
// process_vm_readv(2) takes an id where the others take a pidfd. While the process
// has not ended its id is its own; where it ended meanwhile the error is [ErrGone], and
// nothing is known of what was read.
func Map(p Process, pid int, pages []uint64) (mapped int, err error) {
	const op = "process_vm_readv"
	var bytes [most]byte
	var room [most]unix.RemoteIovec
	for len(pages) > 0 {
		if err := lives(p); err != nil {
			return mapped, err
		}
		n := min(len(pages), most)
		remote := room[:n]
		for i, at := range pages[:n] {
			remote[i] = unix.RemoteIovec{Base: uintptr(at), Len: 1}
		}
		local := []unix.Iovec{{Base: &bytes[0]}}
		local[0].SetLen(n)
		read, err := unix.ProcessVMReadv(pid, local, remote, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			if fatal := fatal(op, err); fatal != nil {
				return mapped, fatal
			}
			read = 0
		}
		mapped += read
		if read < n {
			read++ // it stopped at one that cannot be read
		}
		pages = pages[read:]
	}
	return mapped, lives(p)
}

// lives tells whether a process has not ended.
func lives(p Process) error {
	return p.Control(func(pidfd int) error {
		poll := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
		for {
			n, err := unix.Poll(poll, 0)
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case err != nil:
				return os.NewSyscallError("poll", err)
			case n > 0:
				return ErrGone
			}
			return nil
		}
	})
}

// Pages are the addresses of the pages of ranges, in their order.
func Pages(ranges []Range) []uint64 {
	var n uint64
	size := uint64(os.Getpagesize())
	for _, r := range ranges {
		n += r.Length / size
	}
	pages := slices.Grow([]uint64(nil), int(n))
	for _, r := range ranges {
		for at := r.Start; at < r.End(); at += size {
			pages = append(pages, at)
		}
	}
	return pages
}
