// Package descriptor makes descriptors of the kernel's that are no files (a ring of BPF's) such
// that goroutines can wait for them. See poll(2), fcntl(2).
package descriptor

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Awaitable gives another descriptor for what an open one stands for, for which a goroutine
// can wait, by SyscallConn, while no thread does: a thread that waits in a system call has the
// Go runtime look after it, tens of times a millisecond. What it stands for is non-blocking
// from then on, by the first descriptor too, which stays its owner's.
func Awaitable(fd int, name string) (*os.File, error) {
	again, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate the descriptor of %s: %w", name, os.NewSyscallError("fcntl", err))
	}
	if err := unix.SetNonblock(again, true); err != nil {
		unix.Close(again)
		return nil, fmt.Errorf("make %s non-blocking: %w", name, os.NewSyscallError("fcntl", err))
	}
	return os.NewFile(uintptr(again), name), nil
}
