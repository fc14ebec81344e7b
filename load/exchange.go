package load

import (
	"context"
	"io"
	"net"
	"net/netip"
)

// exchange is a Conn whose requests and answers can be had without the waiting between
// them. [Standing] waits for many at once. Where it is said that something is given, it
// is good until the next request.
type exchange interface {
	Conn
	// request gives the bytes of the next request. After an error the one after it may
	// be asked for.
	request() ([]byte, error)
	// answer reads the next part of the answer to the last request, and checks it.
	// It is called again for the same part where the input ran short.
	answer(r input) (progress, error)
	// settle is called once with the result of each request.
	settle(err error)
	// detach gives the network connection away, which the exchange no longer uses or
	// closes. It is nil where there is none.
	detach() net.Conn
}

// renewing is an exchange that may want a connection for each request.
type renewing interface {
	exchange
	// renews tells whether it does.
	renews() bool
	// dial makes one.
	dial(ctx context.Context) (net.Conn, error)
	// direct is the address to which dial connects by plain TCP; not valid where it
	// does otherwise, or has to look up a name.
	direct() netip.AddrPort
}

// progress is how far an answer has been read.
type progress int

const (
	partial  progress = iota // parts are to come; with an error, it is no answer
	complete                 // another request may follow
	final                    // no other request may follow on this connection
)

// input is what answers are read from: a bufio.Reader, which waits for what is not there,
// or an inbox, which does not. The methods are the reader's.
type input interface {
	io.Reader
	io.ByteReader
	Peek(n int) ([]byte, error)
	Discard(n int) (int, error)
	ReadSlice(delim byte) ([]byte, error)
}

// whole reads an answer with all of its parts.
func whole(e exchange, r input) (reusable bool, err error) {
	for {
		switch read, err := e.answer(r); {
		case read != partial:
			return read == complete, err
		case err != nil:
			return false, err
		}
	}
}
