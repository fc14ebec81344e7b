// Package descriptor waits for descriptors of the kernel's that are no files, such as a ring
// of BPF's. See poll(2), fcntl(2).
package descriptor

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Awaited is a descriptor for which a goroutine waits while no thread does: a thread that
// waits in a system call has the Go runtime look after it, tens of times a millisecond.
type Awaited struct {
	file *os.File
	conn syscall.RawConn
}

// Await makes what an open descriptor stands for be awaited. It is non-blocking from then
// on, by that descriptor too, which stays its owner's.
func Await(fd int, name string) (_ *Awaited, err error) {
	again, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate the descriptor of %s: %w", name, os.NewSyscallError("fcntl", err))
	}
	if err := unix.SetNonblock(again, true); err != nil {
		unix.Close(again)
		return nil, fmt.Errorf("make %s non-blocking: %w", name, os.NewSyscallError("fcntl", err))
	}
	a := &Awaited{file: os.NewFile(uintptr(again), name)}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("wait for %s: %w", name, err), a.file.Close())
		}
	}()
	if err := a.file.SetReadDeadline(time.Time{}); err != nil { // os.ErrNoDeadline where it cannot be polled
		return nil, err
	}
	if a.conn, err = a.file.SyscallConn(); err != nil {
		return nil, err
	}
	return a, nil
}

// Until waits until enough says so, which is asked at once, and whenever the kernel reports
// that there is something; or until a deadline, which gives os.ErrDeadlineExceeded and is
// never where it is zero. Close ends it too, with an error.
func (a *Awaited) Until(deadline time.Time, enough func() bool) error {
	if err := a.file.SetReadDeadline(deadline); err != nil {
		return err
	}
	return a.conn.Read(func(uintptr) bool { return enough() })
}

// Close ends the waiting. What is awaited stays.
func (a *Awaited) Close() error { return a.file.Close() }
