package agent

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"tare/platform"
)

// What is asked and answered of boxes.
type (
	boxSpec struct {
		// ID is the client's choice, so that it can undo what it has given up.
		ID  string           `json:"id"`
		Box platform.BoxSpec `json:"box"`
	}
	boxGroups struct {
		Groups map[platform.Class]string `json:"groups"`
	}
	boxed struct {
		ID string `json:"id"`
	}
	// A reading may come with an error, which is then of what it says.
	boxReading struct {
		Reading platform.BoxReading `json:"reading"`
		Error   *wireError          `json:"error,omitempty"`
	}
)

// Box makes a box on the agent's host. It is removed at the latest when the stream ends.
func (c *Client) Box(ctx context.Context, spec platform.BoxSpec) (platform.Box, error) {
	b := &box{client: c, id: strconv.FormatInt(c.serial.Add(1), 10), name: spec.Name}
	made, err := call[boxGroups](ctx, c, "make-box", boxSpec{b.id, spec})
	if err = givenUp(ctx, c, err); err != nil {
		undoing, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoBound)
		defer cancel()
		undone := b.Remove(undoing)
		if errors.Is(undone, platform.ErrGone) {
			undone = nil // the agent removes what its client has left
		}
		return nil, errors.Join(err, undone)
	}
	b.groups = made.Groups
	return b, nil
}

// box is one on the agent's host.
type box struct {
	client   *Client
	id, name string
	groups   map[platform.Class]string
}

var _ platform.Box = (*box)(nil)

func (b *box) Group(c platform.Class) string { return b.groups[c] }

func (b *box) Read(ctx context.Context) (platform.BoxReading, error) {
	r, err := call[boxReading](ctx, b.client, "read-box", boxed{b.id})
	if err != nil {
		return platform.BoxReading{}, fmt.Errorf("reading box %s: %w", b.name, err)
	}
	return r.Reading, r.Error.decode()
}

func (b *box) Remove(ctx context.Context) error {
	_, err := call[nothing](ctx, b.client, "remove-box", boxed{b.id})
	return err
}

// Box implements [platform.Boxing]: the programs' kernel is the agent's.
func (r *remote) Box(ctx context.Context, spec platform.BoxSpec) (platform.Box, error) {
	return r.client.Box(ctx, spec)
}

// Groups implements [platform.Grouping].
func (r *remote) Groups(ctx context.Context) error {
	_, err := call[nothing](ctx, r.client, "groups", named{r.name})
	return err
}

func (v *visit) groups(ctx context.Context, n named) (nothing, error) {
	p, err := v.server.platform(n.Platform)
	if err != nil {
		return nothing{}, err
	}
	if g, ok := p.(platform.Grouping); ok {
		return nothing{}, g.Groups(ctx)
	}
	return nothing{}, nil
}

// mostBoxes bounds what a client may have at a time, those included that were removed.
const mostBoxes = 10_000

// crate is one box of a client's, from before its making to after its removal: a client
// that gives a making up asks for the removal while that goes on, or before it has
// begun.
type crate struct {
	turn    chan struct{} // taken by who makes, reads or removes
	box     platform.Box  // guarded by turn; nil before it is made
	removed bool          // guarded by turn
}

// crate gives the client's box of that id, whether it is made yet or not, for its caller
// alone.
func (v *visit) crate(ctx context.Context, id string) (*crate, error) {
	v.mu.Lock()
	if v.boxes == nil {
		v.boxes = map[string]*crate{}
	}
	c, ok := v.boxes[id]
	if !ok && len(v.boxes) >= mostBoxes {
		v.mu.Unlock()
		return nil, fmt.Errorf("a client may have %d boxes, one after another", mostBoxes)
	}
	if !ok {
		c = &crate{turn: make(chan struct{}, 1)}
		v.boxes[id] = c
	}
	v.mu.Unlock()
	select {
	case c.turn <- struct{}{}:
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *crate) leave() { <-c.turn }

func (v *visit) makeBox(ctx context.Context, s boxSpec) (boxGroups, error) {
	if v.server.Boxes == nil {
		return boxGroups{}, &platform.Missing{What: "this agent makes no boxes", Mend: "run the same tare at both ends, or use a platform of this host's"}
	}
	c, err := v.crate(ctx, s.ID)
	if err != nil {
		return boxGroups{}, err
	}
	defer c.leave()
	switch {
	case c.removed:
		return boxGroups{}, fmt.Errorf("box %s: %w: its making was given up", s.Box.Name, platform.ErrGone)
	case c.box != nil:
		return boxGroups{}, fmt.Errorf("box %s has been made already", s.Box.Name)
	}
	if c.box, err = v.server.Boxes(ctx, s.Box); err != nil {
		c.box = nil // whatever came with the error
		return boxGroups{}, err
	}
	groups := map[platform.Class]string{}
	for _, class := range platform.Classes {
		groups[class] = c.box.Group(class)
	}
	return boxGroups{groups}, nil
}

func (v *visit) readBox(ctx context.Context, b boxed) (boxReading, error) {
	c, err := v.crate(ctx, b.ID)
	if err != nil {
		return boxReading{}, err
	}
	defer c.leave()
	if c.box == nil {
		return boxReading{}, fmt.Errorf("box %q: %w: it was removed, or never made", b.ID, platform.ErrGone)
	}
	reading, err := c.box.Read(ctx)
	return boxReading{reading, encodeError(err)}, nil
}

// removeBox removes a box, or keeps it from being made. One that is not known is gone.
func (v *visit) removeBox(ctx context.Context, b boxed) (nothing, error) {
	c, err := v.crate(ctx, b.ID)
	if err != nil {
		return nothing{}, err
	}
	defer c.leave()
	return nothing{}, c.remove(ctx)
}

func (c *crate) remove(ctx context.Context) error {
	if c.box != nil {
		if err := c.box.Remove(ctx); err != nil {
			return err
		}
	}
	c.box, c.removed = nil, true
	return nil
}
