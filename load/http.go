package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// maxKeptBody is how much of a body is kept to be looked at.
const maxKeptBody = 1 << 20

// HTTP is a request to an HTTP/1.1 service, and what answers it rightly.
//
// It writes to and reads from the connection itself, without net/http's
// Transport, whose goroutines would add their own wake-ups to every latency.
type HTTP struct {
	Address string // host:port
	Method  string // "GET" if empty
	Path    string // with query; "/" if empty
	// Paths, where there are any, are asked for instead of Path: one a request, in
	// order, again and again, by each connection for itself.
	Paths []string
	// Next, where it is set, gives each request in place of Method, Path, Paths and
	// Body, and what its answer has to be. It is called from several goroutines.
	Next   func() HTTPRequest
	Host   string      // header; Address if empty
	Header http.Header // more headers
	Body   []byte

	// NewConnections makes a connection for each request; its latency then
	// holds the connecting.
	NewConnections bool

	Status      int            // wanted; 0 is any from 200 to 299
	StatusBelow int            // where not 0, any status below it is right instead
	BodyMin     int64          // least length of the answer's body in bytes
	BodyPattern *regexp.Regexp // to be found in its first MiB

	// Dial connects; nil is TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// HTTPRequest is one of a sequence.
type HTTPRequest struct {
	Method string // "GET" if empty
	Path   string // with query; "/" if empty
	Body   []byte
	Cookie string // "name=value"; none if empty
	// Check says what is wrong with the body of an answer whose status is right;
	// nil looks at no body. It is shown the first MiB, for as long as it runs.
	Check func(body []byte) error
	// Done, where it is set, is called with the result of the request, once, before the next is
	// drawn: nil where it was answered rightly.
	Done func(err error)
}

// Open connects; with NewConnections it only prepares.
func (h HTTP) Open(ctx context.Context) (Conn, error) {
	c := &httpConn{want: h}
	paths := h.Paths
	switch {
	case h.Next != nil:
		raw, err := h.request(HTTPRequest{})
		if err != nil {
			return nil, err
		}
		_, headers, _ := bytes.Cut(raw, []byte("\r\n"))
		paths, c.headers = nil, bytes.TrimSuffix(headers, []byte("\r\n"))
	case len(paths) == 0:
		paths = []string{h.Path}
	}
	for _, path := range paths {
		raw, err := h.request(HTTPRequest{Method: h.Method, Path: path, Body: h.Body})
		if err != nil {
			return nil, err
		}
		c.sequence = append(c.sequence, prepared{head: h.Method == http.MethodHead, raw: raw})
	}
	if h.NewConnections {
		return c, nil
	}
	return c, c.connect(ctx)
}

// request builds a request; every send of it writes the same bytes.
func (h HTTP) request(of HTTPRequest) ([]byte, error) {
	method, path := of.Method, of.Path
	if method == "" {
		method = http.MethodGet
	}
	if path == "" {
		path = "/"
	}
	if !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("http path %q: want one that begins with /", path)
	}
	request, err := http.NewRequest(method, "http://"+h.Address+path, bytes.NewReader(of.Body))
	if err != nil {
		return nil, fmt.Errorf("http request: %w", err)
	}
	if len(of.Body) == 0 {
		request.Body, request.ContentLength = nil, 0
	}
	request.Host = h.Host
	request.Header.Set("User-Agent", "tare")
	for name, values := range h.Header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	request.Close = h.NewConnections
	var raw bytes.Buffer
	if err := request.Write(&raw); err != nil {
		return nil, fmt.Errorf("http request: %w", err)
	}
	return raw.Bytes(), nil
}

type httpConn struct {
	want     HTTP
	sequence []prepared
	next     int

	headers []byte // of requests that are drawn, each line with its end
	drawn   []byte // the last of them

	link   link
	reader *bufio.Reader

	current prepared   // the request that was sent last
	reading httpAnswer // the answer to it
}

// prepared is a request with the bytes that are sent for it.
type prepared struct {
	head  bool // its answer has no body
	raw   []byte
	check func(body []byte) error
	done  func(err error)
}

// take gives the next request.
func (c *httpConn) take() (prepared, error) {
	if c.want.Next != nil {
		of := c.want.Next()
		p, err := c.build(of)
		if err != nil && of.Done != nil {
			of.Done(err)
		}
		return p, err
	}
	p := c.sequence[c.next]
	c.next = (c.next + 1) % len(c.sequence)
	return p, nil
}

// build makes the bytes of a request that has just been drawn. It is not left to
// net/http, whose microseconds would be part of every latency.
func (c *httpConn) build(of HTTPRequest) (prepared, error) {
	if of.Method == "" {
		of.Method = http.MethodGet
	}
	if of.Path == "" {
		of.Path = "/"
	}
	if of.Path[0] != '/' ||
		strings.ContainsFunc(of.Method+of.Path+of.Cookie, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return prepared{}, fmt.Errorf("http request %q %q with cookie %q: want a path that begins with /, and no spaces", of.Method, of.Path, of.Cookie)
	}
	raw := append(append(c.drawn[:0], of.Method...), ' ')
	raw = append(append(raw, of.Path...), " HTTP/1.1\r\n"...)
	raw = append(raw, c.headers...)
	if of.Cookie != "" {
		raw = append(append(append(raw, "Cookie: "...), of.Cookie...), "\r\n"...)
	}
	if len(of.Body) > 0 {
		raw = append(strconv.AppendInt(append(raw, "Content-Length: "...), int64(len(of.Body)), 10), "\r\n"...)
	}
	c.drawn = append(append(raw, "\r\n"...), of.Body...)
	return prepared{of.Method == http.MethodHead, c.drawn, of.Check, of.Done}, nil
}

func (c *httpConn) connect(ctx context.Context) error {
	conn, err := dial(ctx, c.want.Dial, c.want.Address)
	if err != nil {
		return err
	}
	if !c.link.set(conn) {
		return net.ErrClosed
	}
	c.reader = bufio.NewReader(conn)
	return nil
}

func (c *httpConn) Close() error { return c.link.close() }

func (c *httpConn) Do(deadline time.Time) (reusable bool, err error) {
	raw, err := c.request()
	if err != nil {
		return true, err
	}
	defer func() { c.settle(err) }()
	if c.want.NewConnections {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		defer cancel()
		if err := c.connect(ctx); err != nil {
			return true, &Error{Kind: KindConnect, Err: err}
		}
		defer c.link.drop()
	}
	conn := c.link.get()
	if conn == nil {
		return false, net.ErrClosed
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return c.want.NewConnections, err
	}
	_, sendErr := conn.Write(raw)
	// A service may refuse a request before it has read it all; its answer
	// tells more than the failed write.
	reusable, err = whole(c, c.reader)
	if sendErr != nil && err != nil {
		err = sendErr
	}
	return c.want.NewConnections || reusable && sendErr == nil, err
}

func (c *httpConn) request() (raw []byte, err error) {
	c.current.done = nil // of one that was not sent
	if c.current, err = c.take(); err != nil {
		return nil, err
	}
	c.reading.begin(c.current.head, c.want.BodyPattern != nil || c.current.check != nil)
	return c.current.raw, nil
}

// answer reads some of the answer, and checks it at its end.
func (c *httpConn) answer(r input) (progress, error) {
	if whole, err := c.reading.some(r); err != nil || !whole {
		return partial, err
	}
	a := &c.reading
	err := c.want.check(a.status, a.size, a.body.Bytes())
	if err == nil && c.current.check != nil {
		if wrong := c.current.check(a.body.Bytes()); wrong != nil {
			err = &Error{Kind: "body", Err: wrong}
		}
	}
	if a.last || c.want.NewConnections {
		return final, err
	}
	return complete, err
}

func (c *httpConn) settle(err error) {
	if done := c.current.done; done != nil {
		c.current.done = nil
		done(err)
	}
}

func (c *httpConn) detach() net.Conn { return c.link.detach() }

func (c *httpConn) renews() bool { return c.want.NewConnections }

func (c *httpConn) dial(ctx context.Context) (net.Conn, error) {
	return dialing(c.want.Dial).connect(ctx, c.want.Address)
}

func (c *httpConn) direct() netip.AddrPort { return dialing(c.want.Dial).direct(c.want.Address) }

// check compares an answer with what is wanted.
func (h HTTP) check(status int, size int64, body []byte) error {
	switch {
	case h.StatusBelow != 0 && status >= h.StatusBelow:
		return &Error{Kind: KindStatus(status), Err: fmt.Errorf("want one below %d", h.StatusBelow)}
	case h.Status != 0 && status != h.Status:
		return &Error{Kind: KindStatus(status), Err: fmt.Errorf("want %d", h.Status)}
	case h.Status == 0 && h.StatusBelow == 0 && (status < 200 || status > 299):
		return &Error{Kind: KindStatus(status), Err: errors.New("want 200 to 299")}
	case size < h.BodyMin:
		return &Error{Kind: "body", Err: fmt.Errorf("%d bytes, want at least %d", size, h.BodyMin)}
	case h.BodyPattern != nil && !h.BodyPattern.Match(body):
		return &Error{Kind: "body", Err: fmt.Errorf("does not match %q", h.BodyPattern)}
	}
	return nil
}
