package load

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/apache/thrift/lib/go/thrift"
)

// thriftVersion is the upper half of a message's first word, in the protocol's
// strict form; the lower byte is the message's type.
const thriftVersion = 0x8001

// readThriftReply reads the answer to a call of service.thrift, and gives the size
// of what it carries. It keeps nothing of that: what is read is discarded where it
// lies. An error that is no *Error leaves the stream at an unknown place.
func readThriftReply(r input, call string, sequence uint32) (size int, err error) {
	kind, err := readThriftHeader(r, call, sequence)
	if err != nil {
		return 0, err
	}
	switch kind {
	case thrift.REPLY:
		return readThriftResult(r, call)
	case thrift.EXCEPTION:
		return 0, readThriftException(r)
	default:
		return 0, fmt.Errorf("thrift: a message of type %d, where an answer was due", kind)
	}
}

// readThriftHeader reads what precedes each message.
func readThriftHeader(r input, call string, sequence uint32) (kind thrift.TMessageType, err error) {
	head, err := r.Peek(8)
	if err != nil {
		return 0, cutOff(err, len(head))
	}
	first, length := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
	if first>>16 != thriftVersion {
		return 0, fmt.Errorf("thrift: a message that begins with %08x, want the binary protocol's version, 8001", first)
	}
	if length != uint32(len(call)) {
		return 0, fmt.Errorf("thrift: an answer to a call whose name has %d bytes, want one to %q", length, call)
	}
	head, err = r.Peek(12 + len(call))
	if err != nil {
		return 0, cutOff(err, len(head))
	}
	name, got := head[8:8+len(call)], binary.BigEndian.Uint32(head[8+len(call):])
	if string(name) != call || got != sequence {
		return 0, fmt.Errorf("thrift: an answer to call %d, %q: want %d, %q", got, bytes.Clone(name), sequence, call)
	}
	_, err = r.Discard(len(head))
	return thrift.TMessageType(first & 0xff), err
}

// readThriftResult reads a result: a struct whose field 0 is what the call gives,
// and whose others are the exceptions that it may throw.
func readThriftResult(r input, call string) (size int, err error) {
	var thrown error
	given := false
	for fields := 0; ; fields++ {
		kind, err := r.ReadByte()
		if err != nil {
			return 0, cutOff(err, 1)
		}
		if kind == thrift.STOP {
			break
		}
		head, err := r.Peek(2)
		if err != nil {
			return 0, cutOff(err, 1)
		}
		id := binary.BigEndian.Uint16(head)
		_, _ = r.Discard(2) // it was seen
		switch {
		case fields > 0:
			return 0, fmt.Errorf("thrift: a result of %s with more than one field", call)
		case call == ThriftSend && id == 0 && kind == thrift.STRING:
			given = true
			if size, err = skipThriftBytes(r); err != nil {
				return 0, err
			}
		case call == ThriftSend && id == 1 && kind == thrift.STRUCT:
			thrown = readThriftException(r)
			if known := (*Error)(nil); !errors.As(thrown, &known) {
				return 0, thrown
			}
		default:
			return 0, fmt.Errorf("thrift: a result of %s with a field %d of type %d, which it does not have", call, id, kind)
		}
	}
	if call == ThriftSend && !given && thrown == nil {
		return 0, &Error{Kind: KindException, Err: errors.New("the result holds nothing")}
	}
	return size, thrown
}

// skipThriftBytes reads past bytes that their length precedes.
func skipThriftBytes(r input) (int, error) {
	head, err := r.Peek(4)
	if err != nil {
		return 0, cutOff(err, 1)
	}
	length := int32(binary.BigEndian.Uint32(head))
	_, _ = r.Discard(4) // it was seen
	if length < 0 || length > MostThriftBytes {
		return 0, fmt.Errorf("thrift: %d bytes in an answer, want 0 to %d", length, MostThriftBytes)
	}
	n, err := r.Discard(int(length))
	if err != nil {
		return 0, fmt.Errorf("thrift: after %d of %d bytes of an answer: %w", n, length, cutOff(err, 1))
	}
	return n, nil
}

// readThriftException reads the reason from an exception: the library's own, and
// service.thrift's, which has its text in the same field.
func readThriftException(r input) error {
	exception := thrift.NewTApplicationException(thrift.UNKNOWN_APPLICATION_EXCEPTION, "")
	config := &thrift.TConfiguration{MaxMessageSize: maxKeptBody}
	p := thrift.NewTBinaryProtocolConf(thriftInput{input: r}, config)
	if err := exception.Read(context.Background(), p); err != nil {
		return fmt.Errorf("thrift: an exception: %w", err)
	}
	text := exception.Error()
	return &Error{Kind: KindException, Err: errors.New(text[:min(len(text), 500)])}
}

// thriftInput is an input as the library reads it. The library's own transport would read
// ahead, past the exception's end.
type thriftInput struct {
	thrift.TTransport // for what is not called in reading
	input
}

func (t thriftInput) Read(p []byte) (int, error)               { return t.input.Read(p) }
func (t thriftInput) RemainingBytes() uint64                   { return math.MaxUint64 } // unknown
func (t thriftInput) SetTConfiguration(*thrift.TConfiguration) {}

// cutOff makes an end of the stream in the midst of an answer an unexpected one.
func cutOff(err error, read int) error {
	if err == io.EOF && read > 0 {
		return io.ErrUnexpectedEOF
	}
	return err
}
