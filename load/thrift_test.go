package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
)

// written gives what the library writes.
func written(write func(ctx context.Context, p thrift.TProtocol)) []byte {
	memory := thrift.NewTMemoryBuffer()
	write(context.Background(), thrift.NewTBinaryProtocolConf(memory, nil))
	return memory.Bytes()
}

// thriftReply is an answer as a service writes it.
func thriftReply(kind thrift.TMessageType, name string, sequence int32, body func(ctx context.Context, p thrift.TProtocol)) []byte {
	return written(func(ctx context.Context, p thrift.TProtocol) {
		p.WriteMessageBegin(ctx, name, kind, sequence)
		body(ctx, p)
		p.WriteMessageEnd(ctx)
	})
}

func empty(ctx context.Context, p thrift.TProtocol) { p.WriteFieldStop(ctx) }

func sent(data []byte) func(ctx context.Context, p thrift.TProtocol) {
	return func(ctx context.Context, p thrift.TProtocol) {
		p.WriteFieldBegin(ctx, "success", thrift.STRING, 0)
		p.WriteBinary(ctx, data)
		p.WriteFieldStop(ctx)
	}
}

func refusedBy(why string) func(ctx context.Context, p thrift.TProtocol) {
	return func(ctx context.Context, p thrift.TProtocol) {
		p.WriteFieldBegin(ctx, "refused", thrift.STRUCT, 1)
		p.WriteFieldBegin(ctx, "why", thrift.STRING, 1)
		p.WriteString(ctx, why)
		p.WriteFieldStop(ctx)
		p.WriteFieldStop(ctx)
	}
}

func applicationException(message string) func(ctx context.Context, p thrift.TProtocol) {
	return func(ctx context.Context, p thrift.TProtocol) {
		_ = thrift.NewTApplicationException(thrift.INTERNAL_ERROR, message).Write(ctx, p)
	}
}

// answerThrift answers each request, by its name and sequence number, until the
// test ends; nil hangs up.
func answerThrift(t *testing.T, answer func(name string, sequence int32, fields []byte) []byte) Thrift {
	t.Helper()
	l := pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				// In memory a read gives what one write wrote.
				buffer := make([]byte, 1<<20)
				for {
					n, err := conn.Read(buffer)
					if err != nil {
						return
					}
					p := thrift.NewTBinaryProtocolConf(&thrift.TMemoryBuffer{Buffer: bytes.NewBuffer(buffer[:n])}, nil)
					name, kind, sequence, err := p.ReadMessageBegin(t.Context())
					if err != nil || kind != thrift.CALL {
						t.Errorf("the service got %q: %v", buffer[:n], err)
						return
					}
					reply := answer(name, sequence, buffer[12+len(name):n])
					if reply == nil {
						return
					}
					if _, err := conn.Write(reply); err != nil {
						return
					}
				}
			}()
		}
	}()
	return Thrift{Address: "service:9090", Dial: l.dial}
}

func TestThriftCalls(t *testing.T) {
	for _, c := range []struct {
		call string
		size int
		want []byte // the arguments, as the protocol has them
	}{
		{ThriftPing, 7, []byte{0}},
		{ThriftReceive, 3, []byte{11, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0}},
		{ThriftReceive, 0, []byte{11, 0, 1, 0, 0, 0, 0, 0}},
		{ThriftSend, 258, []byte{8, 0, 1, 0, 0, 1, 2, 0}},
	} {
		for _, fresh := range []bool{false, true} {
			var names []string
			var sequences []int32
			target := answerThrift(t, func(name string, sequence int32, fields []byte) []byte {
				names, sequences = append(names, name), append(sequences, sequence)
				if !bytes.Equal(fields, c.want) {
					t.Errorf("%s: its arguments are % x, want % x", c.call, fields, c.want)
				}
				if name == ThriftSend {
					return thriftReply(thrift.REPLY, name, sequence, sent(make([]byte, c.size)))
				}
				return thriftReply(thrift.REPLY, name, sequence, empty)
			})
			target.Call, target.Size, target.NewConnections = c.call, c.size, fresh
			conn, err := target.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if reusable, err := conn.Do(time.Now().Add(time.Minute)); !reusable || err != nil {
					t.Errorf("%s: %v, %v", c.call, reusable, err)
				}
			}
			conn.Close()
			if fmt.Sprint(names, sequences) != fmt.Sprintf("[%s %s %s] [1 2 3]", c.call, c.call, c.call) {
				t.Errorf("asked %q %v, want three times %s", names, sequences, c.call)
			}
		}
	}
}

func TestThriftWrongAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		call     string
		answer   func(sequence int32) []byte
		kind     string
		want     string
		reusable bool
	}{
		"the service fails": {ThriftPing, func(s int32) []byte {
			return thriftReply(thrift.EXCEPTION, ThriftPing, s, applicationException("no disk"))
		},
			KindException, "no disk", true},
		"the service refuses": {ThriftSend, func(s int32) []byte { return thriftReply(thrift.REPLY, ThriftSend, s, refusedBy("too much")) },
			KindException, "too much", true},
		"nothing is sent": {ThriftSend, func(s int32) []byte { return thriftReply(thrift.REPLY, ThriftSend, s, empty) },
			KindException, "holds nothing", true},
		"less is sent": {ThriftSend, func(s int32) []byte { return thriftReply(thrift.REPLY, ThriftSend, s, sent([]byte("abc"))) },
			"size", "3 bytes, want 5", true},
		"another call's": {ThriftPing, func(s int32) []byte { return thriftReply(thrift.REPLY, "pong", s, empty) },
			KindProtocol, `call 1, "pong"`, false},
		"a longer call's": {ThriftPing, func(s int32) []byte { return thriftReply(thrift.REPLY, "pingpong", s, empty) },
			KindProtocol, "8 bytes", false},
		"an earlier request's": {ThriftPing, func(s int32) []byte { return thriftReply(thrift.REPLY, ThriftPing, s-1, empty) },
			KindProtocol, "answer to call 0", false},
		"a call": {ThriftPing, func(s int32) []byte { return thriftReply(thrift.CALL, ThriftPing, s, empty) },
			KindProtocol, "type 1", false},
		"a field too many": {ThriftPing, func(s int32) []byte { return thriftReply(thrift.REPLY, ThriftPing, s, sent(nil)) },
			KindProtocol, "field 0 of type 11", false},
		"another protocol's":       {ThriftPing, func(int32) []byte { return []byte("HTTP/1.1 400 Bad Request\r\n\r\n") }, KindProtocol, "begins with 48545450", false},
		"a length below zero":      {ThriftSend, func(s int32) []byte { return lengthened(s, -1) }, KindProtocol, "-1 bytes", false},
		"more than anybody sends":  {ThriftSend, func(s int32) []byte { return lengthened(s, MostThriftBytes+1) }, KindProtocol, "16777217 bytes", false},
		"hung up":                  {ThriftPing, func(int32) []byte { return nil }, KindClosed, "EOF", false},
		"stalled within the head":  {ThriftPing, func(s int32) []byte { return thriftReply(thrift.REPLY, ThriftPing, s, empty)[:7] }, KindTimeout, "", false},
		"stalled within the bytes": {ThriftSend, func(s int32) []byte { return lengthened(s, 100) }, KindTimeout, "", false},
	} {
		target := answerThrift(t, func(_ string, sequence int32, _ []byte) []byte { return c.answer(sequence) })
		target.Call, target.Size = c.call, 5
		conn, err := target.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		limit := time.Minute
		if c.kind == KindTimeout {
			limit = 20 * time.Millisecond
		}
		reusable, err := conn.Do(time.Now().Add(limit))
		if err == nil || kindOf(err) != c.kind || reusable != c.reusable || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v (%s), reusable: %t; want %q (%s), reusable: %t", name, err, kindOf(err), reusable, c.want, c.kind, c.reusable)
		}
		conn.Close()
	}
}

// lengthened is an answer to send whose length says n, with two bytes behind it.
func lengthened(sequence, n int32) []byte {
	reply := thriftReply(thrift.REPLY, ThriftSend, sequence, sent([]byte("ab")))
	at := len(reply) - 1 - 2 - 4
	binary.BigEndian.PutUint32(reply[at:], uint32(n))
	return reply
}

// A connection that is closed within an answer, anywhere, is no wrong answer but a
// closed connection.
func TestThriftCutAnywhere(t *testing.T) {
	for _, whole := range [][]byte{
		thriftReply(thrift.REPLY, ThriftSend, 1, sent([]byte("abc"))),
		thriftReply(thrift.REPLY, ThriftSend, 1, refusedBy("no")),
		thriftReply(thrift.EXCEPTION, ThriftSend, 1, applicationException("no")),
	} {
		for n := range whole {
			_, err := readThriftReply(bufio.NewReader(bytes.NewReader(whole[:n])), ThriftSend, 1)
			if kindOf(err) != KindClosed {
				t.Errorf("%d of %d bytes: %v (%s)", n, len(whole), err, kindOf(err))
			}
		}
	}
}

func TestThriftRefusesWrongCalls(t *testing.T) {
	for _, c := range []struct {
		target Thrift
		want   string
	}{
		{Thrift{Call: "fly", NewConnections: true}, "ping, receive or send"},
		{Thrift{Size: -1, NewConnections: true}, "want 0 to"},
		{Thrift{Size: MostThriftBytes + 1, NewConnections: true}, "want 0 to"},
	} {
		if _, err := c.target.Open(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.target, err, c.want)
		}
	}
}

// An exception is read to its end and not beyond: the next answer is whole.
func TestThriftGoesOnAfterAnException(t *testing.T) {
	n := 0
	target := answerThrift(t, func(name string, sequence int32, _ []byte) []byte {
		if n++; n%2 == 1 {
			return thriftReply(thrift.EXCEPTION, name, sequence, applicationException("odd"))
		}
		return thriftReply(thrift.REPLY, name, sequence, sent([]byte("12345")))
	})
	target.Call, target.Size = ThriftSend, 5
	conn, err := target.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i := range 6 {
		reusable, err := conn.Do(time.Now().Add(time.Minute))
		if !reusable || (err != nil) != (i%2 == 0) {
			t.Errorf("request %d: %v, %v", i, reusable, err)
		}
	}
}

// What is carried takes no memory of each request.
func TestThriftKeepsNothingOfAnAnswer(t *testing.T) {
	reply := thriftReply(thrift.REPLY, ThriftSend, 1, sent(make([]byte, 1<<20)))
	source := bytes.NewReader(reply)
	r := bufio.NewReaderSize(source, readAhead)
	allocated := testing.AllocsPerRun(10, func() {
		source.Reset(reply)
		r.Reset(source)
		if size, err := readThriftReply(r, ThriftSend, 1); size != 1<<20 || err != nil {
			t.Fatal(size, err)
		}
	})
	if allocated > 0 {
		t.Errorf("%v allocations for an answer", allocated)
	}
}

// sendResult is the result of send as the library reads it.
type sendResult struct {
	size    int
	refused bool
}

func (s *sendResult) Read(ctx context.Context, p thrift.TProtocol) error {
	s.size = -1
	if _, err := p.ReadStructBegin(ctx); err != nil {
		return err
	}
	for {
		_, kind, id, err := p.ReadFieldBegin(ctx)
		if err != nil || kind == thrift.STOP {
			return err
		}
		switch {
		case id == 0 && kind == thrift.STRING:
			var data []byte
			data, err = p.ReadBinary(ctx)
			s.size = len(data)
		default:
			s.refused = s.refused || id == 1 && kind == thrift.STRUCT
			err = p.Skip(ctx, kind)
		}
		if err != nil {
			return err
		}
	}
}

func (*sendResult) Write(context.Context, thrift.TProtocol) error { return nil }

// Whatever comes, an answer that is taken for right is one to the library, too, of
// the same length and with the same end.
func FuzzThriftReply(f *testing.F) {
	for _, seed := range [][]byte{
		thriftReply(thrift.REPLY, ThriftSend, 1, sent([]byte("abc"))),
		thriftReply(thrift.REPLY, ThriftSend, 1, empty),
		thriftReply(thrift.REPLY, ThriftSend, 1, refusedBy("no")),
		thriftReply(thrift.EXCEPTION, ThriftSend, 1, applicationException("no")),
		thriftReply(thrift.REPLY, ThriftPing, 1, empty),
		lengthened(1, -1), lengthened(1, 1<<30),
		[]byte("HTTP/1.1 200 OK\r\n\r\n"),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		sameInPieces(t, wire, uint64(len(wire)), func() (exchange, func() string) {
			return &thriftConn{want: Thrift{Call: ThriftSend, Size: 3}, sequence: 1}, func() string { return "" }
		})
		source := bytes.NewReader(wire)
		r := bufio.NewReader(source)
		size, err := readThriftReply(r, ThriftSend, 1)
		left := r.Buffered() + source.Len()
		known := (*Error)(nil)
		if err != nil && !errors.As(err, &known) {
			return
		}
		memory := &thrift.TMemoryBuffer{Buffer: bytes.NewBuffer(bytes.Clone(wire))}
		p := thrift.NewTBinaryProtocolConf(memory, nil)
		var result sendResult
		theirs := thrift.NewTStandardClient(p, p).Recv(t.Context(), p, 1, ThriftSend, &result)
		if memory.Len() != left {
			t.Errorf("%q: %d bytes are left, and %d by the library (%v)", wire, left, memory.Len(), theirs)
		}
		if err == nil && (theirs != nil || result.size != size || result.refused) {
			t.Errorf("%q: %d bytes, and by the library %+v, %v", wire, size, result, theirs)
		}
	})
}
