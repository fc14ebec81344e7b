package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// RESP is a sequence of commands to a service that speaks Redis' protocol.
//
// A request of the load is Pipeline commands, sent at once and answered
// together: the sequence is gone through again and again, by each connection
// for itself.
type RESP struct {
	Address  string     // host:port
	Commands [][]string // each a command and its arguments
	Pipeline int        // commands a request; 0 is 1

	// Dial connects; nil is TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// Open connects.
func (r RESP) Open(ctx context.Context) (Conn, error) {
	if len(r.Commands) == 0 {
		return nil, errors.New("resp: no commands")
	}
	for i, command := range r.Commands {
		if len(command) == 0 {
			return nil, fmt.Errorf("resp: command %d is empty", i)
		}
	}
	r.Pipeline = max(r.Pipeline, 1)
	client, err := dialRESP(ctx, r.Dial, r.Address)
	if err != nil {
		return nil, err
	}
	return &respConn{want: r, client: client}, nil
}

type respConn struct {
	want   RESP
	client *RESPClient
	next   int
	buffer []byte
}

func (c *respConn) Close() error { return c.client.Close() }

func (c *respConn) Do(deadline time.Time) (reusable bool, err error) {
	conn := c.client.link.get()
	if conn == nil {
		return false, net.ErrClosed
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return false, err
	}
	c.buffer = c.buffer[:0]
	for range c.want.Pipeline {
		c.buffer = AppendCommand(c.buffer, c.want.Commands[c.next]...)
		c.next = (c.next + 1) % len(c.want.Commands)
	}
	if _, err := conn.Write(c.buffer); err != nil {
		return false, err
	}
	var refused error
	for range c.want.Pipeline {
		text, err := skipReply(c.client.reader)
		if err != nil {
			return false, err
		}
		if text != "" && refused == nil {
			refused = replyError(text)
		}
	}
	return true, refused
}

// replyError is an error reply, counted under its first word: "reply ERR".
func replyError(text string) error {
	word, _, _ := strings.Cut(text, " ")
	return &Error{Kind: "reply " + word, Err: errors.New(text)}
}

// RESPClient sends single commands, for preparing and checking a service. It
// is for one goroutine at a time.
type RESPClient struct {
	link   link
	reader *bufio.Reader
}

// DialRESP connects to host:port.
func DialRESP(ctx context.Context, address string) (*RESPClient, error) {
	return dialRESP(ctx, nil, address)
}

func dialRESP(ctx context.Context, by func(context.Context, string) (net.Conn, error), address string) (*RESPClient, error) {
	conn, err := dial(ctx, by, address)
	if err != nil {
		return nil, err
	}
	c := &RESPClient{reader: bufio.NewReaderSize(conn, 16<<10)}
	c.link.set(conn)
	return c, nil
}

// Close closes the connection.
func (c *RESPClient) Close() error { return c.link.close() }

// Do sends commands at once and gives their replies, in order. An error reply
// is a reply, not an error. After an error the client is of no more use.
func (c *RESPClient) Do(ctx context.Context, commands ...[]string) ([]Reply, error) {
	conn := c.link.get()
	if conn == nil {
		return nil, net.ErrClosed
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	var buffer []byte
	for _, command := range commands {
		buffer = AppendCommand(buffer, command...)
	}
	// Written beside the reading: replies to many commands may fill the
	// socket's buffers before the last command is written.
	written := make(chan error, 1)
	go func() {
		_, err := conn.Write(buffer)
		written <- err
	}()
	replies := make([]Reply, 0, len(commands))
	for range commands {
		reply, err := ReadReply(c.reader)
		if err != nil {
			c.Close()
			<-written
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return nil, err
		}
		replies = append(replies, reply)
	}
	return replies, <-written
}
