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
	credentials, err := peer(conn)
	if err != nil {
		return 0, err
	}
	return int(credentials.Pid), nil
}

// PeerUser is the effective user of the process at the other end of a connection over a
// Unix socket, as it was when the connection was made (of a listener, when it began to
// listen), by its id here.
func PeerUser(conn *net.UnixConn) (uid uint32, err error) {
	credentials, err := peer(conn)
	if err != nil {
		return 0, err
	}
	return credentials.Uid, nil
}

func peer(conn *net.UnixConn) (credentials *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var asking error
	err = raw.Control(func(fd uintptr) {
		credentials, asking = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return credentials, errors.Join(err, asking)
}
