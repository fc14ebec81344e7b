package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"tare/platform"
	"tare/platform/engine"
)

// call does one request under the engine's patience.
func (p *Platform) call(ctx context.Context, doing string, request func(context.Context) error) error {
	if p.clientErr != nil {
		return p.clientErr
	}
	return p.requests.Call(ctx, doing, request)
}

// introduce is call for what is asked before anything depends on the engine.
func (p *Platform) introduce(ctx context.Context, doing string, request func(context.Context) error) error {
	if p.clientErr != nil {
		return p.clientErr
	}
	return p.requests.Introduce(ctx, doing, request)
}

// look is call for the quick request that a removal begins with.
func (p *Platform) look(ctx context.Context, doing string, request func(context.Context) error) error {
	if p.clientErr != nil {
		return p.clientErr
	}
	return p.requests.Look(ctx, doing, request)
}

// ping asks whether the engine answers.
func (p *Platform) ping(ctx context.Context) error {
	return p.call(ctx, "ping", func(ctx context.Context) error {
		_, err := p.client.Ping(ctx, client.PingOptions{})
		return err
	})
}

// address names the engine in messages.
func (p *Platform) address() string { return "the engine at " + p.client.DaemonHost() }

// explain says in one line what went wrong and, where it is known, what mends
// it. What the engine's own classes of error mean is kept for errdefs.
func (p *Platform) explain(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case broken(err):
		return fmt.Errorf("%s: %s went away (%s): %w", doing, p.address(), oneLine(err), platform.ErrGone)
	case strings.Contains(err.Error(), "no space left on device"):
		where := ""
		p.mu.Lock()
		if p.info != nil && p.info.DockerRootDir != "" {
			where = " (" + p.info.DockerRootDir + ")"
		}
		p.mu.Unlock()
		return &engine.Error{Doing: doing, Message: "the engine's disk" + where + " is full; free some, such as by docker image prune", Err: err}
	case p.name == NameRootless && strings.Contains(err.Error(), "unable to start unit") &&
		strings.Contains(err.Error(), "Permission denied"):
		// Without a bus of the user's, the runtime asks the system's systemd, which refuses.
		return &engine.Error{Doing: doing, Message: "the engine's user has no message bus, through which systemd makes control groups: " +
			"apt-get install dbus-user-session, and as that user: systemctl --user start dbus.socket", Err: err}
	}
	return &engine.Error{Doing: doing, Message: oneLine(err), Err: err}
}

// broken tells a connection that broke from an answer that is a refusal.
func broken(err error) bool {
	if client.IsErrConnectionFailed(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNREFUSED) ||
		errors.Is(err, net.ErrClosed) {
		return true
	}
	var netErr net.Error
	return errors.As(err, &netErr)
}

// gone reports whether the engine says that the thing does not exist.
func gone(err error) bool { return errdefs.IsNotFound(err) }

// oneLine is the message without the client's preamble and line breaks.
func oneLine(err error) string {
	message := strings.TrimPrefix(err.Error(), "Error response from daemon: ")
	if message = strings.Join(strings.Fields(message), " "); message == "" {
		return "the engine gives no reason"
	}
	return message
}
