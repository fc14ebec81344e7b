// Package socket uses connections in ways that package net does not offer: it polls
// them ([Poll]), makes pairs of them ([Pair]), and takes them out of the Go runtime's
// poller ([Detach]). It also finds ports for programs to listen at ([DrawPorts]).
//
// To poll is to ask the kernel again and again, instead of sleeping until it answers. A
// sleeper learns of an answer late. The CPU leaves its idle state, the kernel schedules a
// thread, and the Go runtime a goroutine: some tens of microseconds, in every latency. A
// poller learns of it within a microsecond, and keeps a CPU busy for that.
package socket

import (
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// LongestPoll bounds for how long one Read may poll: neither a deadline nor Close
// ends it while it does.
const LongestPoll = 10 * time.Millisecond

// Poll makes a connection whose Read polls for up to limit before it sleeps. It is
// for one connection at a time, on a CPU that nobody else needs: it does not
// yield, since the runtime would look for something else to run, and wake a
// thread for that on the very CPU. A connection that is no socket is given back
// as it is.
func Poll(conn net.Conn, limit time.Duration) (net.Conn, error) {
	if limit < 0 || limit > LongestPoll {
		return nil, fmt.Errorf("poll for %v: want 0 to %v", limit, LongestPoll)
	}
	socket, ok := conn.(syscall.Conn)
	if !ok || limit == 0 {
		return conn, nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("poll: %w", err)
	}
	return &polled{Conn: conn, raw: raw, limit: limit}, nil
}

type polled struct {
	net.Conn
	raw   syscall.RawConn
	limit time.Duration
}

func (p *polled) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	// False makes the runtime wait, as any Read does, and ask again afterwards.
	waiting := p.raw.Read(func(fd uintptr) bool {
		var until time.Time
		for {
			n, err = unix.Read(int(fd), b)
			switch {
			case err == unix.EINTR:
				continue
			case err != unix.EAGAIN:
				return true
			}
			switch now := time.Now(); {
			case until.IsZero():
				until = now.Add(p.limit)
			case now.After(until):
				return false
			}
		}
	})
	switch {
	case waiting != nil: // the deadline, or Close
		return 0, waiting
	case err != nil:
		local := p.LocalAddr()
		return 0, &net.OpError{
			Op:     "read",
			Net:    local.Network(),
			Source: local,
			Addr:   p.RemoteAddr(),
			Err:    os.NewSyscallError("read", err),
		}
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}
