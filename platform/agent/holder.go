package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"

	"tare/platform"
	"tare/probe/causes"
)

// holder is what the client has of an instance, from its registration on.
type holder struct {
	client *Client
	id     string // at the agent
	name   string

	stdout, stderr *fetched // nil where nobody wants it

	mu       sync.Mutex
	ended    *ending // nil until it is known
	stopped  bool
	one      *instance        // nil until there is one
	forwards map[int]*forward // by port

	stopping sync.Mutex
}

// abandon undoes a launch that failed or was given up: the agent may have gone on with
// it. It has its own time.
func (h *holder) abandon(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoBound)
	defer cancel()
	undone := h.stop(ctx)
	if errors.Is(undone, platform.ErrGone) {
		undone = nil // the agent stops what its client has left
	}
	return errors.Join(err, undone)
}

// instance gives the instance that stands for the program.
func (h *holder) instance() *instance {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.one == nil {
		h.one = &instance{h}
	}
	return h.one
}

// stop ends the program and removes what was made; again, it does nothing. A time that
// is over before it begins is extended: a stop then still ends the program.
func (h *holder) stop(ctx context.Context) error {
	h.stopping.Lock()
	defer h.stopping.Unlock()
	h.mu.Lock()
	stopped := h.stopped
	h.mu.Unlock()
	if stopped {
		return nil
	}
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), lastWord)
		defer cancel()
	}
	end, err := call[ending](ctx, h.client, "stop", instanced{h.id})
	if err != nil {
		if errors.Is(err, platform.ErrGone) {
			h.closeForwards()
		}
		return err
	}
	h.mu.Lock()
	h.stopped = true
	if end.Over && h.ended == nil {
		h.ended = &end
	}
	h.mu.Unlock()
	h.closeForwards()
	return errors.Join(h.stdout.rest(ctx), h.stderr.rest(ctx))
}

func (h *holder) closeForwards() {
	h.mu.Lock()
	forwards := h.forwards
	h.forwards = nil
	h.mu.Unlock()
	for _, f := range forwards {
		f.close()
	}
}

// known is the program's end, where it is known.
func (h *holder) known() (ending, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended == nil {
		return ending{}, false
	}
	return *h.ended, true
}

// created is a container at rest at the agent.
type created struct {
	*holder
	id string // the platform's own
}

func (c *created) ID() string { return c.id }

func (c *created) Start(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("start %s: %w", c.name, c.client.broken(ctx, err))
	}
	_, err := call[nothing](ctx, c.client, "start", instanced{c.holder.id})
	return err
}

func (c *created) Instance(ctx context.Context) (platform.Instance, error) {
	if _, err := call[nothing](ctx, c.client, "hold", instanced{c.holder.id}); err != nil {
		return nil, err
	}
	return c.instance(), nil
}

func (c *created) Stop(ctx context.Context) error { return c.stop(ctx) }

// instance is a program at the agent.
type instance struct{ *holder }

var (
	_ platform.Watching = (*instance)(nil)
	_ platform.Apart    = (*instance)(nil)
)

// Machine implements [platform.Apart].
func (i *instance) Machine() string { return i.client.Machine }

// quick makes a call that has no context of its caller's.
func quick[Answered any](c *Client, name string, asked any) (Answered, error) {
	ctx, cancel := context.WithTimeout(context.Background(), aliveBound)
	defer cancel()
	return call[Answered](ctx, c, name, asked)
}

// Address is a listener on this host that forwards to the program, until its stop. One
// that cannot be made leaves an address at which nobody answers.
func (i *instance) Address(port int) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if f, ok := i.forwards[port]; ok {
		return f.listener.Addr().String()
	}
	if i.stopped {
		return unanswered
	}
	f, err := i.client.forward(i.id, port)
	if err != nil {
		return unanswered
	}
	if i.forwards == nil {
		i.forwards = map[int]*forward{}
	}
	i.forwards[port] = f
	return f.listener.Addr().String()
}

// unanswered is an address to which no connection can be made.
var unanswered = net.JoinHostPort("127.0.0.1", strconv.Itoa(0))

func (i *instance) Processes() ([]int, error) {
	p, err := quick[processes](i.client, "processes", instanced{i.id})
	return p.PIDs, err
}

func (i *instance) InForce() (platform.InForce, error) {
	return quick[platform.InForce](i.client, "in-force", instanced{i.id})
}

func (i *instance) Usage() (platform.Usage, error) {
	return quick[platform.Usage](i.client, "usage", instanced{i.id})
}

func (i *instance) Signal(sig int) error {
	_, err := quick[nothing](i.client, "signal", signal{i.id, sig})
	return err
}

func (i *instance) Wait(ctx context.Context) (platform.Exit, error) {
	if err := ctx.Err(); err != nil {
		return platform.Exit{}, i.client.broken(ctx, err)
	}
	end, known := i.known()
	if !known {
		var err error
		end, err = call[ending](ctx, i.client, "wait", instanced{i.id})
		if late, now := i.known(); now {
			end, err = late, nil // a stop has reported meanwhile
		}
		if err != nil {
			return platform.Exit{}, err
		}
		i.mu.Lock()
		i.ended = &end
		i.mu.Unlock()
	}
	// What it had printed is handed on by now, as everywhere.
	err := errors.Join(i.stdout.until(ctx, end.Stdout), i.stderr.until(ctx, end.Stderr))
	if end.Error != nil {
		err = errors.Join(end.Error.decode(), err)
	}
	return end.Exit, err
}

func (i *instance) Stop(ctx context.Context) error { return i.stop(ctx) }

// Watch implements [platform.Watching].
func (i *instance) Watch(ctx context.Context, o causes.Options) (platform.Watch, error) {
	w, err := call[watched](ctx, i.client, "watch", watching{i.id, o})
	if err != nil {
		return nil, err
	}
	return &watch{client: i.client, at: w}, nil
}

// watch is one that goes on at the agent.
type watch struct {
	client *Client
	at     watched

	mu   sync.Mutex
	read *causes.Reading // nil until it was stopped
}

func (w *watch) Stop(ctx context.Context) (causes.Reading, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.read != nil {
		return *w.read, nil
	}
	reading, err := call[causes.Reading](ctx, w.client, "unwatch", w.at)
	if err != nil {
		return causes.Reading{}, err
	}
	w.read = &reading
	return reading, nil
}

// fetch begins to hand on what an instance prints.
func (c *Client) fetch(id, of string, to io.Writer) *fetched {
	if to == nil {
		return nil
	}
	f := newFetched(to)
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	go func() {
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent/v1/output?id="+id+"&of="+of, nil)
		if err != nil {
			f.end(err)
			return
		}
		c.label(request)
		response, err := c.web.Do(request)
		if err != nil {
			f.end(c.broken(ctx, err))
			return
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			f.end(fmt.Errorf("the agent does not hand on the program's output: %s", response.Status))
			return
		}
		if err := f.copy(response.Body); err != nil {
			f.end(c.broken(ctx, err))
			return
		}
		f.end(nil)
	}()
	return f
}
