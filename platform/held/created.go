package held

import (
	"context"
	"errors"
	"fmt"

	"tare/platform"
)

// Steps are what a platform does with a container that it has made, each
// without a thought of the others: [NewCreated] sees to it that they come in
// their order, one at a time.
type Steps struct {
	// ID is [platform.Created.ID].
	ID string
	// Start is called once, and never after Clear.
	Start func(context.Context) error
	// Hold is called once, after a Start that succeeded. What it took hold of
	// before it failed is Clear's to let go.
	Hold func(context.Context) (platform.Instance, error)
	// Clear ends and removes whatever there is, in whatever state Start and Hold
	// have left it. It is not called where Hold has given an instance, and is
	// called again by every further Stop.
	Clear func(context.Context) error
}

// stage is how far a container has come.
type stage int

const (
	atRest  stage = iota
	started       // and not yet taken hold of
	held          // an instance stands for it
	failed        // only Stop may follow
	stopped
)

type created struct {
	steps Steps
	turn  chan struct{} // taken by whoever is at one of the steps

	stage    stage
	instance platform.Instance // of stage held
}

// NewCreated gives a container at rest. A stop that meets a start under way
// waits for its end, which the start's own context can hasten: an engine or a
// runtime goes on with what it was asked for, and would make after we had looked.
func NewCreated(s Steps) platform.Created {
	return &created{steps: s, turn: make(chan struct{}, 1)}
}

func (c *created) ID() string { return c.steps.ID }

// enter takes the turn; leave gives it back. A turn that is free is taken even
// where the time is over: a stop then still ends the program, and what else
// there is to do is the steps' to refuse.
func (c *created) enter(ctx context.Context, doing string) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s %s: %w", doing, c.steps.ID, context.Cause(ctx))
	}
}

func (c *created) leave() { <-c.turn }

func (c *created) Start(ctx context.Context) error {
	if err := c.enter(ctx, "start"); err != nil {
		return err
	}
	defer c.leave()
	switch c.stage {
	case atRest:
	case stopped:
		return fmt.Errorf("start %s: it has been stopped, and nothing of it is left: create it anew", c.steps.ID)
	default:
		return fmt.Errorf("start %s: it has been started already, which is done once", c.steps.ID)
	}
	c.stage = failed
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("start %s: %w", c.steps.ID, context.Cause(ctx))
	}
	if err := c.steps.Start(ctx); err != nil {
		return err
	}
	c.stage = started
	return nil
}

func (c *created) Instance(ctx context.Context) (platform.Instance, error) {
	if err := c.enter(ctx, "take hold of"); err != nil {
		return nil, err
	}
	defer c.leave()
	switch c.stage {
	case held:
		return c.instance, nil
	case started:
	case atRest:
		return nil, fmt.Errorf("take hold of %s: it has not been started", c.steps.ID)
	case failed:
		return nil, fmt.Errorf("take hold of %s: it has failed, and can only be stopped", c.steps.ID)
	default:
		return nil, fmt.Errorf("take hold of %s: it has been stopped: %w", c.steps.ID, platform.ErrGone)
	}
	inst, err := c.steps.Hold(ctx)
	if err != nil {
		c.stage = failed
		return nil, err
	}
	c.stage, c.instance = held, inst
	return inst, nil
}

func (c *created) Stop(ctx context.Context) error {
	if err := c.enter(ctx, "stop"); err != nil {
		return err
	}
	defer c.leave()
	if c.stage == held {
		return c.instance.Stop(ctx)
	}
	c.stage = stopped
	return c.steps.Clear(ctx)
}

// Launch is a platform's own Launch, where it is one that creates: all steps in
// one. When it returns an error nothing is left, or the error says what is.
func Launch(ctx context.Context, p platform.Creator, spec platform.Spec) (platform.Instance, error) {
	c, err := p.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	var inst platform.Instance
	if err = c.Start(ctx); err == nil {
		inst, err = c.Instance(ctx)
	}
	if err != nil {
		// The caller's context may be what ended the launch; removal has its own time.
		return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return inst, nil
}
