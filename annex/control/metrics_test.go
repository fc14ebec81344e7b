package control

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// counted is a daemon that counts how often it is asked for its status.
type counted struct {
	Daemon
	asked int
}

func (c *counted) Status() Status {
	c.asked++
	return Status{Version: fmt.Sprint(c.asked)}
}

// However often metrics are read, the daemon is asked some times a second.
func TestMetricsReuseAStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &counted{}
		h := handler(newCollector(d))
		read := func() { h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil)) }
		for range 100 {
			read()
		}
		if d.asked != 1 {
			t.Errorf("asked %d times within a moment", d.asked)
		}
		time.Sleep(reuse - 1)
		if read(); d.asked != 1 {
			t.Errorf("asked %d times within %v", d.asked, reuse)
		}
		time.Sleep(time.Nanosecond)
		if read(); d.asked != 2 {
			t.Errorf("asked %d times after %v", d.asked, reuse)
		}
	})
}

// pipes is a listener whose connections hold nothing: who writes waits for who reads.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func newPipes() pipes {
	closed := make(chan struct{})
	return pipes{make(chan net.Conn), closed, sync.OnceFunc(func() { close(closed) })}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error { p.close(); return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours
}

// scraped reads metrics over a connection.
func scraped(c net.Conn) error {
	if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return err
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if _, err = io.Copy(io.Discard, r.Body); err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers %s", r.Status)
	}
	return err
}

// Who does not read, or only connects, keeps nobody else from reading for long.
func TestMetricsOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		p, ended := newPipes(), make(chan error, 1)
		go func() { ended <- ServeMetrics(ctx, p, &counted{}) }()
		var all []net.Conn
		for range metricsConnections {
			c := p.dial()
			all = append(all, c)
			if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		more, began := p.dial(), time.Now()
		if _, err := more.Read(make([]byte, 1)); err != io.EOF || time.Since(began) > 0 {
			t.Errorf("one more than there may be is not closed at once: %v, after %v", err, time.Since(began))
		}
		time.Sleep(metricsWithin + time.Second)
		if more = p.dial(); scraped(more) != nil {
			t.Errorf("after %v those who do not read are still waited for", metricsWithin)
		}
		for _, c := range append(all, more) {
			_ = c.Close()
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
