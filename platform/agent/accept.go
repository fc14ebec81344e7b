package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// bounds are what whoever connects to a listener may take.
type bounds struct {
	handshake  time.Duration // of either handshake: TLS's, and the protocol's
	handshakes int           // of TLS, that go on at a time
	clients    int           // that have been let in, at a time
}

// ordinary bounds leave room for whoever may come in though all sorts of others connect.
var ordinary = bounds{handshake: handshakeBound, handshakes: 64, clients: 16}

// Accept serves whoever connects to a listener, by serve, until ctx ends; then it waits
// for all of them. What goes wrong with one client is told to complain, and with no
// other; so is what keeps the listener from accepting for a while.
func Accept(ctx context.Context, l net.Listener, serve func(ctx context.Context, conn net.Conn) error, complain func(error)) error {
	d := &door{listener: l, serve: serve, complain: complain, bounds: ordinary}
	return d.accept(ctx)
}

// door is where clients come in. Who has connected has a place among the handshakes,
// which is bounded by time; only who was let in gets one among the clients.
type door struct {
	listener net.Listener
	serve    func(ctx context.Context, conn net.Conn) error
	complain func(error)
	bounds   bounds
}

func (d *door) accept(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = d.listener.Close() })
	defer stop()
	var clients sync.WaitGroup
	defer clients.Wait()
	handshakes, places := make(chan struct{}, d.bounds.handshakes), make(chan struct{}, d.bounds.clients)
	for {
		handshakes <- struct{}{} // each gives it back in its time
		conn, err := d.next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return errors.Join(err, d.listener.Close())
		}
		shaken := sync.OnceFunc(func() { <-handshakes })
		clients.Go(func() {
			defer shaken()
			if err := d.serveOne(ctx, conn, places, shaken); err != nil && ctx.Err() == nil {
				d.complain(fmt.Errorf("client %s: %w", conn.RemoteAddr(), err))
			}
		})
	}
}

// serveOne lets one connection in, and serves it.
func (d *door) serveOne(ctx context.Context, conn net.Conn, places chan struct{}, shaken func()) error {
	if guarded, ok := d.listener.(*Listener); ok {
		admitting, cancel := context.WithTimeout(ctx, d.bounds.handshake)
		defer cancel()
		var err error
		if conn, err = guarded.Admit(admitting, conn); err != nil {
			return err
		}
	}
	select {
	case places <- struct{}{}:
	default:
		return errors.Join(fmt.Errorf("it is let in, but %d clients are connected already: end one of them", d.bounds.clients), conn.Close())
	}
	defer func() { <-places }()
	shaken()
	// Serve lifts it once hands were shaken: who connects and says nothing keeps no place.
	if err := conn.SetReadDeadline(time.Now().Add(d.bounds.handshake)); err != nil {
		return errors.Join(err, conn.Close())
	}
	return d.serve(ctx, conn)
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

// passes tells whether what kept a listener from accepting says nothing of the listener:
// the connection was gone already, or its host unreachable, which Linux tells by accept(2)
// itself; or descriptors or memory have run out, and others' may be given back.
func passes(err error) bool {
	for _, passing := range []syscall.Errno{
		syscall.ECONNABORTED, syscall.EINTR, syscall.EAGAIN, syscall.EPERM, syscall.EPROTO,
		syscall.ENETDOWN, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.EHOSTUNREACH, syscall.ENONET, syscall.ENOPROTOOPT, syscall.ETIMEDOUT,
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}
