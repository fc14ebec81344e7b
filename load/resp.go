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
	// Next, where it is set, gives each command in place of Commands, and what its
	// reply has to be; nil is any that is no error. It is called from several
	// goroutines. What a check is shown is overwritten after it: it keeps copies.
	Next func() (command []string, check func(Reply) error)

	// Dial connects; nil is TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// Open connects.
func (r RESP) Open(ctx context.Context) (Conn, error) {
	if len(r.Commands) == 0 && r.Next == nil {
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
	checks []func(Reply) error // of the commands that were sent last
	kept   []byte              // the strings of the reply that is checked

	answered int   // of those commands
	refused  error // the first reply that was not the right one
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
	raw, err := c.request()
	if err != nil {
		return false, err
	}
	if _, err := conn.Write(raw); err != nil {
		return false, err
	}
	return whole(c, c.client.reader)
}

func (c *respConn) request() ([]byte, error) {
	c.buffer, c.checks = c.buffer[:0], c.checks[:0]
	c.answered, c.refused = 0, nil
	for range c.want.Pipeline {
		command, check := c.command()
		c.buffer, c.checks = AppendCommand(c.buffer, command...), append(c.checks, check)
	}
	return c.buffer, nil
}

// answer reads the reply to one command.
func (c *respConn) answer(r input) (progress, error) {
	wrong, err := c.reply(r, c.checks[c.answered])
	if err != nil {
		return partial, err
	}
	if c.refused == nil {
		c.refused = wrong
	}
	if c.answered++; c.answered < len(c.checks) {
		return partial, nil
	}
	return complete, c.refused
}

func (c *respConn) settle(error) {}

func (c *respConn) detach() net.Conn { return c.client.link.detach() }

// command gives the next command.
func (c *respConn) command() ([]string, func(Reply) error) {
	if c.want.Next != nil {
		return c.want.Next()
	}
	command := c.want.Commands[c.next]
	c.next = (c.next + 1) % len(c.want.Commands)
	return command, nil
}

// reply reads a reply; wrong says why it is not the right one. What nobody looks
// at is not kept.
func (c *respConn) reply(r input, check func(Reply) error) (wrong, err error) {
	if check == nil {
		text, err := skipReply(r)
		if err != nil || text == "" {
			return nil, err
		}
		return replyError(text), nil
	}
	// Memory of its own for each would have the collector of garbage run beside the load,
	// tens of times a second where replies are large.
	c.kept = c.kept[:0]
	reply, err := readReply(r, maxReplyDepth, keeping{most: maxReplyKept, room: &c.kept})
	if err != nil {
		return nil, err
	}
	if wrong := reply.Err(); wrong != nil {
		return wrong, nil
	}
	if wrong := check(reply); wrong != nil {
		return &Error{Kind: "reply", Err: wrong}, nil
	}
	return nil, nil
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

func dialRESP(
	ctx context.Context,
	by func(context.Context, string) (net.Conn, error),
	address string,
) (*RESPClient, error) {
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
