package load

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Frames of the protocol, by sections 2 to 4 of its specification.
const (
	cqlHeader      = 9
	cqlRequest     = 0x04 // the version
	cqlResponse    = 0x84
	cqlFrameLimit  = 16 << 20 // of an answer; the protocol has 256 MiB
	cqlStreams     = 1<<15 - 1
	cqlConsistency = 1 // ONE
	cqlWithValues  = 1 << 0
	cqlNoMetadata  = 1 << 1

	opError    = 0x00
	opStartup  = 0x01
	opReady    = 0x02
	opQuery    = 0x07
	opResult   = 0x08
	opPrepare  = 0x09
	opExecute  = 0x0a
	flagWarned = 1 << 3
)

// Kinds of results, and the flags of what describes their rows.
const (
	resultVoid     = 1
	resultRows     = 2
	resultKeyspace = 3
	resultPrepared = 4
	resultSchema   = 5

	rowsOfOneTable = 1 << 0
	rowsPaged      = 1 << 1
	rowsBare       = 1 << 2
)

var errCQL = errors.New("cql: an answer that is cut off, or not of the protocol")

// appendFrame begins a frame; finishFrame completes it once its body is there.
func appendFrame(b []byte, op byte) []byte {
	return append(b, cqlRequest, 0, 0, 0, op, 0, 0, 0, 0)
}

func finishFrame(frame []byte, stream int16) {
	binary.BigEndian.PutUint16(frame[2:], uint16(stream))
	binary.BigEndian.PutUint32(frame[5:], uint32(len(frame)-cqlHeader))
}

func appendStartup(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(appendFrame(b, opStartup), 1) // options
	return appendString(appendString(b, "CQL_VERSION"), "3.0.0")
}

func appendQuery(b []byte, statement string) []byte {
	b = appendLong(appendFrame(b, opQuery), statement)
	return append(binary.BigEndian.AppendUint16(b, cqlConsistency), 0)
}

func appendPrepare(b []byte, statement string) []byte {
	return appendLong(appendFrame(b, opPrepare), statement)
}

// appendExecute asks that the answer's columns are not described once more.
func appendExecute(b, prepared []byte, values []string) []byte {
	b = appendString(appendFrame(b, opExecute), string(prepared))
	b = append(binary.BigEndian.AppendUint16(b, cqlConsistency), cqlWithValues|cqlNoMetadata)
	b = binary.BigEndian.AppendUint16(b, uint16(len(values)))
	for _, v := range values {
		b = appendLong(b, v)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func appendLong(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

// frameHeader is as much of a frame's head as its reader needs.
type frameHeader struct {
	flags  byte
	stream int16
	op     byte
}

func readFrame(r io.Reader) (head frameHeader, body []byte, err error) {
	var raw [cqlHeader]byte
	if _, err := io.ReadFull(r, raw[:]); err != nil {
		return head, nil, err
	}
	if raw[0] != cqlResponse {
		return head, nil, fmt.Errorf("cql: an answer of version %#x, want %#x", raw[0], cqlResponse)
	}
	head = frameHeader{flags: raw[1], stream: int16(binary.BigEndian.Uint16(raw[2:])), op: raw[4]}
	size := binary.BigEndian.Uint32(raw[5:])
	if size > cqlFrameLimit {
		return head, nil, fmt.Errorf("cql: an answer of %d bytes, want at most %d", size, cqlFrameLimit)
	}
	// What is not there is not made room for.
	if body, err = io.ReadAll(io.LimitReader(r, int64(size))); err != nil {
		return head, nil, err
	}
	if len(body) < int(size) {
		return head, nil, io.ErrUnexpectedEOF
	}
	return head, body, nil
}

// cqlAnswer is what a request was answered.
type cqlAnswer struct {
	rows     []CQLRow
	prepared []byte // the id of a statement that was prepared
}

func parseAnswer(head frameHeader, body []byte) (cqlAnswer, error) {
	if head.flags&^flagWarned != 0 {
		return cqlAnswer{}, fmt.Errorf("cql: an answer with flags %#x, which nobody asked for", head.flags)
	}
	c := &cqlCursor{rest: body}
	if head.flags&flagWarned != 0 {
		for n := c.short(); n > 0 && !c.failed; n-- {
			c.take(c.short())
		}
	}
	var answer cqlAnswer
	switch head.op {
	case opError:
		refused := &CQLError{Code: int32(c.long()), Message: string(c.take(c.short()))}
		if c.failed {
			return cqlAnswer{}, errCQL
		}
		return cqlAnswer{}, refused
	case opReady:
	case opResult:
		answer = c.result()
	default:
		return cqlAnswer{}, fmt.Errorf("cql: an answer of kind %#x: a service that asks who one is cannot be used", head.op)
	}
	if c.failed {
		return cqlAnswer{}, errCQL
	}
	return answer, nil
}

// cqlCursor reads what a body is made of. Once something is not there all that
// follows is nothing.
type cqlCursor struct {
	rest   []byte
	failed bool
}

func (c *cqlCursor) take(n int) []byte {
	if c.failed || n < 0 || n > len(c.rest) {
		c.failed, c.rest = true, nil
		return nil
	}
	taken := c.rest[:n:n]
	c.rest = c.rest[n:]
	return taken
}

func (c *cqlCursor) short() int {
	if b := c.take(2); b != nil {
		return int(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (c *cqlCursor) long() int {
	if b := c.take(4); b != nil {
		return int(int32(binary.BigEndian.Uint32(b)))
	}
	return 0
}

// value is bytes behind their length, or null.
func (c *cqlCursor) value() []byte {
	n := c.long()
	if n < 0 {
		return nil
	}
	return c.take(n)
}

func (c *cqlCursor) result() (a cqlAnswer) {
	switch c.long() {
	case resultVoid, resultKeyspace, resultSchema: // what follows tells nothing new
	case resultPrepared:
		a.prepared = c.take(c.short())
	case resultRows:
		columns := c.describedColumns()
		count := c.long()
		// Each value takes four bytes at the least, so that no count is believed that
		// the answer has no room for.
		if c.failed || columns < 1 || count < 0 || count > len(c.rest)/(4*columns) {
			c.failed = true
			return a
		}
		a.rows = make([]CQLRow, count)
		for i := range a.rows {
			a.rows[i] = make(CQLRow, columns)
			for k := range a.rows[i] {
				a.rows[i][k] = c.value()
			}
		}
	default:
		c.failed = true
	}
	return a
}

// describedColumns passes over what describes the rows, and gives how many columns
// these have.
func (c *cqlCursor) describedColumns() int {
	flags, columns := c.long(), c.long()
	if flags&rowsPaged != 0 {
		c.value()
	}
	if flags&rowsBare != 0 {
		return columns
	}
	if flags&rowsOfOneTable != 0 {
		c.take(c.short()) // keyspace
		c.take(c.short()) // table
	}
	for n := columns; n > 0 && !c.failed; n-- {
		if flags&rowsOfOneTable == 0 {
			c.take(c.short())
			c.take(c.short())
		}
		c.take(c.short()) // name
		// A type that has others within would be described further.
		const plain = 0x15
		if kind := c.short(); kind < 1 || kind > plain {
			c.failed = true
		}
	}
	return columns
}
