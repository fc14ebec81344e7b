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

// opened is an agent's door, to whoever comes, and how to it. What it complains of comes
// through the channel.
func opened(t *testing.T, b bounds) (dial func() net.Conn, complaints <-chan error) {
	t.Helper()
	l := listening(t)
	return func() net.Conn {
		t.Helper()
		conn, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}, served(t, l, b)
}

func listening(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	return l
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

// stumbling is a listener that fails as often as it is set to before it accepts.
type stumbling struct {
	net.Listener
	faults []error
}

func (s *stumbling) Accept() (net.Conn, error) {
	if len(s.faults) > 0 {
		err := s.faults[0]
		s.faults = s.faults[1:]
		return nil, &net.OpError{Op: "accept", Net: "unix", Err: os.NewSyscallError("accept4", err)}
	}
	return s.Listener.Accept()
}

// What keeps one connection from being accepted, or descriptors that have run out, do
// not end the agent.
func TestAcceptingGoesOn(t *testing.T) {
	l := listening(t)
	complaints := served(t, &stumbling{l, []error{syscall.EMFILE, syscall.EMFILE, syscall.ECONNABORTED}}, ordinary)
	conn, err := net.Dial("unix", l.Addr().String())
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
	listen := func(faults ...error) *stumbling { return &stumbling{listening(t), faults} }
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

// However many connect and say nothing, who speaks comes in; and of clients there is a bound,
// and who exceeds it learns so.
func TestTheSilentTakeNoPlaces(t *testing.T) {
	b := bounds{time.Minute, 8, 1} // nobody's time is over before the test is
	reach, complaints := opened(t, b)
	dial := func() (*Client, error) { return Connect(t.Context(), reach(), "1") }
	for range 10 * b.handshakes {
		reach()
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
	if err := <-complaints; err == nil || !strings.Contains(err.Error(), "more than 8") || len(complaints) > 0 {
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

// The oldest caller makes room, and becomes no client afterwards.
func TestTheOldestMakesRoom(t *testing.T) {
	d := &door{bounds: bounds{time.Minute, 2, 1}, complain: func(error) {}}
	var callers []*caller
	for range 3 {
		conn, _ := net.Pipe()
		callers = append(callers, d.enter(conn))
	}
	if !d.sentAway(callers[0]) || d.sentAway(callers[1]) || d.sentAway(callers[2]) {
		t.Error("of three callers the wrong one went")
	}
	if err := callers[0].greet(); err == nil {
		t.Error("who was sent away is a client")
	}
}
