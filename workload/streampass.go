package workload

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"time"
)

// streamPass is one pass over the kernels, of a stream that serves.
type streamPass struct {
	Elements int64        `json:"elements"` // of each array
	Threads  int          `json:"threads"`
	Stores   string       `json:"stores"`
	Kernels  []streamTime `json:"kernels"` // in the order of streamKernels
	Valid    *bool        `json:"valid"`
}

// streamTime is how long a kernel took, by the program's monotonic clock, and the bytes
// that it moved by its definition.
type streamTime struct {
	Kernel  string  `json:"kernel"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

// mostPassLine is the size of the program's longest line.
const mostPassLine = 1024

// parseStreamPass reads one line of the program's, and refuses wrong results.
func parseStreamPass(line []byte) (p streamPass, err error) {
	if err := json.Unmarshal(line, &p); err != nil {
		return p, fmt.Errorf("a pass of stream: %w in %s", err, ending(line))
	}
	if len(p.Kernels) != len(streamKernels) {
		return p, fmt.Errorf("a pass of stream has %d kernels, want %d", len(p.Kernels), len(streamKernels))
	}
	for i, k := range p.Kernels {
		switch {
		case k.Kernel != streamKernels[i]:
			return p, fmt.Errorf("a pass of stream has kernel %.20q, want %s", k.Kernel, streamKernels[i])
		case k.Bytes <= 0 || !(k.Seconds > 0) || math.IsInf(k.Seconds, 0):
			return p, fmt.Errorf("a pass of stream: kernel %s moved %d bytes in %v s, which cannot be", k.Kernel, k.Bytes, k.Seconds)
		}
	}
	if p.Valid == nil || !*p.Valid {
		return p, errors.New("stream computed wrong results in a pass: not valid")
	}
	return p, nil
}

// streamClient asks a stream that serves ([At] with a port) for passes. After a pause its
// threads sleep, and the first pass has to wake them.
type streamClient struct {
	conn  net.Conn
	lines *bufio.Reader
}

// connect waits until the program has laid out its arrays and done one pass, which it
// forgets.
func (plan streamPlan) connect(ctx context.Context, t Trial) (c *streamClient, err error) {
	address := t.Address(plan.port)
	dial := dialOf(t)
	if dial == nil {
		dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	// A pass may take longer than a question.
	passing, cancel := context.WithTimeout(ctx, workWithin)
	defer cancel()
	err = awaitReady(passing, workWithin, "stream passes over its arrays at "+address, func(ctx context.Context) error {
		conn, err := dial(ctx, address)
		if err != nil {
			return err
		}
		c = &streamClient{conn, bufio.NewReaderSize(conn, mostPassLine)}
		// An engine's proxy accepts before the program does.
		if _, err = c.pass(passing, 1); err != nil {
			c.close()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// mostPasses is how many may be asked for at once: their lines have room on the way.
const mostPasses = 1000

// pass has the program do n passes, 1 to 1000, one after the other. After an error the
// connection is of no more use.
func (c *streamClient) pass(ctx context.Context, n int) ([]streamPass, error) {
	if n < 1 || n > mostPasses {
		return nil, fmt.Errorf("%d passes of stream at once: want 1 to %d", n, mostPasses)
	}
	stop := context.AfterFunc(ctx, func() { c.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := c.conn.Write(bytes.Repeat([]byte{'.'}, n)); err != nil {
		return nil, c.failed(ctx, err)
	}
	passes := make([]streamPass, 0, n)
	for range n {
		line, err := c.lines.ReadSlice('\n')
		if err != nil {
			return nil, c.failed(ctx, err)
		}
		p, err := parseStreamPass(line)
		if err != nil {
			return nil, err
		}
		passes = append(passes, p)
	}
	return passes, nil
}

func (c *streamClient) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("ask stream at %s for passes: %w", c.conn.RemoteAddr(), err)
}

func (c *streamClient) close() error { return c.conn.Close() }
