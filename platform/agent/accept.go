package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// bounds are what whoever connects to a listener may take.
type bounds struct {
	handshake  time.Duration // from its coming to its greeting
	handshakes int           // that go on at a time
	clients    int           // that have greeted, at a time
}

// ordinary bounds leave room for whoever may come in though all sorts of others connect.
var ordinary = bounds{handshake: HandshakeBound, handshakes: 64, clients: 16}

// Accept serves whoever connects to a listener, by serve, until ctx ends; then it waits
// for all of them. What goes wrong with one client goes to complain, and with no
// other; so is what keeps the listener from accepting for a while.
func Accept(
	ctx context.Context,
	l net.Listener,
	serve func(ctx context.Context, conn net.Conn) error,
	complain func(error),
) error {
	d := &door{listener: l, serve: serve, complain: complain, bounds: ordinary}
	return d.accept(ctx)
}

// door is where clients come in. Who has connected is a caller, which is bounded by time.
// Only who greets as a client of the same tare takes one of the clients' places. Where
// there are too many callers, the oldest one makes room: who may come in needs a moment.
type door struct {
	listener net.Listener
	serve    func(ctx context.Context, conn net.Conn) error
	complain func(error)
	bounds   bounds

	mu       sync.Mutex
	callers  []*caller // oldest first
	clients  int
	sent     int       // away to make room, that nobody heard of
	reported time.Time // of them
}

// caller is a connection whose end has not greeted yet.
type caller struct {
	net.Conn
	door *door
	// Of the door's lock:
	away, placed bool
}

func (d *door) accept(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = d.listener.Close() })
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	for {
		conn, err := d.next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return errors.Join(err, d.listener.Close())
		}
		c := d.enter(conn)
		all.Go(func() {
			defer d.leave(c)
			if err := d.serveOne(ctx, c); err != nil && ctx.Err() == nil && !d.sentAway(c) {
				d.complain(fmt.Errorf("client %s: %w", conn.RemoteAddr(), err))
			}
		})
	}
}

// enter takes in who has connected, and sends the oldest away where there are too many.
func (d *door) enter(conn net.Conn) *caller {
	c := &caller{Conn: conn, door: d}
	d.mu.Lock()
	d.callers = append(d.callers, c)
	var out *caller
	if len(d.callers) > d.bounds.handshakes {
		out = d.callers[0]
		out.away = true
		d.callers = slices.Delete(d.callers, 0, 1)
		d.sent++
	}
	sent := 0
	if now := time.Now(); d.sent > 0 && now.Sub(d.reported) > d.bounds.handshake { // however many come
		sent, d.sent, d.reported = d.sent, 0, now
	}
	d.mu.Unlock()
	if out != nil {
		_ = out.Close()
	}
	if sent > 0 {
		d.complain(fmt.Errorf("%d connections were sent away before they shook hands: more than %d", sent, d.bounds.handshakes))
	}
	return c
}

func (d *door) leave(c *caller) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.callers = slices.DeleteFunc(d.callers, func(other *caller) bool { return other == c })
	if c.placed {
		d.clients--
	}
}

func (d *door) sentAway(c *caller) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return c.away
}

// greet makes a client of the caller, if there is a place for one.
func (c *caller) greet() error {
	d := c.door
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case c.placed:
		return nil
	case c.away:
		return errors.New("it was sent away to make room for others")
	case d.clients >= d.bounds.clients:
		return fmt.Errorf("%d clients are connected already: end one of them", d.clients)
	}
	c.placed = true
	d.clients++
	d.callers = slices.DeleteFunc(d.callers, func(other *caller) bool { return other == c })
	return c.SetReadDeadline(time.Time{}) // from now on, silence is no fault
}

// serveOne serves one connection, which has so long to shake hands.
func (d *door) serveOne(ctx context.Context, c *caller) error {
	if err := c.SetReadDeadline(time.Now().Add(d.bounds.handshake)); err != nil { // greet lifts it
		return errors.Join(err, c.Close())
	}
	return d.serve(ctx, c)
}

// After an error that passes, the listener rests: for the first time, and at most.
const (
	firstRest   = 5 * time.Millisecond
	longestRest = time.Second
)

// next accepts a connection, however often that fails for a reason that passes.
func (d *door) next(ctx context.Context) (net.Conn, error) {
	for rest := firstRest; ; rest = min(2*rest, longestRest) {
		conn, err := d.listener.Accept()
		if err == nil || !passes(err) || ctx.Err() != nil {
			return conn, err
		}
		if rest == firstRest { // once for however many
			d.complain(fmt.Errorf("accepting a connection, which is tried again: %w", err))
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// passes reports whether what kept a listener from accepting says nothing of the listener:
// the connection was gone already, or its host unreachable, which Linux reports by accept(2)
// itself; or descriptors or memory have run out, and others' may be given back.
func passes(err error) bool {
	for _, passing := range []syscall.Errno{
		syscall.ECONNABORTED, syscall.EINTR, syscall.EAGAIN, syscall.EPERM, syscall.EPROTO,
		syscall.ENETDOWN, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.EHOSTUNREACH,
		syscall.ENONET, syscall.ENOPROTOOPT, syscall.ETIMEDOUT,
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}
