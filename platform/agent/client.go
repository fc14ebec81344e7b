package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"tare/platform"
)

// Client is the calling end of a stream.
type Client struct {
	hello Hello
	done  chan struct{}
}

// Connect shakes hands with the agent at the other end. The client closes conn.
func Connect(ctx context.Context, conn io.ReadWriteCloser, version string) (*Client, error) {
	return nil, errors.ErrUnsupported
}

// Hello is what the agent said of itself.
func (c *Client) Hello() Hello { return c.hello }

// Clock compares the clocks.
func (c *Client) Clock(ctx context.Context) (Clock, error) { return Clock{}, errors.ErrUnsupported }

// RoundTrips times n empty calls, one after another.
func (c *Client) RoundTrips(ctx context.Context, n int) ([]time.Duration, error) {
	return nil, errors.ErrUnsupported
}

// Platform gives one of the agent's platforms.
func (c *Client) Platform(name string) platform.Platform { return nil }

// Has reports whether the agent has the image.
func (c *Client) Has(ctx context.Context, digest string) (bool, error) {
	return false, errors.ErrUnsupported
}

// Attach tells the agent that the image lies on a block device of its host.
func (c *Client) Attach(ctx context.Context, digest, device string) error {
	return errors.ErrUnsupported
}

// Dial connects to a port of the agent's host.
func (c *Client) Dial(ctx context.Context, port int) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}

// PowerOff ends the agent's machine.
func (c *Client) PowerOff(ctx context.Context) error { return errors.ErrUnsupported }

// Done is closed when the stream has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// Close ends the stream, and with it whatever of this client runs.
func (c *Client) Close() error { return nil }
