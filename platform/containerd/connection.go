package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"

	"tare/platform"
	"tare/platform/engine"
)

// namespace is where in containerd everything of ours lies.
const namespace = "tare"

// usual are the sockets that containerd has by itself, below dockerd, and in k3s.
var usual = []string{
	"/run/containerd/containerd.sock",
	"/var/run/docker/containerd/containerd.sock",
	"/run/k3s/containerd/containerd.sock",
}

// addressVariable names containerd's socket for all of containerd's clients.
const addressVariable = "CONTAINERD_ADDRESS"

// connect finds the containerd that answers, once. The error is a
// *platform.Missing, or the caller's own cancellation.
func (p *Platform) connect(ctx context.Context) error {
	p.connecting.Lock()
	defer p.connecting.Unlock()
	p.mu.Lock()
	known := p.client != nil
	p.mu.Unlock()
	if known {
		return nil
	}
	addresses, mend := p.candidates()
	var tried []string
	for _, address := range addresses {
		c, err := p.try(ctx, address)
		if err == nil {
			p.mu.Lock()
			p.client, p.address = c, address
			p.mu.Unlock()
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("connect to containerd at %s: %w", address, context.Cause(ctx))
		}
		if errors.Is(err, syscall.ENOENT) && len(addresses) > 1 {
			continue
		}
		tried = append(tried, fmt.Sprintf("%s (%s)", address, oneLine(err)))
	}
	if len(tried) == 0 {
		tried = addresses
	}
	return &platform.Missing{What: "no containerd answers at " + strings.Join(tried, ", "), Mend: mend}
}

// candidates are the addresses to try, and what to do where none answers.
func (p *Platform) candidates() (addresses []string, mend string) {
	const start = "start it (systemctl start containerd, or containerd &)"
	named := p.options.Address
	if named == "" {
		named = os.Getenv(addressVariable)
	}
	if named != "" {
		return []string{strings.TrimPrefix(named, "unix://")}, start + ", or set " + addressVariable + " to the socket of one that runs"
	}
	return usual, "install it (apt-get install containerd) and " + start
}

// try asks the containerd at the address for its version.
func (p *Platform) try(ctx context.Context, address string) (*client.Client, error) {
	// Looked at first: the client would only say that there is no connection.
	if err := reachable(ctx, address); err != nil {
		return nil, err
	}
	c, err := client.New(address)
	if err != nil {
		return nil, err
	}
	patience := p.requests.First()
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err = c.Version(bounded); err != nil {
		if bounded.Err() != nil {
			err = fmt.Errorf("silent for %s", patience)
		}
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func reachable(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", address)
	if err != nil {
		var call *os.SyscallError
		if errors.As(err, &call) {
			return call.Err // without the address, which the caller names
		}
		return err
	}
	return conn.Close()
}

// call does one request in our namespace, under the platform's patience.
func (p *Platform) call(ctx context.Context, doing string, request func(context.Context, *client.Client) error) error {
	return p.within(ctx, p.requests.Call, doing, request)
}

// Call does one request in the platform's namespace, and gives errors in one line.
func (p *Platform) Call(ctx context.Context, doing string, request func(context.Context, *client.Client) error) error {
	return p.call(ctx, doing, request)
}

// Requests are how containerd is asked.
func (p *Platform) Requests() *engine.Requests { return &p.requests }

// look is call for the quick request that a removal begins with.
func (p *Platform) look(ctx context.Context, doing string, request func(context.Context, *client.Client) error) error {
	return p.within(ctx, p.requests.Look, doing, request)
}

// transfer is call for what may rightly take minutes.
func (p *Platform) transfer(
	ctx context.Context,
	doing string,
	request func(context.Context, *client.Client) error,
) error {
	return p.within(ctx, p.requests.Transfer, doing, request)
}

func (p *Platform) within(ctx context.Context, ask func(context.Context, string, func(context.Context) error) error,
	doing string, request func(context.Context, *client.Client) error) error {
	if err := p.connect(ctx); err != nil {
		return err
	}
	return ask(
		namespaces.WithNamespace(ctx, p.namespace),
		doing,
		func(ctx context.Context) error { return request(ctx, p.client) },
	)
}

// ping asks whether containerd answers.
func (p *Platform) ping(ctx context.Context) error {
	return p.call(ctx, "ask containerd for its version", func(ctx context.Context, c *client.Client) error {
		_, err := c.Version(ctx)
		return err
	})
}

// named names the containerd in messages.
func (p *Platform) named() string { return "containerd at " + p.address }

// explain says in one line what went wrong and, where it is known, what mends
// it. What containerd's own classes of error mean is kept for errdefs.
func (p *Platform) explain(doing string, err error) error {
	var missing *platform.Missing
	var unsupported *platform.Unsupported
	switch {
	case err == nil, errors.As(err, &missing), errors.As(err, &unsupported):
		return err
	case broken(err):
		return fmt.Errorf("%s: %s went away (%s): %w", doing, p.named(), oneLine(err), platform.ErrGone)
	case strings.Contains(err.Error(), "no space left on device"):
		return &engine.Error{Doing: doing, Message: "containerd's disk is full; free some of what containerd config dump names as root", Err: err}
	}
	return &engine.Error{Doing: doing, Message: oneLine(err), Err: err}
}

// broken tells a connection that broke from an answer that is a refusal.
func broken(err error) bool {
	return errdefs.IsUnavailable(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed)
}

// gone reports whether containerd says that the thing does not exist.
func gone(err error) bool { return errdefs.IsNotFound(err) }

// oneLine is the message without line breaks.
func oneLine(err error) string {
	if message := strings.Join(strings.Fields(err.Error()), " "); message != "" {
		return message
	}
	return "it gives no reason"
}
