// Package clock wakes a goroutine at a moment, to some tens of microseconds, and
// reads the clock by which the kernel stamps its events.
//
// The Go runtime rounds its timers up to the millisecond of epoll_wait(2)
// where nothing else runs, which is more than many a latency that is to be
// measured. An [Alarm] is a timerfd(2): it becomes readable at its moment, so
// the runtime's poller wakes the goroutine as it does for a socket, without
// holding a processor or spinning meanwhile.
//
// Moments are those of package time; [Monotonic] is for those that come from the
// kernel.
package clock

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Alarm is one timer. It is for one goroutine at a time; Close may be called
// from another and ends a Sleep under way.
type Alarm struct {
	file *os.File
	conn interface {
		Control(func(fd uintptr)) error
	}
}

// NewAlarm makes an alarm. It costs one file descriptor until Close.
func NewAlarm() (*Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("timerfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "timerfd")
	conn, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("timerfd: %w", err)
	}
	return &Alarm{file: file, conn: conn}, nil
}

// Sleep returns after d, at once where d is not positive, and with an error
// that wraps [os.ErrClosed] where the alarm is closed.
func (a *Alarm) Sleep(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	var set error
	// Control, and not Fd: Fd would put the descriptor into blocking mode and
	// take it from the poller.
	if err := a.conn.Control(func(fd uintptr) { set = unix.TimerfdSettime(int(fd), 0, &spec, nil) }); err != nil {
		// The poller's own error for a closed file is not exported.
		return fmt.Errorf("set timerfd: %w", os.ErrClosed)
	}
	if set != nil {
		return fmt.Errorf("timerfd_settime: %w", set)
	}
	var expirations [8]byte
	if _, err := a.file.Read(expirations[:]); err != nil {
		return fmt.Errorf("wait for timerfd: %w", err)
	}
	return nil
}

// Close releases the descriptor. It may be called again.
func (a *Alarm) Close() error {
	if err := a.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
