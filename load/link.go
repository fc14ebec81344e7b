package load

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"
)

// dialing is how a target connects; nil is by TCP.
type dialing func(ctx context.Context, address string) (net.Conn, error)

func (by dialing) connect(ctx context.Context, address string) (net.Conn, error) {
	if by == nil {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "tcp", address)
	}
	conn, err := by(ctx, address)
	if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
		_ = tcp.SetNoDelay(true) // as Go has it by itself
	}
	return conn, err
}

// direct is the address to which connect connects by plain TCP; not valid where it does
// otherwise, or has to look up a name.
func (by dialing) direct(address string) (to netip.AddrPort) {
	if by == nil {
		to, _ = netip.ParseAddrPort(address)
	}
	return to
}

// dial connects by a target's own function, or TCP, and notes when answers come.
func dial(ctx context.Context, by func(context.Context, string) (net.Conn, error), address string) (net.Conn, error) {
	conn, err := dialing(by).connect(ctx, address)
	if err != nil {
		return nil, err
	}
	return &noting{Conn: conn}, nil
}

// noting is a connection that knows when it was last read from.
type noting struct {
	net.Conn
	read time.Time // by the goroutine that reads
}

func (n *noting) Read(p []byte) (int, error) {
	got, err := n.Conn.Read(p)
	n.read = time.Now()
	return got, err
}

// link holds a Conn's network connection, which Close may end from another
// goroutine at any moment, between a dial and its use among them.
type link struct {
	mu     sync.Mutex
	conn   net.Conn
	latest *noting // the last that was set, dropped since or not
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
	l.latest, _ = conn.(*noting)
	return true
}

// arrived is when the connection was last read from, which was the end of an
// answer that has just been read. It is for the goroutine that read.
func (l *link) arrived() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.latest == nil {
		return time.Time{}
	}
	return l.latest.read
}

func (l *link) get() net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

// detach gives the connection away, as it was dialled; nil where there is none.
func (l *link) detach() net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	conn := l.conn
	l.conn = nil
	if noted, ok := conn.(*noting); ok {
		return noted.Conn
	}
	return conn
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
