// Package poll waits for many descriptors on one thread, by epoll(7).
//
// The Go runtime has a poller of its own, which wakes a goroutine for each descriptor.
// A [Set] wakes nobody: the thread that waits is the one that goes on. Its descriptors
// must not be in the runtime's poller too, which would be woken beside it.
package poll

import (
	"fmt"
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// batch bounds how many events one Wait reports. The next one reports the rest.
const batch = 128

// Token is what a descriptor is known by: its place among its owner's, and which of the
// descriptors that took that place it is. Place is not negative.
type Token struct{ Place, Generation int32 }

// waking is the token of the set's own descriptor.
var waking = Token{Place: -1}

// Event reports what a descriptor is ready for.
type Event struct {
	Token
	Readable bool // there are bytes to read, or the end of the stream, or an error
	Writable bool // only where it was asked for
}

// Set is a set of descriptors. It is for one goroutine, save Wake and Close.
type Set struct {
	epoll  int
	coarse bool // the kernel has no epoll_pwait2(2)
	raw    [batch]unix.EpollEvent
	events [batch]Event

	closing sync.RWMutex
	wake    int // an eventfd(2)
	closed  bool
}

// New makes an empty set. It costs two descriptors until Close.
func New() (*Set, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(epoll)
		return nil, os.NewSyscallError("eventfd", err)
	}
	s := &Set{epoll: epoll, wake: wake}
	if err := s.Add(wake, waking); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// Add has Wait report when a descriptor is readable. Closing the descriptor takes it out
// again, provided that it has no duplicate.
func (s *Set) Add(fd int, token Token) error {
	return s.control(unix.EPOLL_CTL_ADD, fd, token, false)
}

// Writable has Wait report also when a descriptor is writable, or no longer.
func (s *Set) Writable(fd int, token Token, wanted bool) error {
	return s.control(unix.EPOLL_CTL_MOD, fd, token, wanted)
}

func (s *Set) control(op, fd int, token Token, writable bool) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP, Fd: token.Place, Pad: token.Generation}
	if writable {
		event.Events |= unix.EPOLLOUT
	}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(s.epoll, op, fd, &event))
}

// Wait returns when a descriptor is ready, when Wake was called, or after limit, to the
// precision of the thread's timers (see clock.Exact). The events are good until the
// next Wait. There may be none, even before limit.
func (s *Set) Wait(limit time.Duration) ([]Event, error) {
	n, err := s.wait(max(limit, 0))
	if err == unix.EINTR { // the Go runtime's own signals
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	events := s.events[:0]
	for _, raw := range s.raw[:n] {
		token := Token{raw.Fd, raw.Pad}
		if token == waking {
			var count [8]byte
			_, _ = unix.Read(s.wake, count[:]) // it cannot fail: the kernel has just reported it
			continue
		}
		events = append(events, Event{
			Token:    token,
			Readable: raw.Events&^unix.EPOLLOUT != 0,
			Writable: raw.Events&unix.EPOLLOUT != 0,
		})
	}
	return events, nil
}

func (s *Set) wait(limit time.Duration) (int, error) {
	timeout := unix.NsecToTimespec(int64(limit))
	if !s.coarse {
		n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(s.epoll), uintptr(unsafe.Pointer(&s.raw)), batch,
			uintptr(unsafe.Pointer(&timeout)), 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.ENOSYS, unix.EPERM: // before Linux 5.11; or a filter that does not know it
			s.coarse = true
		default:
			return 0, errno
		}
	}
	// An epoll instance is a descriptor that can be waited for, too: ppoll(2) has nanoseconds.
	ready := []unix.PollFd{{Fd: int32(s.epoll), Events: unix.POLLIN}}
	if _, err := unix.Ppoll(ready, &timeout, nil); err != nil {
		return 0, err
	}
	return unix.EpollWait(s.epoll, s.raw[:], 0)
}

// Wake ends a Wait that is under way, or else the next one. Any goroutine may call it.
func (s *Set) Wake() {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if !s.closed {
		_, _ = unix.Write(s.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // where the counter is full, Wait is woken already
	}
}

// Close releases the set's own descriptors, and none that were added. No Wait may be
// under way. It may be called again.
func (s *Set) Close() error {
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	_ = unix.Close(s.wake) // an eventfd has nothing to lose
	if err := unix.Close(s.epoll); err != nil {
		return fmt.Errorf("close: %w", os.NewSyscallError("epoll", err))
	}
	return nil
}
