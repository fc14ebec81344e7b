package load

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// ask opens, asks once and closes.
func ask(t *testing.T, target Target) error {
	t.Helper()
	conn, err := target.Open(t.Context())
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Do(time.Now().Add(time.Minute))
	return err
}

func TestKeptConnectionsOutliveALoad(t *testing.T) {
	s := &service{answer: func(n int64) (bool, error) { return n != 4, nil }}
	kept := Keep(s)
	for range 3 {
		r, err := Activate(t.Context(), []Target{kept}, ActivationOptions{Pattern: RandomTarget, Think: time.Millisecond, Duration: 2500 * time.Microsecond})
		if err != nil || r.Failed() != 0 {
			t.Fatal(r.Errors, err)
		}
	}
	for s.asked.Load() < 6 {
		if err := ask(t, kept); err != nil {
			t.Fatal(err)
		}
	}
	// One, and another after the request that none could follow.
	if kept.Opened() != 2 || s.opened.Load() != 2 {
		t.Errorf("%d connections for %d requests, want 2", kept.Opened(), s.asked.Load())
	}
}

// A server that closes what lies idle has not failed; one that closes what is in use has.
func TestAConnectionClosedAsItLayIdle(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	kept := Keep(HTTP{Address: server.Listener.Addr().String()})
	defer kept.Close()
	if err := ask(t, kept); err != nil {
		t.Fatal(err)
	}
	server.CloseClientConnections()
	if err := ask(t, kept); err != nil {
		t.Errorf("over a connection that the server had closed: %v", err)
	}
	if kept.Opened() != 2 {
		t.Errorf("%d connections, want another for the one that was closed", kept.Opened())
	}
	conn, err := kept.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Do(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	server.CloseClientConnections()
	if reusable, err := conn.Do(time.Now().Add(time.Minute)); reusable || kindOf(err) != KindClosed {
		t.Errorf("over a connection closed in its use: %t, %v, want a failure", reusable, err)
	}
	server.Close()
	if err := ask(t, kept); kindOf(err) != KindConnect && !errors.As(err, new(net.Error)) {
		t.Errorf("of a server that is gone: %v", err)
	}
}

// hanging is a Conn that answers only by being closed.
type hanging struct{ asked, closed chan struct{} }

func (h hanging) Do(time.Time) (bool, error) {
	close(h.asked)
	<-h.closed
	return false, io.EOF
}
func (h hanging) Close() error { close(h.closed); return nil }

type opens struct{ conn Conn }

func (o opens) Open(context.Context) (Conn, error) { return o.conn, nil }

func TestClosingEndsAKeptRequest(t *testing.T) {
	h := hanging{make(chan struct{}), make(chan struct{})}
	kept := Keep(opens{h})
	conn, err := kept.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-h.asked
		conn.Close()
	}()
	if _, err := conn.Do(time.Now().Add(time.Hour)); !errors.Is(err, io.EOF) {
		t.Errorf("ended with %v", err)
	}
	if len(kept.idle) != 0 {
		t.Error("a connection with a request under way was kept")
	}
	if _, err := conn.Do(time.Now().Add(time.Hour)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("asked after its end: %v", err)
	}
}

// What is in use when all is closed is closed when it is given back.
func TestKeptIsClosed(t *testing.T) {
	h := hanging{make(chan struct{}), make(chan struct{})}
	kept := Keep(opens{h})
	conn, err := kept.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := kept.Close(); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-h.closed:
		t.Error("closed in its use")
	default:
	}
	for range 2 {
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	<-h.closed
}

// Of the connections that a stall took no more are kept than the next turns take.
func TestFewLieIdle(t *testing.T) {
	s := &service{answer: func(int64) (bool, error) { return true, nil }}
	kept := Keep(s)
	var used []Conn
	for range 5 {
		conn, err := kept.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		used = append(used, conn)
	}
	for _, conn := range used {
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		if _, err := kept.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.opened.Load(); got != 5+5-keptIdle {
		t.Errorf("%d connections were made, want %d found idle", got, keptIdle)
	}
}
