// Package process starts, follows, ends and reaps processes: handles that a
// recycled id cannot fool, waiting that a context can end, the output of a
// process whose children outlive it, and what a process sets on itself before
// it executes a program.
//
// It knows no images, namespaces or limits of groups. See pidfd_open(2),
// prctl(2), sched_setaffinity(2), getrlimit(2).
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"tare/kernel/procfs"
)

// Identity names a process for as long as the host is up: its id, and when it
// started, since ids are used again.
type Identity struct {
	PID        int
	StartTicks uint64 // clock ticks since boot
}

// Identify gives the identity of a process that lives.
func Identify(pid int) (Identity, error) {
	stat, err := procfs.Host.Process(pid).Stat()
	if err != nil {
		return Identity{}, err
	}
	return Identity{pid, stat.StartTicks}, nil
}

// ParseIdentity reads what [Identity.Strings] wrote.
func ParseIdentity(pid, start string) (Identity, error) {
	p, err := strconv.Atoi(pid)
	if err != nil || p <= 0 {
		return Identity{}, fmt.Errorf("%q is not a process id", pid)
	}
	s, err := strconv.ParseUint(start, 10, 64)
	if err != nil {
		return Identity{}, fmt.Errorf("%q is not a process' start time", start)
	}
	return Identity{p, s}, nil
}

// Strings writes the identity for a list kept outside.
func (id Identity) Strings() (pid, start string) {
	return strconv.Itoa(id.PID), strconv.FormatUint(id.StartTicks, 10)
}

// Alive reports whether the process runs: a zombie does not, and one that took
// its id since is another.
func (id Identity) Alive() bool {
	stat, err := procfs.Host.Process(id.PID).Stat()
	return err == nil && !stat.Zombie() && stat.StartTicks == id.StartTicks
}

// Handle is an open process. It stays with the process it was opened for.
type Handle struct {
	Identity
	pidfd *os.File
}

// Open opens the process. ErrGone is returned where it has ended and been
// reaped, or where another one has its id now.
func (id Identity) Open() (*Handle, error) {
	fd, err := unix.PidfdOpen(id.PID, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, fmt.Errorf("process %d: %w", id.PID, ErrGone)
	}
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	h := &Handle{id, os.NewFile(uintptr(fd), "pidfd")}
	// Only now that the handle pins it can it be known whose it is.
	now, err := Identify(id.PID)
	if err != nil || now != id {
		_ = h.Close()
		return nil, fmt.Errorf("process %d: %w", id.PID, ErrGone)
	}
	return h, nil
}

// ErrGone says that the process has ended and been reaped.
var ErrGone = errors.New("process is gone")

// Signal sends a signal. ErrGone is returned where the process has ended.
func (h *Handle) Signal(sig int) error {
	err := h.Control(func(fd int) error { return unix.PidfdSendSignal(fd, unix.Signal(sig), nil, 0) })
	if errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("process %d: %w", h.PID, ErrGone)
	}
	if err != nil {
		return fmt.Errorf("sending signal %d to process %d: %w", sig, h.PID, err)
	}
	return nil
}

// Await blocks until the process has ended (it need not be a child, and is
// not reaped).
func (h *Handle) Await(ctx context.Context) error {
	raw, err := h.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = h.pidfd.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	// A pidfd is readable once its process has ended.
	err = raw.Read(func(fd uintptr) bool {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, 0)
		return err == nil && n > 0
	})
	if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Control calls f with the process' descriptor (a pidfd), which stays what it is
// until f returns, even where the handle is closed meanwhile.
func (h *Handle) Control(f func(fd int) error) error {
	raw, err := h.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// Close releases the handle; the process goes on.
func (h *Handle) Close() error { return h.pidfd.Close() }

// Kill ends the process that the identity names, and no other, with SIGKILL
// and returns when it has ended. Where it is gone there is nothing to do.
func (id Identity) Kill(ctx context.Context) error {
	h, err := id.Open()
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer h.Close()
	if err := h.Signal(int(unix.SIGKILL)); err != nil {
		if errors.Is(err, ErrGone) {
			return nil
		}
		return err
	}
	return h.Await(ctx)
}
