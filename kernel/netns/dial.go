package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"tare/kernel/process"
)

// Dialer connects from the network namespace that file keeps (a mount of
// [Create], or /proc/PID/ns/net). Only the socket is made there, on a thread that
// is back before anything else runs on it: a socket stays in the namespace in
// which it was made, and what is returned is a connection like any other. Small
// messages are sent at once (TCP_NODELAY).
//
// An address is an IP address and a port: names would be looked up elsewhere.
func Dialer(file string) func(ctx context.Context, address string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, fmt.Errorf("dial %s: want an IP address and a port: %w", address, err)
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("dial %s: %w", address, err)
		}
		socket, err := socketIn(file, to)
		if err != nil {
			return nil, fmt.Errorf("dial %s: %w", address, err)
		}
		// The connection holds a descriptor of its own.
		defer socket.Close()
		if err := connect(ctx, socket, to); err != nil {
			return nil, fmt.Errorf("dial %s from %s: %w", address, file, err)
		}
		connection, err := net.FileConn(socket)
		if err != nil {
			return nil, fmt.Errorf("dial %s: %w", address, err)
		}
		return connection, nil
	}
}

// socketIn makes a TCP socket in the namespace kept at file.
func socketIn(file string, to netip.AddrPort) (socket *os.File, err error) {
	create := func() error {
		family := unix.AF_INET
		if to.Addr().Is6() && !to.Addr().Is4In6() {
			family = unix.AF_INET6
		}
		fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
		if err != nil {
			return os.NewSyscallError("socket", err)
		}
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
			_ = unix.Close(fd)
			return os.NewSyscallError("setsockopt(TCP_NODELAY)", err)
		}
		socket = os.NewFile(uintptr(fd), "tcp:"+to.String())
		return nil
	}
	if err := visit(file, create); err != nil {
		if socket != nil {
			_ = socket.Close()
		}
		return nil, err
	}
	return socket, nil
}

// visit runs f on a thread that is in the namespace meanwhile. It comes back
// rather than ending, since a connection for each request would otherwise cost
// a thread each.
func visit(file string, f func() error) error {
	runtime.LockOSThread()
	// The first thread is what others see of the whole program.
	if unix.Gettid() == os.Getpid() {
		defer runtime.UnlockOSThread()
		return process.OnFreshThread(func() error {
			if err := Enter(file); err != nil {
				return err
			}
			return f()
		})
	}
	home, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		runtime.UnlockOSThread()
		return &os.PathError{Op: "open namespace", Path: "/proc/thread-self/ns/net", Err: err}
	}
	defer unix.Close(home)
	if err := Enter(file); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	failed := f()
	if err := unix.Setns(home, unix.CLONE_NEWNET); err != nil {
		// Held for good: nothing else may run on a thread that is lost there. It
		// ends with its goroutine.
		return errors.Join(failed, os.NewSyscallError("setns back", err))
	}
	runtime.UnlockOSThread()
	return failed
}

// connect connects a socket that does not block, and waits until it is.
func connect(ctx context.Context, socket *os.File, to netip.AddrPort) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var begun error
	if err := raw.Control(func(fd uintptr) { begun = unix.Connect(int(fd), sockaddr(to)) }); err != nil {
		return err
	}
	switch {
	case begun == nil:
		return nil
	case !errors.Is(begun, unix.EINPROGRESS) && !errors.Is(begun, unix.EINTR):
		return os.NewSyscallError("connect", begun)
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := socket.SetWriteDeadline(deadline); err != nil {
			return err
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = socket.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	// A socket can be written to once it is connected, or has failed to.
	var outcome error
	err = raw.Write(func(fd uintptr) bool {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if n, err := unix.Poll(poll, 0); err != nil || n == 0 {
			return false
		}
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		switch {
		case err != nil:
			outcome = os.NewSyscallError("getsockopt(SO_ERROR)", err)
		case code != 0:
			outcome = os.NewSyscallError("connect", unix.Errno(code))
		}
		return true
	})
	if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(err, outcome)
}

func sockaddr(to netip.AddrPort) unix.Sockaddr {
	if a := to.Addr().Unmap(); a.Is4() {
		return &unix.SockaddrInet4{Port: int(to.Port()), Addr: a.As4()}
	}
	return &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
}
