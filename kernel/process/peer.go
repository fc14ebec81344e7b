package process

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// Peer is the process at the other end of a connection over a Unix socket: the
// one that was listening when the connection was made, by its id here. It is 0
// where that process is in a process namespace that is not seen from here. See
// SO_PEERCRED in unix(7).
func Peer(conn *net.UnixConn) (pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var credentials *unix.Ucred
	var asking error
	err = raw.Control(func(fd uintptr) {
		credentials, asking = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, asking); err != nil {
		return 0, err
	}
	return int(credentials.Pid), nil
}
