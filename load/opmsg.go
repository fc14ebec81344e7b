package load

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// OpMsg is a sequence of commands to a service that speaks MongoDB's wire
// protocol, by its one message of today, OP_MSG (MongoDB manual, "Wire
// Protocol"). A request of the load is one command.
type OpMsg struct {
	Address string // host:port
	// Next gives each request: a command and what its reply has to be; nil is
	// any that the service does not call a failure. It is called from several
	// goroutines.
	Next func() (command Document, check func(reply Document) error)

	// Dial connects; nil is TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// Open connects.
func (o OpMsg) Open(ctx context.Context) (Conn, error) {
	if o.Next == nil {
		return nil, errors.New("op_msg: no commands")
	}
	client, err := dialOpMsg(ctx, o.Dial, o.Address)
	if err != nil {
		return nil, err
	}
	return &opMsgConn{next: o.Next, client: client}, nil
}

type opMsgConn struct {
	next   func() (Document, func(Document) error)
	check  func(Document) error // of the command that was sent last
	client *OpMsgClient
}

func (c *opMsgConn) Close() error { return c.client.Close() }

func (c *opMsgConn) Do(deadline time.Time) (reusable bool, err error) {
	conn := c.client.link.get()
	if conn == nil {
		return false, net.ErrClosed
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return false, err
	}
	raw, err := c.request()
	if err == nil {
		_, err = conn.Write(raw)
	}
	if err != nil {
		return false, err
	}
	return whole(c, c.client.reader)
}

func (c *opMsgConn) request() (raw []byte, err error) {
	var command Document
	command, c.check = c.next()
	return c.client.request(command)
}

func (c *opMsgConn) answer(r input) (progress, error) {
	reply, err := c.client.reply(r)
	var failed *CommandError
	switch {
	case errors.As(err, &failed):
		return complete, &Error{Kind: fmt.Sprintf("reply %d", failed.Code), Err: err}
	case err != nil:
		return partial, err
	case c.check == nil:
		return complete, nil
	}
	if err := c.check(reply); err != nil {
		return complete, &Error{Kind: "reply", Err: err}
	}
	return complete, nil
}

func (c *opMsgConn) settle(error) {}

func (c *opMsgConn) detach() net.Conn { return c.client.link.detach() }

// CommandError is a reply by which the service calls a command a failure.
type CommandError struct {
	Code    int32
	Message string
}

func (e *CommandError) Error() string { return fmt.Sprintf("error %d: %s", e.Code, e.Message) }

// OpMsgClient sends single commands, for preparing and checking a service. It
// is for one goroutine at a time.
type OpMsgClient struct {
	link   link
	reader *bufio.Reader
	sent   int32
	buffer []byte
}

// DialOpMsg connects to host:port.
func DialOpMsg(ctx context.Context, address string) (*OpMsgClient, error) {
	return dialOpMsg(ctx, nil, address)
}

func dialOpMsg(
	ctx context.Context,
	by func(context.Context, string) (net.Conn, error),
	address string,
) (*OpMsgClient, error) {
	conn, err := dial(ctx, by, address)
	if err != nil {
		return nil, err
	}
	c := &OpMsgClient{reader: bufio.NewReaderSize(conn, 16<<10)}
	c.link.set(conn)
	return c, nil
}

// Close closes the connection.
func (c *OpMsgClient) Close() error { return c.link.close() }

// Do sends a command and gives its reply. The error is a *CommandError where
// the service answered that the command failed; after any other the client is
// of no more use.
func (c *OpMsgClient) Do(ctx context.Context, command Document) (Document, error) {
	conn := c.link.get()
	if conn == nil {
		return nil, net.ErrClosed
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	reply, err := c.exchange(conn, command)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return reply, err
}

func (c *OpMsgClient) exchange(conn net.Conn, command Document) (Document, error) {
	raw, err := c.request(command)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(raw); err != nil {
		return nil, err
	}
	return c.reply(c.reader)
}

// request gives the bytes of a command, until the next one.
func (c *OpMsgClient) request(command Document) (raw []byte, err error) {
	c.sent++
	c.buffer, err = appendOpMsg(c.buffer[:0], c.sent, command)
	return c.buffer, err
}

// reply reads the reply to the last command.
func (c *OpMsgClient) reply(r io.Reader) (Document, error) {
	to, reply, err := readOpMsg(r)
	switch {
	case err != nil:
		return nil, err
	case to != c.sent:
		return nil, fmt.Errorf("op_msg: the reply is to message %d, and %d was sent", to, c.sent)
	}
	if ok, has := reply.Number("ok"); !has || ok != 1 {
		return nil, commandError(reply)
	}
	// A command may be answered as done and yet have failed in its writes.
	if reply.Lookup("writeErrors") != nil {
		if first, _ := reply.Lookup("writeErrors", "0").(Document); first != nil {
			return nil, commandError(first)
		}
	}
	return reply, nil
}

func commandError(d Document) error {
	code, _ := d.Number("code")
	message, _ := d.Lookup("errmsg").(string)
	return &CommandError{Code: int32(code), Message: message}
}

const (
	opMsg        = 2013
	opHeader     = 16
	opMsgLimit   = 48_000_000 // of a message in the protocol
	sectionBody  = 0
	flagChecksum = 1 << 0
)

// appendOpMsg appends a message with one section, the command.
func appendOpMsg(b []byte, id int32, command Document) ([]byte, error) {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(id))
	b = binary.LittleEndian.AppendUint32(b, 0) // it answers nothing
	b = binary.LittleEndian.AppendUint32(b, opMsg)
	b = binary.LittleEndian.AppendUint32(b, 0) // no flags
	b = append(b, sectionBody)
	b, err := appendDocument(b, command)
	if err != nil {
		return nil, err
	}
	binary.LittleEndian.PutUint32(b[start:], uint32(len(b)-start))
	return b, nil
}

// readOpMsg reads a message with one section, and which message it answers.
func readOpMsg(r io.Reader) (to int32, reply Document, err error) {
	var head [opHeader]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.LittleEndian.Uint32(head[0:])
	to = int32(binary.LittleEndian.Uint32(head[8:]))
	if code := binary.LittleEndian.Uint32(head[12:]); code != opMsg {
		return 0, nil, fmt.Errorf("op_msg: a message of kind %d, want %d", code, opMsg)
	}
	if size < opHeader+4+1+5 || size > opMsgLimit {
		return 0, nil, fmt.Errorf("op_msg: a message of %d bytes, want %d to %d", size, opHeader+4+1+5, opMsgLimit)
	}
	// What is not there is not made room for.
	body, err := io.ReadAll(io.LimitReader(r, int64(size)-opHeader))
	if err != nil {
		return 0, nil, err
	}
	if len(body) < int(size)-opHeader {
		return 0, nil, io.ErrUnexpectedEOF
	}
	flags, body := binary.LittleEndian.Uint32(body), body[4:]
	if flags&flagChecksum != 0 {
		if len(body) < 4 {
			return 0, nil, errBSON
		}
		body = body[:len(body)-4]
	}
	if len(body) == 0 || body[0] != sectionBody {
		return 0, nil, errors.New("op_msg: its first section is not the reply")
	}
	reply, err = readDocument(body[1:])
	return to, reply, err
}
