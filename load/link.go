package load

import (
	"context"
	"net"
	"sync"
)

// dial connects by a target's own function, or TCP.
func dial(ctx context.Context, by func(context.Context, string) (net.Conn, error), address string) (net.Conn, error) {
	if by != nil {
		return by(ctx, address)
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", address)
}

// link holds a Conn's network connection, which Close may end from another
// goroutine at any moment, between a dial and its use among them.
type link struct {
	mu     sync.Mutex
	conn   net.Conn
	closed bool
}

// set takes over a fresh connection; it is false, and the connection closed,
// where the link is closed already.
func (l *link) set(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		conn.Close()
		return false
	}
	l.conn = conn
	return true
}

func (l *link) get() net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

// drop closes the connection, to make room for another.
func (l *link) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		l.conn.Close()
		l.conn = nil
	}
}

// close closes the connection, and any that is set later.
func (l *link) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.conn == nil {
		return nil
	}
	err := l.conn.Close()
	l.conn = nil
	return err
}
