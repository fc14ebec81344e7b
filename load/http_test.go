package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// pipeListener accepts connections that are pipes in memory, so that a server
// lives within a bubble of package synctest.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l pipeListener) Close() error   { close(l.closed); return nil }
func (l pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (l pipeListener) dial(ctx context.Context, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serveHTTP gives a target that a handler serves until the test ends.
func serveHTTP(t *testing.T, handler http.HandlerFunc) HTTP {
	l := pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-done })
	return HTTP{Address: "service:80", Dial: l.dial}
}

// once sends one request and gives what became of it.
func once(t *testing.T, target Target) (reusable bool, err error) {
	t.Helper()
	conn, err := target.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.Do(time.Now().Add(time.Minute))
}

// Requests that are drawn while the load runs are each sent and checked as drawn.
func TestHTTPDrawsRequests(t *testing.T) {
	var asked []string
	target := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Method+" "+r.RequestURI+" "+r.Header.Get("X")+" "+string(body))
		fmt.Fprint(w, "value of ", r.RequestURI)
	})
	n := 0
	target.Header = http.Header{"X": {"h"}}
	target.Next = func() HTTPRequest {
		n++
		path := fmt.Sprintf("/%d", n)
		return HTTPRequest{Method: "PUT", Path: path, Body: []byte("b"), Check: func(body []byte) error {
			if string(body) != "value of "+path || n == 3 {
				return fmt.Errorf("%s has %q", path, body)
			}
			return nil
		}}
	}
	r, err := Run(t.Context(), target, Options{Connections: 1, Count: 3})
	if err != nil || r.Requests != 2 || r.Errors["body"] != 1 || !strings.Contains(r.FirstError.Error(), "/3 has") {
		t.Errorf("%d answered, errors %v (%v), %v", r.Requests, r.Errors, r.FirstError, err)
	}
	if got := strings.Join(asked, ","); got != "PUT /1 h b,PUT /2 h b,PUT /3 h b" {
		t.Errorf("asked for %s", got)
	}
	for _, wrong := range []HTTPRequest{{Path: "x"}, {Path: "/a b"}, {Method: "GET\r\n"}} {
		target.Next = func() HTTPRequest { return wrong }
		if _, err := once(t, target); err == nil {
			t.Errorf("%+v passes", wrong)
		}
	}
}

// What draws the requests learns what came of each before it draws the next, also of one
// that could not be sent.
func TestHTTPTellsWhatCameOfIt(t *testing.T) {
	var cookies []string
	target := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		cookies = append(cookies, r.Header.Get("Cookie"))
		if len(cookies) == 2 {
			w.WriteHeader(http.StatusForbidden)
		}
	})
	requests := []HTTPRequest{
		{Path: "/"}, {Path: "/", Cookie: "session=1"}, {Path: "/", Cookie: "a b"},
		{Path: "/", Cookie: "session=2", Check: func([]byte) error { return io.ErrShortBuffer }},
	}
	var reported []string
	n := 0
	target.Next = func() HTTPRequest {
		if len(reported) != n {
			t.Errorf("request %d is drawn, and reported was of %d", n, len(reported))
		}
		n++
		of := requests[n-1]
		of.Done = func(err error) { reported = append(reported, kindIfAny(err)) }
		return of
	}
	conn, err := target.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var found []string
	for range requests {
		_, err := conn.Do(time.Now().Add(time.Minute))
		found = append(found, kindIfAny(err))
	}
	if want := []string{"", "status 403", KindProtocol, "body"}; !slices.Equal(reported, want) || !slices.Equal(found, want) {
		t.Errorf("reported of %q, and Do says %q; want %q", reported, found, want)
	}
	if want := []string{"", "session=1", "session=2"}; !slices.Equal(cookies, want) {
		t.Errorf("the service saw cookies %q, want %q", cookies, want)
	}
}

func TestHTTPSendsWhatWasAsked(t *testing.T) {
	target := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != "POST" || r.RequestURI != "/a?b=c" || r.Host != "shop" || string(body) != "x=1" ||
			r.Header.Get("X-Kind") != "load" || r.UserAgent() != "tare" {
			t.Errorf("received %s %s %s %q %v", r.Method, r.RequestURI, r.Host, body, r.Header)
		}
		w.WriteHeader(http.StatusCreated)
	})
	target.Method, target.Path, target.Host, target.Body = "POST", "/a?b=c", "shop", []byte("x=1")
	target.Header = http.Header{"x-kind": {"load"}}
	target.Status = http.StatusCreated
	if reusable, err := once(t, target); err != nil || !reusable {
		t.Errorf("reusable %v, error %v", reusable, err)
	}
}

// Each connection goes through the paths for itself, and begins anew.
func TestHTTPGoesThroughPaths(t *testing.T) {
	var asked []string
	target := serveHTTP(t, func(_ http.ResponseWriter, r *http.Request) { asked = append(asked, r.RequestURI) })
	target.Paths = []string{"/a", "/b?c", "/d"}
	for range 2 {
		conn, err := target.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if _, err := conn.Do(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		conn.Close()
	}
	if want := []string{"/a", "/b?c", "/d", "/a", "/a", "/b?c", "/d", "/a"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
	target.Paths = []string{"/a", "b"}
	if _, err := target.Open(t.Context()); err == nil {
		t.Error("a path that does not begin with / passes")
	}
}

func TestHTTPChecksAnswers(t *testing.T) {
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		want    func(*HTTP)
		kind    string
	}{
		{"any 2xx", answer(204, ""), func(*HTTP) {}, ""},
		{"redirect", answer(302, ""), func(*HTTP) {}, "status 302"},
		{"redirect wanted", answer(302, ""), func(h *HTTP) { h.Status = 302 }, ""},
		{"overload", answer(503, "busy"), func(*HTTP) {}, "status 503"},
		{"empty page", answer(200, ""), func(h *HTTP) { h.BodyMin = 1 }, "body"},
		{"page", answer(200, "hello"), func(h *HTTP) { h.BodyMin = 5 }, ""},
		{"pattern", answer(200, "hello"), func(h *HTTP) { h.BodyPattern = regexp.MustCompile("^hel+o$") }, ""},
		{"wrong page", answer(200, "error"), func(h *HTTP) { h.BodyPattern = regexp.MustCompile("hello") }, "body"},
		{"chunked", func(w http.ResponseWriter, _ *http.Request) {
			for range 3 {
				io.WriteString(w, "abc")
				w.(http.Flusher).Flush()
			}
		}, func(h *HTTP) { h.BodyMin = 9 }, ""},
		{"interim", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			io.WriteString(w, "done")
		}, func(h *HTTP) { h.BodyMin = 4 }, ""},
		{"head has no body", answer(200, ""), func(h *HTTP) { h.Method = "HEAD" }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := serveHTTP(t, c.handler)
			c.want(&target)
			reusable, err := once(t, target)
			if got := kindIfAny(err); got != c.kind || !reusable {
				t.Errorf("kind %q (%v), reusable %v; want %q on a reusable connection", got, err, reusable, c.kind)
			}
		})
	}
}

func kindIfAny(err error) string {
	if err == nil {
		return ""
	}
	return kindOf(err)
}

func TestHTTPConnections(t *testing.T) {
	for _, anew := range []bool{false, true} {
		remotes := make(chan string, 10)
		server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { remotes <- r.RemoteAddr })}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go server.Serve(listener)
		defer server.Close()
		r, err := Run(t.Context(), HTTP{Address: listener.Addr().String(), NewConnections: anew}, Options{Connections: 1, Count: 10})
		if err != nil || r.Requests != 10 {
			t.Fatalf("%d answered, errors %v, %v", r.Requests, r.Errors, err)
		}
		close(remotes)
		distinct := map[string]bool{}
		for remote := range remotes {
			distinct[remote] = true
		}
		if want := map[bool]int{false: 1, true: 10}[anew]; len(distinct) != want {
			t.Errorf("new connections %v: %d connections, want %d", anew, len(distinct), want)
		}
	}
}

func TestHTTPServiceThatClosesPolitely(t *testing.T) {
	target := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
	r, err := Run(t.Context(), target, Options{Connections: 1, Count: 10})
	if err != nil || r.Requests != 10 {
		t.Errorf("%d answered, errors %v, %v: an announced close is no error", r.Requests, r.Errors, err)
	}
}

func TestHTTPServiceThatHangsUp(t *testing.T) {
	target := serveHTTP(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	reusable, err := once(t, target)
	if err == nil || reusable || kindOf(err) != KindClosed {
		t.Errorf("reusable %v, error %v, want a closed connection", reusable, err)
	}
}

func TestHTTPRequestRefused(t *testing.T) {
	for _, h := range []HTTP{
		{Address: "a:1", Path: "no-slash"},
		{Address: "a:1", Method: "BAD METHOD"},
		{Address: "a:1", Header: http.Header{"Bad Name": {"x"}}},
	} {
		if _, err := h.Open(t.Context()); err == nil {
			t.Errorf("%+v: accepted", h)
		}
	}
}

// referred is an answer as net/http reads it.
type referred struct {
	Status int
	Size   int64
	Body   string
	Last   bool
	Rest   int // bytes behind it
}

// refer reads an answer by net/http, past interim ones.
func refer(answer []byte, method string) (r referred, err error) {
	source := bytes.NewReader(answer)
	reader := bufio.NewReader(source)
	for range maxInterim {
		response, err := http.ReadResponse(reader, &http.Request{Method: method})
		if err != nil {
			return r, err
		}
		if response.StatusCode < 200 && response.StatusCode != http.StatusSwitchingProtocols {
			if response.StatusCode < 100 {
				return r, errors.New("no status")
			}
			continue
		}
		body, err := io.ReadAll(response.Body)
		r = referred{response.StatusCode, int64(len(body)), string(body), response.Close, reader.Buffered() + source.Len()}
		return r, err
	}
	return r, errors.New("interim responses without end")
}

// refused are answers that net/http takes and we do not.
var refused = regexp.MustCompile(`(?is)^HTTP/[^1]|\n[ \t]|content-length.*content-length|\d{17}|trailer`)

// Whatever a service answers, the generator neither fails nor hangs, and does
// not take what is cut short for an answer. It finds what net/http finds, in whichever
// pieces the answer comes.
func FuzzHTTPAnswer(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nConnection: Keep-Alive, Close\r\nContent-Length: 1\r\n\r\nokHTTP/1.1",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n3;a=b\r\nabc\r\nA \r\n0123456789\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.0 200 OK\r\n\r\nuntil the end",
		"HTTP/1.0 200 OK\nTransfer-Encoding: chunked\nconnection: keep-alive\nContent-Length:3\n\nabcd",
		"HTTP/1.1 304  Not Modified\r\nContent-Length: 9\r\nName : value\r\n\r\n",
		"HTTP/1.1 999\r\n",
		strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 30),
	} {
		f.Add([]byte(seed), uint64(1), false)
		f.Add([]byte(seed), uint64(2), true)
	}
	h := HTTP{Address: "a:1", BodyPattern: regexp.MustCompile("o")}
	f.Fuzz(func(t *testing.T, answer []byte, seed uint64, headless bool) {
		method := http.MethodGet
		if headless {
			method = http.MethodHead
		}
		want, wrong := refer(answer, method)
		found := func(c *httpConn, reusable bool, rest int) referred {
			a := &c.reading
			return referred{a.status, a.size, a.body.String(), !reusable, rest}
		}
		c := &httpConn{want: h}
		c.reading.begin(headless, true)
		source := bytes.NewReader(answer)
		reader := bufio.NewReader(source)
		reusable, err := whole(c, reader)
		got := found(c, reusable, reader.Buffered()+source.Len())
		var known *Error
		if errors.As(err, &known) && known.Kind == "" {
			t.Errorf("%q: an error without a kind", answer)
		}
		read := err == nil || known != nil
		switch {
		case read && wrong != nil:
			t.Errorf("%q passed for an answer; net/http says %v", answer, wrong)
		case !read && wrong == nil && !refused.Match(answer):
			t.Errorf("%q: %v; net/http takes it", answer, err)
		case read && got != want && !refused.Match(answer):
			t.Errorf("%q: %+v, by net/http %+v", answer, got, want)
		}

		again := &httpConn{want: h}
		again.reading.begin(headless, true)
		in := new(inbox)
		reusable, inPieces := inPieces(again, in, answer, seed)
		if fmt.Sprint(err) != fmt.Sprint(inPieces) {
			t.Errorf("%q: %v; in pieces %v", answer, err, inPieces)
		} else if pieces := found(again, reusable, in.left()); read && pieces != got {
			t.Errorf("%q: %+v; in pieces %+v", answer, got, pieces)
		}
	})
}
