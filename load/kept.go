package load

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// keptIdle bounds the connections to one service that lie idle. Those that a stall took
// besides are closed after it: each holds some of the service's memory.
const keptIdle = 2

// Kept is a target whose connections outlive the load that made them: the next one
// finds them open, and does not have to wait, or be answered, for connecting. It is
// for a service that is asked now and then, through several loads.
//
// Who serves may close a connection that has long been idle, which is no failure of
// his: a request that finds it closed, before any of its answer, is sent anew over
// another (RFC 9112, 9.3.1 has clients do so), and takes as much longer.
type Kept struct {
	target Target
	opened atomic.Int64

	mu     sync.Mutex
	idle   []Conn
	closed bool
}

// Keep makes a target keep its connections until its Close.
func Keep(target Target) *Kept { return &Kept{target: target} }

// Opened is how many connections were made, for the first time or anew.
func (k *Kept) Opened() int64 { return k.opened.Load() }

// Open gives a connection that lies idle, the one last used first, or connects.
func (k *Kept) Open(ctx context.Context) (Conn, error) {
	conn := k.take()
	rested := conn != nil
	if conn == nil {
		var err error
		if conn, err = k.connect(ctx); err != nil {
			return nil, err
		}
	}
	c := &keptConn{of: k, conn: conn, rested: rested, fit: true}
	c.alive, c.end = context.WithCancel(context.Background())
	return c, nil
}

func (k *Kept) connect(ctx context.Context) (Conn, error) {
	conn, err := k.target.Open(ctx)
	if err == nil {
		k.opened.Add(1)
	}
	return conn, err
}

func (k *Kept) take() Conn {
	k.mu.Lock()
	defer k.mu.Unlock()
	last := len(k.idle) - 1
	if last < 0 {
		return nil
	}
	conn := k.idle[last]
	k.idle = k.idle[:last]
	return conn
}

// give takes a connection back, and tells whether it is kept.
func (k *Kept) give(conn Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || len(k.idle) >= keptIdle {
		return false
	}
	k.idle = append(k.idle, conn)
	return true
}

// Close closes the connections: those in use when they are given back. It may be
// called again.
func (k *Kept) Close() error {
	k.mu.Lock()
	idle := k.idle
	k.idle, k.closed = nil, true
	k.mu.Unlock()
	for _, conn := range idle {
		conn.Close() // nothing is under way that could be lost
	}
	return nil
}

// keptConn is the use of a connection from its Open to its Close, which gives it back.
type keptConn struct {
	of     *Kept
	rested bool            // it has lain idle since it was last used
	alive  context.Context // until Close
	end    context.CancelFunc

	mu     sync.Mutex
	conn   Conn
	fit    bool // for another request
	asking bool // one is under way
	closed bool
}

// Do sends a request, over another connection where this one was closed as it lay idle.
func (c *keptConn) Do(deadline time.Time) (reusable bool, err error) {
	conn, err := c.begin()
	if err != nil {
		return false, err
	}
	reusable, err = conn.Do(deadline)
	if err != nil && c.rested && kindOf(err) == KindClosed {
		if conn, err = c.replace(deadline); err == nil {
			reusable, err = conn.Do(deadline)
		}
	}
	c.rested = false
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking, c.fit = false, reusable
	return reusable, err
}

func (c *keptConn) begin() (Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, net.ErrClosed
	}
	c.asking = true
	return c.conn, nil
}

// replace connects anew, unless it was Close that closed the connection.
func (c *keptConn) replace(deadline time.Time) (Conn, error) {
	ctx, cancel := context.WithDeadline(c.alive, deadline)
	defer cancel()
	fresh, err := c.of.connect(ctx)
	if err != nil {
		return nil, &Error{Kind: KindConnect, Err: err}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		fresh.Close()
		return nil, net.ErrClosed
	}
	c.conn.Close() // which its other end has closed
	c.conn = fresh
	return fresh, nil
}

// Close gives the connection back; it ends a request under way, and what another
// cannot follow on, for good.
func (c *keptConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	c.end()
	if !c.asking && c.fit && c.of.give(c.conn) {
		return nil
	}
	return c.conn.Close()
}

// arrived is the connection's own, or no moment where it has none.
func (c *keptConn) arrived() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a, ok := c.conn.(arriving); ok {
		return a.arrived()
	}
	return time.Time{}
}
