package load

import (
	"context"
	"sync"
	"time"
)

// held is a place for one connection to a target, which is made anew where the last
// one is gone. One goroutine asks; drop may come from another too, and ends a request
// under way.
type held struct {
	target  Target
	timeout time.Duration // of connecting, and of each request

	mu   sync.Mutex
	conn Conn
}

// open connects to a target.
func open(ctx context.Context, target Target, timeout time.Duration) (Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := target.Open(ctx)
	if err != nil {
		return nil, &Error{Kind: KindConnect, Err: err}
	}
	return conn, nil
}

// drop closes the connection of the moment, whichever it is.
func (h *held) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conn != nil {
		h.conn.Close()
	}
	h.conn = nil
}

func (h *held) hold(conn Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conn = conn
}

// standing is the connection of the moment; nil where there is none.
func (h *held) standing() Conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.conn
}

// one does one request, on a new connection where there is none. answered is when
// its answer had come, or when it had failed.
func (h *held) one(ctx context.Context) (answered time.Time, err error) {
	began := time.Now()
	conn := h.standing()
	if conn == nil {
		if conn, err = open(ctx, h.target, h.timeout); err != nil {
			return time.Now(), err
		}
		h.hold(conn)
		if ctx.Err() != nil {
			return time.Now(), context.Cause(ctx) // cancelled before the connection was held
		}
	}
	reusable, err := conn.Do(began.Add(h.timeout))
	answered = time.Now()
	// What it took to look into the answer is no part of its latency. An answer
	// that was there before the request, with the one before, has no such moment.
	if a, ok := conn.(arriving); ok && err == nil && a.arrived().After(began) {
		answered = a.arrived()
	}
	if !reusable {
		h.drop()
	}
	return answered, err
}

// arriving is a Conn that can tell when the last byte of the answer that Do has
// just found right had been read.
type arriving interface{ arrived() time.Time }

var _, _, _, _, _, _ arriving = (*httpConn)(nil), (*respConn)(nil), (*opMsgConn)(nil), (*thriftConn)(nil),
	(*cqlConn)(nil), (*keptConn)(nil)

func (c *httpConn) arrived() time.Time   { return c.link.arrived() }
func (c *respConn) arrived() time.Time   { return c.client.link.arrived() }
func (c *opMsgConn) arrived() time.Time  { return c.client.link.arrived() }
func (c *cqlConn) arrived() time.Time    { return c.client.link.arrived() }
func (c *thriftConn) arrived() time.Time { return c.link.arrived() }
