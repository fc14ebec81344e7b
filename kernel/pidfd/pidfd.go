// Package pidfd holds on to processes that are not our children: a handle that
// stays with its process when the process id is used again, that tells the
// process' end as an event, and that signals nobody else.
//
// It starts and reaps nothing. The kernel's interface is pidfd_open(2), Linux
// 5.3 and newer.
package pidfd

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Process is a handle on one process.
type Process struct {
	PID  int
	file *os.File
}

// Open takes hold of a process. Where there is none of that id the error wraps
// syscall.ESRCH; a kernel without pidfds gives syscall.ENOSYS. A process that
// has ended and has not been reaped can still be opened.
func Open(pid int) (*Process, error) {
	// Non-blocking makes the runtime's poller take it, so that waiting costs
	// no thread.
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.EINVAL) { // before 5.10 there are no flags
		fd, err = unix.PidfdOpen(pid, 0)
		if err == nil {
			err = unix.SetNonblock(fd, true)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("pidfd_open of process %d: %w", pid, err)
	}
	return &Process{PID: pid, file: os.NewFile(uintptr(fd), "pidfd")}, nil
}

// Await blocks until the process has ended, all its threads with it. It does
// not reap. After Close it fails.
func (p *Process) Await() error {
	conn, err := p.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("await the end of process %d: %w", p.PID, err)
	}
	// A pidfd becomes readable at the end and stays so.
	err = conn.Read(func(fd uintptr) bool { return readable(int(fd)) })
	if err != nil {
		return fmt.Errorf("await the end of process %d: %w", p.PID, err)
	}
	return nil
}

// Ended reports whether the process has ended (a zombie has). It is true
// after Close.
func (p *Process) Ended() bool {
	conn, err := p.file.SyscallConn()
	if err != nil {
		return true
	}
	ended := true
	err = conn.Control(func(fd uintptr) { ended = readable(int(fd)) })
	return err != nil || ended
}

// Kill ends the process with SIGKILL. Where it has ended the error wraps
// syscall.ESRCH.
func (p *Process) Kill() error {
	conn, err := p.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("kill process %d: %w", p.PID, err)
	}
	var sent error
	if err := conn.Control(func(fd uintptr) {
		sent = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0)
	}); err != nil {
		sent = err
	}
	if sent != nil {
		return fmt.Errorf("kill process %d: %w", p.PID, sent)
	}
	return nil
}

// Close lets go of the process, and ends an Await that is under way.
func (p *Process) Close() error { return p.file.Close() }

// readable asks without blocking.
func readable(fd int) bool {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(poll, 0)
		if !errors.Is(err, unix.EINTR) {
			return err != nil || n > 0
		}
	}
}
