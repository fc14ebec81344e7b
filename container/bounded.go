package container

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// mostReply bounds an engine's reply, in bytes, as containerd's client does by itself.
// A list of thousands of containers is shorter.
const mostReply = 16 << 20

// mostUsersReply bounds that of a user's socket, at which anything may answer: what is read of
// a reply takes a hundred times its bytes where it is made for that, and no user has as many
// containers as a host.
const mostUsersReply = 256 << 10

// dial connects to a socket so that no reply is longer than most bytes.
func dial(socket string, most int64) func(ctx context.Context, _, _ string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := connect(ctx, socket)
		if err != nil {
			return nil, err
		}
		return &bounded{Conn: conn, most: most}, nil
	}
}

// connect connects to a socket, and waits while as many others as its program lets wait are
// before it: the kernel then answers at once that it should be tried again (unix(7)).
func connect(ctx context.Context, socket string) (net.Conn, error) {
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if !errors.Is(err, syscall.EAGAIN) {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// bounded is a connection on which at most so many bytes come since something was
// last sent, which in HTTP 1 is a request.
type bounded struct {
	net.Conn
	most int64
	came atomic.Int64
}

func (b *bounded) Write(p []byte) (int, error) {
	b.came.Store(0)
	return b.Conn.Write(p)
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if b.came.Add(int64(n)) > b.most {
		return 0, fmt.Errorf("a reply of more than %d KiB", b.most>>10)
	}
	return n, err
}
