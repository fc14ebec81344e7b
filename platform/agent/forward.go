package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// dial connects to a port of an instance.
func (c *Client) dial(ctx context.Context, query string) (_ net.Conn, err error) {
	stream, err := c.session.OpenStream()
	if err != nil {
		return nil, c.broken(ctx, err)
	}
	defer func() {
		if err != nil {
			_ = stream.Close()
		}
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent/v1/dial?"+query, nil)
	if err != nil {
		return nil, err
	}
	c.label(request)
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", upgrade)
	// The stream has no context: a deadline in the past ends what waits on it.
	stop := context.AfterFunc(ctx, func() { _ = stream.SetDeadline(time.Unix(1, 0)) })
	if err := request.Write(stream); err != nil {
		return nil, c.broken(ctx, err)
	}
	read := bufio.NewReader(stream)
	response, err := http.ReadResponse(read, request)
	if err != nil {
		return nil, c.broken(ctx, err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return nil, c.refusal(ctx, response, json.NewDecoder(io.LimitReader(response.Body, longestAnswer)))
	}
	if !stop() {
		return nil, c.broken(ctx, ctx.Err())
	}
	return &through{Stream: stream, read: read}, nil
}

// through is a connection to a port of the agent's.
type through struct {
	*yamux.Stream
	read *bufio.Reader // has what came with the answer
}

func (t *through) Read(p []byte) (int, error) { return t.read.Read(p) }

// CloseWrite informs the other end that no more comes; reading goes on.
func (t *through) CloseWrite() error { return t.Stream.Close() }

// join copies between a stream and a connection until both directions have ended.
func join(stream net.Conn, from io.Reader, upstream net.Conn) {
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(upstream, from)
		closeWrite(upstream)
	})
	both.Go(func() {
		if _, err := io.Copy(stream, upstream); err != nil {
			_ = upstream.Close()
		}
		closeWrite(stream)
	})
	both.Wait()
}

// closeWrite ends one direction. Closing a yamux stream does that and no more.
func closeWrite(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	_ = conn.Close()
}

// forward is a listener on the client's host, whose connections end at a port of an
// instance.
type forward struct {
	listener net.Listener
	cancel   context.CancelFunc
	all      sync.WaitGroup
}

func (c *Client) forward(instance string, port int) (*forward, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("a listener for port %d of an instance of the agent's: %w", port, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &forward{listener: listener, cancel: cancel}
	query := "port=" + strconv.Itoa(port) + "&id=" + instance
	f.all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			f.all.Go(func() { c.carryOver(ctx, conn, query) })
		}
	})
	return f, nil
}

func (c *Client) carryOver(ctx context.Context, conn net.Conn, query string) {
	defer conn.Close()
	// Who finds nobody there learns it as from the kernel: by a reset, where nothing
	// else can be said any more.
	stream, err := c.dial(ctx, query)
	if err != nil {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		return
	}
	defer stream.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close(); _ = stream.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	join(conn, conn, stream)
}

// close ends the listener and its connections.
func (f *forward) close() {
	_ = f.listener.Close()
	f.cancel()
	f.all.Wait()
}
