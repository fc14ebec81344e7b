package agent

import (
	"context"
	"fmt"
	"strconv"

	"tare/image"
	"tare/platform"
)

// Platform gives one of the agent's platforms, by the name that it has there. What it
// is besides a platform (a Creator, Reaching, Storing) it is here, too; and it is Boxing,
// by the agent's own boxes. Where the agent has none of that name, the platform's Check
// says so.
func (c *Client) Platform(name string) platform.Platform {
	d, err := quick[described](c, "describe", named{name})
	if err != nil {
		return &remote{client: c, name: name, fault: err}
	}
	r := &remote{client: c, name: d.Name}
	creates, reaches, stores := creating{r}, reaching{r}, storing{r}
	switch [3]bool{d.Creator, d.Reaching, d.Storing} {
	case [3]bool{true, true, true}:
		return struct {
			*remote
			creating
			reaching
			storing
		}{r, creates, reaches, stores}
	case [3]bool{true, true, false}:
		return struct {
			*remote
			creating
			reaching
		}{r, creates, reaches}
	case [3]bool{true, false, true}:
		return struct {
			*remote
			creating
			storing
		}{r, creates, stores}
	case [3]bool{true, false, false}:
		return struct {
			*remote
			creating
		}{r, creates}
	case [3]bool{false, true, true}:
		return struct {
			*remote
			reaching
			storing
		}{r, reaches, stores}
	case [3]bool{false, true, false}:
		return struct {
			*remote
			reaching
		}{r, reaches}
	case [3]bool{false, false, true}:
		return struct {
			*remote
			storing
		}{r, stores}
	}
	return r
}

// remote is one of the agent's platforms.
type remote struct {
	client *Client
	name   string
	fault  error // why there is none
}

// creating, reaching and storing are what a platform may be besides: each has one
// method, so that a value has those that its platform has.
type (
	creating struct{ of *remote }
	reaching struct{ of *remote }
	storing  struct{ of *remote }
)

func (r *remote) Name() string { return r.name }

func (r *remote) Check(ctx context.Context) error {
	if r.fault != nil {
		return &platform.Missing{What: fmt.Sprintf("the agent does not give platform %q: %v", r.name, r.fault)}
	}
	_, err := call[nothing](ctx, r.client, "check", named{r.name})
	return err
}

func (r *remote) Supports(s platform.Setting) error {
	_, err := quick[nothing](r.client, "supports", setting{r.name, s})
	return err
}

// Freezes implements [platform.Freezer]: the agent is asked for no such thing.
func (r *remote) Freezes(context.Context, platform.Setting) error {
	return &platform.Unsupported{Platform: r.name, Key: "freezing", Reason: "the program's processes are behind an agent, out of reach of this host's freezer"}
}

func (r *remote) Version(ctx context.Context) string {
	version, err := call[text](ctx, r.client, "version", named{r.name})
	if err != nil {
		return ""
	}
	return version.Text
}

// Prepare has the image cross, once, and the agent's platform prepare it.
func (r *remote) Prepare(ctx context.Context, img image.Image) error {
	if err := r.client.bring(ctx, img); err != nil {
		return err
	}
	_, err := call[nothing](ctx, r.client, "prepare", imaged{r.name, imageOf(img)})
	return err
}

func (r *remote) Release(ctx context.Context) error {
	_, err := call[nothing](ctx, r.client, "release", named{r.name})
	return err
}

func (r *remote) Remove(ctx context.Context, e platform.Entry) error {
	_, err := call[nothing](ctx, r.client, "remove", entry{r.name, e})
	return err
}

func (r reaching) Reaches(s platform.Setting) error {
	_, err := quick[nothing](r.of.client, "reaches", setting{r.of.name, s})
	return err
}

func (s storing) StoredAt(ctx context.Context, of platform.Storage) (string, error) {
	at, err := call[text](ctx, s.of.client, "stored-at", storage{s.of.name, of})
	return at.Text, err
}

// Launch implements [platform.Platform].
func (r *remote) Launch(ctx context.Context, spec platform.Spec) (platform.Instance, error) {
	h, err := r.register(ctx, spec)
	if err != nil {
		return nil, err
	}
	_, err = call[nothing](ctx, r.client, "launch", instanced{h.id})
	if err = givenUp(ctx, r.client, err); err != nil {
		return nil, h.abandon(ctx, err)
	}
	return h.instance(), nil
}

// Create implements [platform.Creator].
func (c creating) Create(ctx context.Context, spec platform.Spec) (platform.Created, error) {
	h, err := c.of.register(ctx, spec)
	if err != nil {
		return nil, err
	}
	id, err := call[text](ctx, c.of.client, "create", instanced{h.id})
	if err = givenUp(ctx, c.of.client, err); err != nil {
		return nil, h.abandon(ctx, err)
	}
	return &created{holder: h, id: id.Text}, nil
}

// givenUp makes an error of a success that came when its caller had given up: word of
// that may have been on its way to the agent still.
func givenUp(ctx context.Context, c *Client, err error) error {
	if err == nil && ctx.Err() != nil {
		return c.broken(ctx, ctx.Err())
	}
	return err
}

// register enters an instance at the agent, and fetches its output from then on.
func (r *remote) register(ctx context.Context, spec platform.Spec) (*holder, error) {
	if err := ctx.Err(); err != nil {
		return nil, r.client.broken(ctx, err)
	}
	if err := spec.RefuseEdits(r.name, "they do not cross to another machine"); err != nil {
		return nil, err
	}
	h := &holder{client: r.client, id: strconv.FormatInt(r.client.serial.Add(1), 10), name: spec.Name}
	if _, err := call[nothing](ctx, r.client, "register", registration{h.id, r.name, specOf(spec)}); err != nil {
		return nil, h.abandon(ctx, err)
	}
	h.stdout = r.client.fetch(h.id, "stdout", spec.Stdout)
	h.stderr = r.client.fetch(h.id, "stderr", spec.Stderr)
	return h, nil
}
