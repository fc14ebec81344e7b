package agent

import (
	"errors"
	"net"
	"testing"

	"github.com/mdlayher/vsock"
)

// from is a connection whose other end is at an address.
type from struct {
	net.Conn
	at net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.at }

// calls is a listener at which connections arrive, and then no more.
type calls struct {
	net.Listener
	of []net.Conn
}

func (c *calls) Accept() (net.Conn, error) {
	if len(c.of) == 0 {
		return nil, net.ErrClosed
	}
	next := c.of[0]
	c.of = c.of[1:]
	return next, nil
}

// Over vsock the host comes in. Any user of this machine may use the loopback, and its guests may call too.
func TestVsockServesTheHostAlone(t *testing.T) {
	l := &calls{}
	var strangers []net.Conn
	for _, at := range []net.Addr{
		&vsock.Addr{ContextID: vsock.Local}, &vsock.Addr{ContextID: 3}, &net.UnixAddr{}, &vsock.Addr{ContextID: vsock.Host},
	} {
		here, there := net.Pipe()
		defer here.Close()
		defer there.Close()
		l.of = append(l.of, from{here, at})
		strangers = append(strangers, there)
	}
	h := &hostOnly{l}
	conn, err := h.Accept()
	if err != nil || conn.RemoteAddr().(*vsock.Addr).ContextID != vsock.Host {
		t.Fatalf("let in %v (%v), want the host", conn, err)
	}
	for i, there := range strangers[:3] {
		if _, err := there.Write([]byte("x")); err == nil {
			t.Errorf("stranger %d was not turned away", i)
		}
	}
	if _, err := h.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("then it is %v, want what the listener says", err)
	}
}
