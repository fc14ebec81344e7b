package agent

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/platform"
)

// opened is an agent's door, to whoever comes or to who shows a key. What it complains
// of comes through the channel.
func opened(t *testing.T, identity *Identity, b bounds) (net.Listener, <-chan error) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := inner
	if identity != nil {
		l = &Listener{inner, identity, func() (Peers, error) { return Peers{identity.Fingerprint(): true}, nil }}
	}
	return l, served(t, l, b)
}

func served(t *testing.T, l net.Listener, b bounds) <-chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	complaints, done := make(chan error, 256), make(chan error, 1)
	s := &Server{Version: "1", Platforms: func(string) (platform.Platform, error) { return inert{}, nil }}
	d := &door{
		listener: l, serve: func(ctx context.Context, conn net.Conn) error { return s.Serve(ctx, conn) },
		complain: func(err error) { complaints <- err }, bounds: b,
	}
	go func() { done <- d.accept(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return complaints
}

func key(t *testing.T) *Identity {
	t.Helper()
	i, err := OpenIdentity(filepath.Join(t.TempDir(), "identity.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// stumbling is a listener that fails as often as it is set to before it accepts.
type stumbling struct {
	net.Listener
	faults []error
}

func (s *stumbling) Accept() (net.Conn, error) {
	if len(s.faults) > 0 {
		err := s.faults[0]
		s.faults = s.faults[1:]
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
	}
	return s.Listener.Accept()
}

// What keeps one connection from being accepted, or descriptors that have run out, do
// not end the agent.
func TestAcceptingGoesOn(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	complaints := served(t, &stumbling{l, []error{syscall.EMFILE, syscall.EMFILE, syscall.ECONNABORTED}}, ordinary)
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := Connect(t.Context(), conn, "1")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := <-complaints; !errors.Is(err, syscall.EMFILE) {
		t.Errorf("reported: %v", err)
	}
	if len(complaints) != 0 {
		t.Errorf("reported again: %v", <-complaints)
	}
}

// A listener that is broken ends the agent, as does the agent's own end while it rests.
func TestAcceptingEnds(t *testing.T) {
	listen := func(faults ...error) *stumbling {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return &stumbling{l, faults}
	}
	d := &door{listener: listen(syscall.EBADF), complain: func(error) {}, bounds: ordinary}
	if err := d.accept(t.Context()); !errors.Is(err, syscall.EBADF) {
		t.Errorf("a broken listener: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	d = &door{listener: listen(syscall.EMFILE, syscall.EMFILE), complain: func(error) { cancel() }, bounds: ordinary}
	if err := d.accept(ctx); err != nil {
		t.Errorf("asked to end while it rests: %v", err)
	}
}

// However many connect and say nothing, who has a key comes in, and where there are no keys
// who speaks does; and of clients there is a bound, and who exceeds it learns so.
func TestStrangersTakeNoPlaces(t *testing.T) {
	own := key(t)
	for _, identity := range []*Identity{own, nil} {
		b := bounds{time.Minute, 8, 4, 1} // no stranger's time is over before the test is
		l, complaints := opened(t, identity, b)
		at := Address{Network: "tcp", At: l.Addr().String()}
		dial := func() (*Client, error) {
			if identity != nil {
				return Dial(t.Context(), at, own, Agents{at.At: Peers{own.Fingerprint(): true}}, "1")
			}
			conn, err := net.Dial("tcp", at.At)
			if err != nil {
				return nil, err
			}
			return Connect(t.Context(), conn, "1")
		}
		for range 10 * b.handshakes {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
		}
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		if late, err := dial(); err == nil {
			late.Close()
			t.Error("a client too many is served")
		} else if !strings.Contains(err.Error(), "1 clients") {
			t.Errorf("it is reported: %v", err)
		}
		// However many were sent away, it is reported once in a while.
		if err := <-complaints; err == nil || !strings.Contains(err.Error(), "4 of one peer") || len(complaints) > 0 {
			t.Errorf("reported: %v, and of %d more", err, len(complaints))
		}
		// Who goes makes room.
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for err := errors.New("none yet"); err != nil; {
			if c, err = dial(); err != nil && !strings.Contains(err.Error(), "1 clients") {
				t.Fatal(err)
			}
		}
		c.Close()
	}
}

// Where the bound is that of all, a peer with one connection is not the one to go.
func TestThePeerWithMostMakesRoom(t *testing.T) {
	d := &door{bounds: bounds{time.Minute, 4, 3, 1}, complain: func(error) {}}
	from := func(address string) *caller {
		conn, _ := net.Pipe()
		c := d.enter(&calling{conn, &net.TCPAddr{IP: net.ParseIP(address)}})
		return c
	}
	alone := from("192.0.2.1")
	many := []*caller{from("2001:db8::1"), from("2001:db8::2"), from("2001:db8::3")}
	last := from("192.0.2.2")
	if d.sentAway(alone) || d.sentAway(last) || !d.sentAway(many[0]) || d.sentAway(many[1]) {
		t.Errorf("of %d callers the wrong one went", 5)
	}
	if err := many[0].greet(); err == nil {
		t.Error("who was sent away is a client")
	}
}

type calling struct {
	net.Conn
	from net.Addr
}

func (c *calling) RemoteAddr() net.Addr { return c.from }

// Who does not end a handshake is sent away in time.
func TestHandshakesAreBounded(t *testing.T) {
	t.Parallel()
	own := key(t)
	l, complaints := opened(t, own, bounds{patience, 2, 2, 1})
	silent, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	at := Address{Network: "tcp", At: l.Addr().String()}
	c, err := Dial(t.Context(), at, own, Agents{at.At: Peers{own.Fingerprint(): true}}, "1")
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := <-complaints; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("reported of the silent: %v", err)
	}
}
