package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"tare/platform"
)

// call does one request under the platform's patience. An engine that does not
// answer in that time counts as gone; the caller's own cancellation does not.
func (p *Platform) call(ctx context.Context, doing string, request func(context.Context) error) error {
	return p.within(ctx, p.patience, doing, request)
}

// look is call for the quick request that a removal begins with: whether the
// engine is there again, and what it has.
func (p *Platform) look(ctx context.Context, doing string, request func(context.Context) error) error {
	return p.within(ctx, p.removalPatience(), doing, request)
}

func (p *Platform) removalPatience() time.Duration {
	if p.lost.Load() {
		return min(p.brief, p.patience)
	}
	return p.patience
}

func (p *Platform) within(ctx context.Context, patience time.Duration, doing string, request func(context.Context) error) error {
	if p.clientErr != nil {
		return p.clientErr
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := request(bounded)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx)) // which tells nothing of the engine
	case bounded.Err() != nil:
		err = fmt.Errorf("%s: the engine at %s has not answered for %s: %w", doing, p.client.DaemonHost(), patience, platform.ErrGone)
	default:
		err = p.explain(doing, err)
	}
	p.lost.Store(errors.Is(err, platform.ErrGone))
	return err
}

// explain says in one line what went wrong and, where it is known, what mends
// it. What the engine's own classes of error mean is kept for errdefs.
func (p *Platform) explain(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case broken(err):
		return fmt.Errorf("%s: the engine at %s went away (%s): %w", doing, p.client.DaemonHost(), oneLine(err), platform.ErrGone)
	case strings.Contains(err.Error(), "no space left on device"):
		where := ""
		p.mu.Lock()
		if p.info != nil && p.info.DockerRootDir != "" {
			where = " (" + p.info.DockerRootDir + ")"
		}
		p.mu.Unlock()
		return &EngineError{Doing: doing, Message: "the engine's disk" + where + " is full; free some, such as by docker image prune", err: err}
	}
	return &EngineError{Doing: doing, Message: oneLine(err), err: err}
}

// EngineError is a request that the engine refused, in one line.
type EngineError struct {
	Doing   string // "create container tare-redis"
	Message string // the engine's, or what it means
	err     error
}

func (e *EngineError) Error() string { return e.Doing + ": " + e.Message }

// Unwrap gives the client's error, so that errdefs can class it.
func (e *EngineError) Unwrap() error { return e.err }

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
