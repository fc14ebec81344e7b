package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"tare/kernel/process"
)

// Absent says that no daemon listens.
type Absent struct {
	Socket string
	Err    error
}

func (a *Absent) Error() string {
	return fmt.Sprintf("no annexd listens at %s: start it with systemctl start annexd, or annexd --config /etc/annex/annex.toml; where its configuration has another control.socket, name that with --socket", a.Socket)
}

func (a *Absent) Unwrap() error { return a.Err }

// Denied says that the daemon is spoken to by root alone.
type Denied struct{ Socket string }

func (d *Denied) Error() string {
	return fmt.Sprintf("annexd at %s is spoken to by root alone: use sudo", d.Socket)
}

// Stranger says that what listens is not root's, and so not the daemon.
type Stranger struct{ Socket string }

func (s *Stranger) Error() string {
	return fmt.Sprintf("what listens at %s is not root's: it is no annexd; see who made it (ss -xlp)", s.Socket)
}

// Mismatch says that the daemon tells what this client does not read.
type Mismatch struct{ Theirs, Ours int }

func (m *Mismatch) Error() string {
	return fmt.Sprintf("annexd tells version %d of its status, and this annex reads %d: use the annex that came with it, or restart the daemon with the new one", m.Theirs, m.Ours)
}

// Silent says that a daemon is there and does not answer: it is stopped, or starved.
type Silent struct {
	Socket string
	PID    int // of whoever listens; 0 where that is not known
	For    time.Duration
}

func (s *Silent) Error() string {
	who := "annexd"
	if s.PID > 0 {
		who = fmt.Sprintf("annexd (pid %d)", s.PID)
	}
	return fmt.Sprintf("%s at %s does not answer, for %v: is it stopped, or waiting for memory itself? start it anew (systemctl restart annexd, or end it and run annexd again)", who, s.Socket, s.For)
}

// How long an answer's beginning is waited for: of what only looks, and of what orders,
// for which the daemon may ask others and write to the kernel's knobs. Streams and drains
// take longer as a whole, and begin as soon.
const (
	patience      = 5 * time.Second
	orderPatience = 30 * time.Second
)

// Client speaks to a daemon. It may be used by several goroutines.
type Client struct {
	socket       string
	looks, order *http.Client
	pid          atomic.Int64 // of whoever listens
}

// Dial makes a client for a socket. It connects when something is asked: then the error is
// an *Absent, a *Denied or a *Stranger where that fails.
func Dial(socket string) *Client {
	return dial(socket, patience, orderPatience)
}

func dial(socket string, patience, orderPatience time.Duration) *Client {
	c := &Client{socket: socket}
	connect := func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, err
		}
		if !isRoot(conn) {
			conn.Close()
			return nil, &Stranger{socket}
		}
		if os.Geteuid() != 0 {
			// The daemon closes such connections without a word.
			conn.Close()
			return nil, &Denied{socket}
		}
		if unix, ok := conn.(*net.UnixConn); ok {
			if pid, err := process.Peer(unix); err == nil {
				c.pid.Store(int64(pid))
			}
		}
		return conn, nil
	}
	waiting := func(most time.Duration) *http.Client {
		return &http.Client{Transport: &http.Transport{DialContext: connect, ResponseHeaderTimeout: most}}
	}
	c.looks, c.order = waiting(patience), waiting(orderPatience)
	return c
}

// Close ends connections that are kept for later.
func (c *Client) Close() {
	c.looks.CloseIdleConnections()
	c.order.CloseIdleConnections()
}

// Status asks how the daemon stands.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var s Status
	if err := c.ask(ctx, http.MethodGet, "/status", nil, &s); err != nil {
		return Status{}, err
	}
	return s, s.readable()
}

func (s Status) readable() error {
	if s.Schema != Schema {
		return &Mismatch{s.Schema, Schema}
	}
	return nil
}

// Top calls f with the status at once and each interval, until ctx ends, the daemon does
// (io.ErrUnexpectedEOF or io.EOF), or f returns an error, which is then returned.
func (c *Client) Top(ctx context.Context, every time.Duration, f func(Status) error) error {
	answer, err := c.send(ctx, http.MethodGet, "/top", url.Values{"interval": {every.String()}})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	lines := bufio.NewReader(answer.Body)
	for {
		line, err := readLine(lines)
		if err != nil {
			return err
		}
		var s Status
		if err := json.Unmarshal(line, &s); err != nil {
			return fmt.Errorf("read annexd's status: %w", err)
		}
		if err := s.readable(); err != nil {
			return err
		}
		if err := f(s); err != nil {
			return err
		}
	}
}

// mostAnswer is how much of an answer is read: ten thousand containers take a tenth.
const mostAnswer = 256 << 20

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > mostAnswer:
			return nil, fmt.Errorf("a status of more than %d MiB: this is no annexd", mostAnswer>>20)
		}
	}
}

// Explain asks why a container's pages left and came back.
func (c *Client) Explain(ctx context.Context, container string) (Explanation, error) {
	var e Explanation
	if err := c.ask(ctx, http.MethodGet, "/explain", url.Values{"container": {container}}, &e); err != nil {
		return Explanation{}, err
	}
	if e.Schema != Schema {
		return Explanation{}, &Mismatch{e.Schema, Schema}
	}
	return e, nil
}

// Drain has everything brought back; see [Daemon].
func (c *Client) Drain(ctx context.Context, bytesPerSecond int64) error {
	return c.ask(ctx, http.MethodPost, "/drain", url.Values{"rate": {strconv.FormatInt(bytesPerSecond, 10)}}, nil)
}

// Off has everything brought back and every setting too; see [Daemon].
func (c *Client) Off(ctx context.Context) error {
	return c.ask(ctx, http.MethodPost, "/off", nil, nil)
}

// Reload has the configuration read anew; see [Daemon].
func (c *Client) Reload(ctx context.Context) (restart []string, err error) {
	var r Reloaded
	err = c.ask(ctx, http.MethodPost, "/reload", nil, &r)
	return r.Restart, err
}

func (c *Client) ask(ctx context.Context, method, path string, query url.Values, to any) error {
	answer, err := c.send(ctx, method, path, query)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if to == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, mostAnswer)).Decode(to); err != nil {
		return fmt.Errorf("read annexd's answer to %s: %w", path, err)
	}
	return nil
}

// send asks and gives an answer that is no problem.
func (c *Client) send(ctx context.Context, method, path string, query url.Values) (*http.Response, error) {
	// The host is of no meaning over a Unix socket, but HTTP wants one.
	request, err := http.NewRequestWithContext(ctx, method, "http://annexd"+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	web := c.looks
	if method != http.MethodGet {
		web = c.order
	}
	began := time.Now()
	answer, err := web.Do(request)
	if err != nil {
		return nil, c.unreached(ctx, err, time.Since(began))
	}
	if answer.StatusCode < 300 {
		return answer, nil
	}
	defer answer.Body.Close()
	var p Problem
	if err := json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&p); err != nil || p.Message == "" {
		return nil, fmt.Errorf("annexd answers %s to %s: is it of another version?", answer.Status, path)
	}
	return nil, p.err()
}

func (c *Client) unreached(ctx context.Context, err error, after time.Duration) error {
	var stranger *Stranger
	var slow net.Error
	var denied *Denied
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &denied):
		return denied
	case errors.As(err, &stranger):
		return stranger
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOTDIR):
		return &Absent{c.socket, err}
	case errors.Is(err, fs.ErrPermission):
		return &Denied{c.socket}
	case errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE):
		return &Absent{c.socket, err} // it ended meanwhile
	case errors.As(err, &slow) && slow.Timeout():
		return &Silent{Socket: c.socket, PID: int(c.pid.Load()), For: after.Round(100 * time.Millisecond)}
	}
	return fmt.Errorf("ask annexd at %s: %w", c.socket, err)
}
