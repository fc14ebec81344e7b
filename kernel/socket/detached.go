package socket

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Detached is a connection that the Go runtime's poller does not look after: nothing of
// the runtime's wakes when bytes come. Its calls never wait, and allocate nothing.
type Detached struct{ fd int }

// ErrWait is the error of a call that would have to wait.
const ErrWait = syscall.EAGAIN

// Detach takes the socket out of a connection, which is closed by that, whatever the
// error. What the connection has read already stays with its reader.
func Detach(conn net.Conn) (*Detached, error) {
	defer conn.Close() // the duplicate keeps the socket open
	if p, ok := conn.(*polled); ok {
		conn = p.Conn
	}
	with, ok := conn.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("detach %T: want a socket", conn)
	}
	raw, err := with.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("detach: %w", err)
	}
	again := -1
	var failed error
	if err := raw.Control(func(fd uintptr) { again, failed = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, fmt.Errorf("detach: %w", err)
	}
	if failed != nil {
		return nil, fmt.Errorf("detach: %w", os.NewSyscallError("fcntl", failed))
	}
	if err := unix.SetNonblock(again, true); err != nil {
		return nil, errors.Join(fmt.Errorf("detach: %w", os.NewSyscallError("fcntl", err)), unix.Close(again))
	}
	return &Detached{again}, nil
}

// Connect begins a TCP connection, whose small messages are sent at once (TCP_NODELAY).
// Write reports ErrWait until it is made, or why it could not be made.
func Connect(to netip.AddrPort) (*Detached, error) {
	family, port := unix.AF_INET, int(to.Port())
	var address unix.Sockaddr
	switch ip := to.Addr().Unmap(); {
	case ip.Is4():
		address = &unix.SockaddrInet4{Port: port, Addr: ip.As4()}
	case ip.Is6() && ip.Zone() == "":
		family, address = unix.AF_INET6, &unix.SockaddrInet6{Port: port, Addr: ip.As16()}
	default:
		return nil, fmt.Errorf("connect to %s: want an IP address without a zone", to)
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		err = os.NewSyscallError("setsockopt(TCP_NODELAY)", err)
	} else if err = unix.Connect(fd, address); err == unix.EINPROGRESS {
		err = nil
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("connect to %s: %w", to, err)
	}
	return &Detached{fd}, nil
}

// Descriptor is the socket's number, for package poll.
func (d *Detached) Descriptor() int { return d.fd }

// Read gives what has come: ErrWait where there is nothing, io.EOF at the end. Other errors
// are bare numbers of the kernel's.
//
// Neither it nor Write informs the Go runtime of its system call. They do not wait, and the
// runtime would take the processor away from a thread that is in the kernel for 20 us.
func (d *Detached) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		n, _, errno := unix.RawSyscall6(
			unix.SYS_RECVFROM,
			uintptr(d.fd),
			uintptr(unsafe.Pointer(&b[0])),
			uintptr(len(b)),
			unix.MSG_DONTWAIT,
			0,
			0,
		)
		switch {
		case errno == unix.EINTR:
		case errno != 0:
			return 0, errno
		case n == 0:
			return 0, io.EOF
		default:
			return int(n), nil
		}
	}
}

// Write sends as much as there is room for: where that is not all, the error is ErrWait.
func (d *Detached) Write(b []byte) (sent int, err error) {
	for sent < len(b) {
		n, _, errno := unix.RawSyscall6(
			unix.SYS_SENDTO,
			uintptr(d.fd),
			uintptr(unsafe.Pointer(&b[sent])),
			uintptr(len(b)-sent),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL,
			0,
			0,
		)
		switch errno {
		case 0:
			sent += int(n)
		case unix.EINTR:
		default:
			return sent, errno
		}
	}
	return sent, nil
}

// Close closes the connection. It is called once.
func (d *Detached) Close() error { return os.NewSyscallError("close", unix.Close(d.fd)) }
