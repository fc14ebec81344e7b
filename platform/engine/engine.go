// Package engine has what all programs share that a container engine runs:
// requests with a time limit, and the program's end, counters and output.
//
// It knows no engine: what one is asked, and how, is the platform's of that name.
package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"tare/platform"
)

// Requests bound what an engine is asked, each by its own time limit.
type Requests struct {
	// Patience bounds every single request. A cold create and start takes well
	// under a second; an engine under memory pressure may take many.
	Patience time.Duration
	// Brief is the patience before an engine has answered once, and in a removal for
	// one that did not answer when it was last asked. It looks a container up in
	// milliseconds, and a hundred removals that each wait a minute take hours.
	Brief time.Duration
	Lost  atomic.Bool // the engine did not answer when it was last asked

	Ping    func(context.Context) error         // the quickest request
	Engine  func() string                       // "the engine at unix:///var/run/docker.sock"
	Explain func(doing string, err error) error // says in one line what went wrong
}

// The usual limits.
const (
	UsualPatience = 60 * time.Second
	UsualBrief    = 5 * time.Second
)

// TransferLimit bounds the transfer of one image by an engine that still answers.
const TransferLimit = 15 * time.Minute

// Call does one request under the patience. An engine that does not answer in
// that time counts as gone; the caller's own cancellation does not.
func (r *Requests) Call(ctx context.Context, doing string, request func(context.Context) error) error {
	return r.within(ctx, r.Patience, doing, request)
}

// Introduce is Call for what is asked before anything depends on the engine.
func (r *Requests) Introduce(ctx context.Context, doing string, request func(context.Context) error) error {
	return r.within(ctx, r.First(), doing, request)
}

// First is the patience of the first questions.
func (r *Requests) First() time.Duration { return min(r.Brief, r.Patience) }

// Look is Call for the quick request that a removal begins with: whether the
// engine is there again, and what it has.
func (r *Requests) Look(ctx context.Context, doing string, request func(context.Context) error) error {
	return r.within(ctx, r.forRemoval(), doing, request)
}

func (r *Requests) forRemoval() time.Duration {
	if r.Lost.Load() {
		return r.First()
	}
	return r.Patience
}

func (r *Requests) within(
	ctx context.Context,
	limit time.Duration,
	doing string,
	request func(context.Context) error,
) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := request(bounded)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx)) // which says nothing about the engine
	case bounded.Err() != nil:
		err = fmt.Errorf("%s: %s has not answered for %s: %w", doing, r.Engine(), limit, platform.ErrGone)
	default:
		err = r.Explain(doing, err)
	}
	r.Lost.Store(errors.Is(err, platform.ErrGone))
	return err
}

// Transfer does a request that may rightly take minutes, and gives it up when
// the engine stops answering others meanwhile.
func (r *Requests) Transfer(ctx context.Context, doing string, request func(context.Context) error) error {
	watched, stop := r.Watch(ctx)
	defer stop()
	err := request(watched)
	if err == nil {
		return nil
	}
	if cause := context.Cause(watched); cause != nil {
		return fmt.Errorf("%s: %w", doing, cause)
	}
	return r.Explain(doing, err)
}

// Watch gives a context that ends when the engine stops answering. stop must be called.
func (r *Requests) Watch(parent context.Context) (ctx context.Context, stop func()) {
	bounded, cancelBound := context.WithTimeoutCause(parent, TransferLimit,
		fmt.Errorf("%s has taken more than %s: %w", r.Engine(), TransferLimit, platform.ErrGone))
	ctx, cancel := context.WithCancelCause(bounded)
	go func() {
		pulse := time.NewTicker(max(r.Patience/12, time.Millisecond))
		defer pulse.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-pulse.C:
			}
			if err := r.Ping(ctx); errors.Is(err, platform.ErrGone) {
				cancel(err)
				return
			}
		}
	}()
	return ctx, func() { cancel(nil); cancelBound() }
}

// Error is a request that an engine refused, in one line.
type Error struct {
	Doing   string // "create container tare-redis"
	Message string // the engine's, or what it means
	Err     error  // the client's, so that errdefs can class it; may be nil
}

func (e *Error) Error() string { return e.Doing + ": " + e.Message }

func (e *Error) Unwrap() error { return e.Err }

// NewMark makes the label by which a thing of ours is distinguished from one
// that took its name.
func NewMark() string {
	var b [8]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b[:])
}
