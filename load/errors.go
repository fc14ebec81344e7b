package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
)

// Kinds of errors that any protocol has. Protocols add their own: "status 503",
// "body", "reply ERR".
const (
	KindConnect  = "connect"  // no connection could be made
	KindTimeout  = "timeout"  // no answer in time
	KindClosed   = "closed"   // the service closed the connection before it answered
	KindProtocol = "protocol" // the answer is not of the protocol
	KindUnsent   = "unsent"   // still waiting for a connection when the time to drain was over
)

// KindStatus is that of an HTTP answer whose status is another than is wanted.
func KindStatus(status int) string { return fmt.Sprintf("status %d", status) }

// Error is a request that was not answered rightly.
type Error struct {
	Kind string // what it is counted under
	Err  error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return e.Kind
	}
	return e.Kind + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// kindOf is the kind that an error is counted under.
func kindOf(err error) string {
	var known *Error
	var timeout net.Error
	switch {
	case errors.As(err, &known):
		return known.Kind
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return KindTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return KindClosed
	default:
		return KindProtocol
	}
}
