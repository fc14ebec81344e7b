package advise

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Map has pages of a process mapped, by reading a byte: what is in memory already is
// mapped at once, and what is in swap is waited for. pid is the process' id.
//
// It reports how many ranges something was read. Of a range of [Whole] pages or more it
// reads the first byte alone, for which the kernel maps all of it up to the first page
// that it cannot: half as dear as page by page, and not reported apart. Of shorter ones, each
// page counts as a range. What cannot be mapped keeps no others from it.
//
// The kernel offers it in no other way: MADV_POPULATE_READ is for a process itself
// alone (process_madvise_remote_valid), and /proc/PID/mem takes one call a range and
// copies all of it. A page that was never touched is given the page of zeros by it, so
// that only such as are in swap are worth naming.
//
// process_vm_readv(2) takes an id where the others take a pidfd. While the process
// has not ended its id is its own; where it ended meanwhile the error is [ErrGone], and
// nothing is known of what was read.
func Map(p Process, pid int, ranges []Range) (read int, err error) {
	if err := lives(p); err != nil {
		return 0, err
	}
	size := uint64(os.Getpagesize())
	var several []unix.RemoteIovec
	for _, r := range ranges {
		if r.Length >= Whole*size {
			n, err := mapWhole(pid, r, size)
			read += n
			if err != nil {
				return read, err
			}
			continue
		}
		for at := r.Start; at < r.End(); at += size {
			if len(several) == most {
				n, err := touch(pid, several)
				read += n
				if err != nil {
					return read, err
				}
				several = several[:0]
			}
			several = append(several, unix.RemoteIovec{Base: uintptr(at), Len: 1})
		}
	}
	n, err := touch(pid, several)
	if err != nil {
		return read + n, err
	}
	return read + n, lives(p)
}

// Whole is how many pages a range must have to be mapped as one: below, a system call
// for itself costs as much as it spares.
const Whole = 4

// mapWhole maps a range, a call for as many pages as the kernel pins in one go, of which
// it copies no more than there is room for (process_vm_rw_single_vec).
func mapWhole(pid int, r Range, size uint64) (int, error) {
	together := 2 * size / 8 * size // PVM_MAX_KMALLOC_PAGES of pointers
	read := 0
	for r.Length > 0 {
		n := min(r.Length, together)
		one, err := touch(pid, []unix.RemoteIovec{{Base: uintptr(r.Start), Len: int(n)}})
		if err != nil {
			return read, err
		}
		read = max(read, one)
		r.Start, r.Length = r.Start+n, r.Length-n
	}
	return read, nil
}

// touch reads as many bytes as there are places, going on behind those that cannot be
// read.
func touch(pid int, places []unix.RemoteIovec) (read int, err error) {
	const op = "process_vm_readv"
	var bytes [most]byte
	for len(places) > 0 {
		local := []unix.Iovec{{Base: &bytes[0]}}
		local[0].SetLen(len(places))
		n, err := unix.ProcessVMReadv(pid, local, places, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			if fatal := fatal(op, err); fatal != nil {
				return read, fatal
			}
			n = 0
		}
		read += n
		if n < len(places) {
			n++ // it stopped at one that cannot be read
		}
		places = places[n:]
	}
	return read, nil
}

// lives reports whether a process has not ended.
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
