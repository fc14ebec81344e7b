package socket

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Pair makes two connected stream sockets of the Unix family: one for this
// program, the other for a process that it is about to start, which inherits it.
// Neither has a name, so there is nothing to remove, and each end reads the end of
// the stream when the other is closed, by its process' death at the latest.
func Pair() (ours net.Conn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	own := os.NewFile(uintptr(fds[0]), "socket")
	defer own.Close() // FileConn duplicates it
	theirs = os.NewFile(uintptr(fds[1]), "socket")
	ours, err = net.FileConn(own)
	if err != nil {
		_ = theirs.Close()
		return nil, nil, fmt.Errorf("making a connection of a socket: %w", err)
	}
	return ours, theirs, nil
}
