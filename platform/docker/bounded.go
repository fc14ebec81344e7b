package docker

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
)

// mostReply bounds a rootless engine's reply, in bytes. Anything may answer at a user's socket, and what
// is read of a reply may take a hundred times its bytes.
const mostReply = 1 << 20

// streams are the requests whose replies nobody keeps in memory: archives, and what a program prints.
var streams = []string{"/get", "/export", "/attach"}

// requestLine begins a request of HTTP/1.
var requestLine = regexp.MustCompile(`^(?:GET|HEAD|POST|PUT|DELETE) (/[^ ?]*)`)

// dialBounded connects to a socket so that no reply but a stream is longer than mostReply.
func dialBounded(socket string) func(ctx context.Context, _, _ string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, err
		}
		return &bounded{Conn: conn}, nil
	}
}

// bounded is a connection that bounds each reply by the request before it.
type bounded struct {
	net.Conn
	came     atomic.Int64
	isStream atomic.Bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if line := requestLine.FindSubmatch(p); line != nil {
		b.came.Store(0)
		ends := func(suffix string) bool { return strings.HasSuffix(string(line[1]), suffix) }
		b.isStream.Store(slices.ContainsFunc(streams, ends))
	}
	return b.Conn.Write(p)
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if b.came.Add(int64(n)) > mostReply && !b.isStream.Load() {
		return 0, fmt.Errorf("a reply of more than %d KiB", mostReply>>10)
	}
	return n, err
}

// CloseWrite ends a program's input.
func (b *bounded) CloseWrite() error { return b.Conn.(*net.UnixConn).CloseWrite() }
