// Package held keeps what an instance holds of the host, each thing entered in
// the ledger before it is made, with the way to release it written beside the
// way to make it. It is how a launch that fails at any step, and a stop,
// leave nothing. It also keeps the order of an instance's life, from the
// container at rest over its start to its stop, for every platform that creates.
//
// It makes nothing itself: what a thing is, and how it comes and goes, is the
// platform's.
package held

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"tare/platform"
)

// Things are what is held, in the order in which they were taken. Its methods
// may be called from several goroutines.
type Things struct {
	ledger platform.Ledger

	mu    sync.Mutex
	stack []thing
}

type thing struct {
	entry   platform.Entry
	release func(context.Context) error
	done    func()
}

// New holds nothing yet. A nil ledger enters things nowhere.
func New(ledger platform.Ledger) *Things { return &Things{ledger: ledger} }

// Take enters the thing, makes it, and keeps how to release it. release must
// succeed on a thing that is half made or gone; where making fails it is
// called at once.
func (t *Things) Take(
	ctx context.Context,
	e platform.Entry,
	acquire func() error,
	release func(context.Context) error,
) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	done := func() {}
	if t.ledger != nil {
		var err error
		if done, err = t.ledger.Add(e); err != nil {
			return fmt.Errorf("entering the %s %s in the ledger: %w", e.Kind, e.ID, err)
		}
	}
	one := thing{e, release, done}
	if err := acquire(); err != nil {
		if releasing := one.drop(context.WithoutCancel(ctx)); releasing != nil {
			t.push(one) // to be tried again by Drop
			err = errors.Join(err, releasing)
		}
		return err
	}
	t.push(one)
	return nil
}

func (t *Things) push(one thing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stack = append(t.stack, one)
}

// drop releases the thing and crosses it out; one that could not be released
// stays in the ledger.
func (o thing) drop(ctx context.Context) error {
	if err := o.release(ctx); err != nil {
		return fmt.Errorf("releasing the %s %s: %w", o.entry.Kind, o.entry.ID, err)
	}
	o.done()
	return nil
}

// Drop releases everything, what was taken last first. A thing that cannot be
// released does not keep the others; a further call tries it again.
func (t *Things) Drop(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var kept []thing
	var errs []error
	for i := len(t.stack) - 1; i >= 0; i-- {
		if err := t.stack[i].drop(ctx); err != nil {
			errs = append(errs, err)
			kept = append([]thing{t.stack[i]}, kept...)
		}
	}
	t.stack = kept
	return errors.Join(errs...)
}
