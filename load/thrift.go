package load

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
)

// The calls of programs/thrift/service.thrift.
const (
	ThriftPing    = "ping"    // carries nothing
	ThriftReceive = "receive" // carries bytes to the service
	ThriftSend    = "send"    // carries bytes from it
)

// MostThriftBytes is what a call carries at most, either way.
const MostThriftBytes = 16 << 20

// KindException counts the exceptions by which a service answers.
const KindException = "exception"

// Thrift is a call of programs/thrift/service.thrift, in Thrift's binary protocol
// over a plain stream (its buffered transport), and what answers it rightly.
//
// The request is built once, and its answer is read where it lies: Thrift's own
// client would add a copy of what is received to every latency.
type Thrift struct {
	Address string // host:port
	Call    string // ThriftPing, ThriftReceive, ThriftSend; "" is ThriftPing
	Size    int    // bytes that it carries, up to MostThriftBytes; none with ThriftPing

	// NewConnections makes a connection for each request; its latency then
	// holds the connecting.
	NewConnections bool

	// Dial connects; nil is TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// Open connects; with NewConnections it only prepares.
func (t Thrift) Open(ctx context.Context) (Conn, error) {
	if t.Call == "" {
		t.Call = ThriftPing
	}
	raw, err := t.request()
	if err != nil {
		return nil, err
	}
	c := &thriftConn{want: t, raw: raw}
	if t.NewConnections {
		return c, nil
	}
	return c, c.connect(ctx)
}

// request builds the call's message, with the sequence number 0.
func (t Thrift) request() ([]byte, error) {
	if t.Size < 0 || t.Size > MostThriftBytes {
		return nil, fmt.Errorf("thrift: %d bytes: want 0 to %d", t.Size, MostThriftBytes)
	}
	// In memory nothing of this fails.
	ctx, memory := context.Background(), thrift.NewTMemoryBufferLen(t.Size+64)
	p := thrift.NewTBinaryProtocolConf(memory, nil)
	p.WriteMessageBegin(ctx, t.Call, thrift.CALL, 0)
	p.WriteStructBegin(ctx, "")
	switch t.Call {
	case ThriftPing:
	case ThriftReceive:
		p.WriteFieldBegin(ctx, "data", thrift.STRING, 1)
		p.WriteBinary(ctx, make([]byte, t.Size))
		p.WriteFieldEnd(ctx)
	case ThriftSend:
		p.WriteFieldBegin(ctx, "size", thrift.I32, 1)
		p.WriteI32(ctx, int32(t.Size))
		p.WriteFieldEnd(ctx)
	default:
		return nil, fmt.Errorf("thrift: call %q: want %s, %s or %s", t.Call, ThriftPing, ThriftReceive, ThriftSend)
	}
	p.WriteFieldStop(ctx)
	p.WriteStructEnd(ctx)
	p.WriteMessageEnd(ctx)
	return memory.Bytes(), p.Flush(ctx)
}

type thriftConn struct {
	want     Thrift
	raw      []byte // the message; its sequence number is written anew for each
	sequence uint32
	link     link
	reader   *bufio.Reader
}

// readAhead is what a connection reads at once.
const readAhead = 64 << 10

func (c *thriftConn) connect(ctx context.Context) error {
	conn, err := dial(ctx, c.want.Dial, c.want.Address)
	if err != nil {
		return err
	}
	if !c.link.set(conn) {
		return net.ErrClosed
	}
	if c.reader == nil {
		c.reader = bufio.NewReaderSize(conn, readAhead)
	}
	c.reader.Reset(conn)
	return nil
}

func (c *thriftConn) Close() error { return c.link.close() }

func (c *thriftConn) Do(deadline time.Time) (reusable bool, err error) {
	if c.want.NewConnections {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		defer cancel()
		if err := c.connect(ctx); err != nil {
			return true, &Error{Kind: KindConnect, Err: err}
		}
		defer c.link.drop()
	}
	conn := c.link.get()
	if conn == nil {
		return false, net.ErrClosed
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return c.want.NewConnections, err
	}
	raw, err := c.request()
	if err == nil {
		_, err = conn.Write(raw)
	}
	if err != nil {
		return c.want.NewConnections, err
	}
	reusable, err = whole(c, c.reader)
	return c.want.NewConnections || reusable, err
}

func (c *thriftConn) request() ([]byte, error) {
	c.sequence++
	// Behind the version and the name, which its length precedes.
	binary.BigEndian.PutUint32(c.raw[8+len(c.want.Call):], c.sequence)
	return c.raw, nil
}

// answer reads the answer and checks it.
func (c *thriftConn) answer(r input) (progress, error) {
	size, err := readThriftReply(r, c.want.Call, c.sequence)
	if err != nil {
		if known := (*Error)(nil); !errors.As(err, &known) {
			return partial, err
		}
	}
	if err == nil && c.want.Call == ThriftSend && size != c.want.Size {
		err = &Error{Kind: "size", Err: fmt.Errorf("%d bytes, want %d", size, c.want.Size)}
	}
	if c.want.NewConnections {
		return final, err
	}
	return complete, err
}

func (c *thriftConn) settle(error) {}

func (c *thriftConn) detach() net.Conn { return c.link.detach() }

func (c *thriftConn) renews() bool { return c.want.NewConnections }

func (c *thriftConn) dial(ctx context.Context) (net.Conn, error) {
	return dialing(c.want.Dial).connect(ctx, c.want.Address)
}

func (c *thriftConn) direct() netip.AddrPort { return dialing(c.want.Dial).direct(c.want.Address) }
