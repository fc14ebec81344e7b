// Package qmp speaks QEMU's machine protocol with one running QEMU: a command,
// its answer, one after another. Events that QEMU tells of by itself are passed over.
//
// It is no model of QEMU: what commands mean is their caller's.
// See docs/interop/qmp-spec.rst of QEMU.
package qmp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// maxLine bounds one answer. QEMU's longest that are asked for here are some
// kilobytes.
const maxLine = 1 << 20

// Error is QEMU's refusal of a command.
type Error struct {
	Command string
	Class   string // "GenericError", "CommandNotFound", ...
	Desc    string // one line, QEMU's own words
}

func (e *Error) Error() string { return "QEMU refuses " + e.Command + ": " + e.Desc }

// message is one line of QEMU's: its greeting, an answer or an event.
type message struct {
	Greeting json.RawMessage `json:"QMP"`
	Return   json.RawMessage `json:"return"`
	Error    *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
	Event string `json:"event"`
	ID    int    `json:"id"`
}

// parse reads a line. One that is none of the three is an error.
func parse(line []byte) (message, error) {
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		return m, fmt.Errorf("QEMU's line %.80q: %w", line, err)
	}
	kinds := 0
	for _, is := range []bool{m.Greeting != nil, m.Return != nil, m.Error != nil, m.Event != ""} {
		if is {
			kinds++
		}
	}
	if kinds != 1 {
		return m, fmt.Errorf("QEMU's line %.80q is neither a greeting, nor an answer, nor an event", line)
	}
	return m, nil
}

// Client is the connection to one QEMU. Its methods may be called from several
// goroutines; commands go one after another.
type Client struct {
	conn  net.Conn
	lines *bufio.Scanner

	turn   sync.Mutex
	last   int
	broken error // after which nothing is known of what QEMU would say next
}

// Open shakes hands with the QEMU at the other end, and closes conn where it fails.
func Open(ctx context.Context, conn net.Conn) (*Client, error) {
	c := &Client{conn: conn, lines: bufio.NewScanner(conn)}
	c.lines.Buffer(nil, maxLine)
	err := c.bounded(ctx, func() error {
		m, err := c.next()
		if err == nil && m.Greeting == nil {
			err = errors.New("QEMU does not greet")
		}
		return err
	})
	if err == nil {
		err = c.Execute(ctx, "qmp_capabilities", nil, nil)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// Execute has QEMU do a command, and reads what it returns into result, which may be
// nil. The error is an [*Error] where QEMU refuses. After any other error the
// connection is of no more use.
func (c *Client) Execute(ctx context.Context, command string, arguments, result any) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	if c.broken != nil {
		return c.broken
	}
	var answer message
	err := c.bounded(ctx, func() (err error) {
		answer, err = c.exchange(command, arguments)
		return err
	})
	if err != nil {
		c.broken = fmt.Errorf("telling QEMU to %s: %w", command, err)
		return c.broken
	}
	if answer.Error != nil {
		return &Error{command, answer.Error.Class, answer.Error.Desc}
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(answer.Return, result); err != nil {
		return fmt.Errorf("QEMU's answer to %s: %w", command, err)
	}
	return nil
}

func (c *Client) exchange(command string, arguments any) (message, error) {
	c.last++
	request := map[string]any{"execute": command, "id": c.last}
	if arguments != nil {
		request["arguments"] = arguments
	}
	text, err := json.Marshal(request)
	if err != nil {
		return message{}, err
	}
	if _, err := c.conn.Write(append(text, '\n')); err != nil {
		return message{}, err
	}
	for {
		m, err := c.next()
		if err != nil || m.Event == "" && m.Greeting == nil && m.ID == c.last {
			return m, err
		}
	}
}

func (c *Client) next() (message, error) {
	if c.lines.Scan() {
		return parse(c.lines.Bytes())
	}
	if err := c.lines.Err(); err != nil {
		return message{}, err
	}
	return message{}, net.ErrClosed
}

// bounded runs f, whose reading and writing ends with the context.
func (c *Client) bounded(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	err := f()
	if !stop() && err != nil {
		err = fmt.Errorf("%w (%w)", context.Cause(ctx), err) // one line: it ends up in one
	}
	return err
}

// Close ends the connection; QEMU goes on.
func (c *Client) Close() error { return c.conn.Close() }
