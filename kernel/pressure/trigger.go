package pressure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Threshold is a bound on a stall: at least Stall of it within any Window.
type Threshold struct {
	Full   bool // all tasks, not one of them
	Stall  time.Duration
	Window time.Duration // 500 ms to 10 s; without CAP_SYS_RESOURCE (which root may lack) multiples of 2 s
}

// line is the threshold as the kernel wants it.
func (t Threshold) line() (string, error) {
	if t.Stall < time.Microsecond || t.Window < t.Stall {
		return "", fmt.Errorf("a stall of %v in a window of %v: want at least 1us, and a window no shorter", t.Stall, t.Window)
	}
	kind := "some"
	if t.Full {
		kind = "full"
	}
	return fmt.Sprintf("%s %d %d", kind, t.Stall.Microseconds(), t.Window.Microseconds()), nil
}

// Event is a threshold that was reached, or the end of the watch.
type Event struct {
	At time.Time
	// Err is why there will be no more: a [*NoGroup] where the group was removed.
	Err error
}

// Trigger has the kernel watch, and gives an event when the threshold is reached, at
// most one each window. An event that nobody has taken stands for those after it. The
// channel is closed when ctx ends, or after an event with an error.
//
// It costs one thread of this program, which sleeps, and makes the kernel look at the
// source every tenth of the window while there is pressure.
func (s Source) Trigger(ctx context.Context, t Threshold) (<-chan Event, error) {
	line, err := t.line()
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open(s.File(), unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, s.absent(&os.PathError{Op: "open", Path: s.File(), Err: err})
	}
	// The kernel reads a string: with the byte that ends it.
	if _, err := unix.Write(fd, append([]byte(line), 0)); err != nil {
		unix.Close(fd)
		return nil, s.rejected(t, &os.PathError{Op: "write", Path: s.File(), Err: err})
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("eventfd", err)
	}
	events := make(chan Event, 1)
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		one := [8]byte{1, 1, 1, 1, 1, 1, 1, 1} // any number but 0, of either order
		_, _ = unix.Write(wake, one[:])
	})
	go func() {
		defer close(events)
		s.watch(fd, wake, events)
		unix.Close(fd) // which takes the trigger away
		if !stop() {
			<-ended // it may still write to the descriptor
		}
		unix.Close(wake)
	}()
	return events, nil
}

// rejected says what the kernel's errors at a trigger mean.
func (s Source) rejected(t Threshold, err error) error {
	switch {
	case errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("%w: the kernel takes no stall of %v in %v: want a window of 500ms to 10s, and without CAP_SYS_RESOURCE a multiple of 2s", err, t.Stall, t.Window)
	case errors.Is(err, syscall.EPERM):
		return fmt.Errorf("%w: it needs CAP_SYS_RESOURCE", err)
	}
	return s.absent(err)
}

// watch waits for the kernel until it is woken or the source is gone.
//
// The runtime's own poller does not wait for POLLPRI, by which triggers report.
func (s Source) watch(fd, wake int, events chan Event) {
	for {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}, {Fd: int32(wake), Events: unix.POLLIN}}
		_, err := unix.Poll(fds, -1)
		switch {
		case err == unix.EINTR:
		case err != nil:
			last(events, os.NewSyscallError("poll", err))
			return
		case fds[1].Revents != 0:
			return
		case fds[0].Revents&unix.POLLERR != 0:
			last(events, s.absent(syscall.ENODEV))
			return
		case fds[0].Revents&unix.POLLPRI != 0:
			select {
			case events <- Event{At: time.Now()}:
			default: // one is waiting already
			}
		}
	}
}

// last says why there is no more, in the place of an event that nobody has taken.
func last(events chan Event, err error) {
	select {
	case <-events:
	default:
	}
	events <- Event{time.Now(), err}
}
