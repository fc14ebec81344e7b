package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"tare/image"
	"tare/platform"
)

// visit is one client, from its coming to the end of its stream.
type visit struct {
	server  *Server
	greeted atomic.Bool    // versions are equal
	calls   sync.WaitGroup // that go on

	mu        sync.Mutex
	ended     bool
	instances map[string]*resident
	prepared  map[string]platform.Platform // which the client has not released
	boxes     map[string]*crate
}

// mostInstances bounds what a client may have at a time.
const mostInstances = 10_000

// handler routes requests: a call is a POST of its name; bytes that stream have
// requests of their own.
func (v *visit) handler() http.Handler {
	routes := http.NewServeMux()
	routes.HandleFunc("POST /v1/hello", v.hello)
	clock := func(context.Context, nothing) (clockReading, error) { return clockReading{time.Now().UnixNano()}, nil }
	for name, call := range map[string]http.HandlerFunc{
		"clock":     answer(clock),
		"power-off": answer(v.powerOff),

		"describe":  answer(v.describe),
		"check":     answer(v.check),
		"supports":  answer(v.supports),
		"reaches":   answer(v.reaches),
		"stored-at": answer(v.storedAt),
		"version":   answer(v.version),
		"prepare":   answer(v.prepare),
		"release":   answer(v.release),
		"remove":    answer(v.remove),

		"groups":     answer(v.groups),
		"make-box":   answer(v.makeBox),
		"read-box":   answer(v.readBox),
		"remove-box": answer(v.removeBox),

		"has":    answer(v.has),
		"attach": answer(v.attach),

		"register":  answer(v.register),
		"launch":    answer(v.launch),
		"create":    answer(v.create),
		"start":     answer(v.start),
		"hold":      answer(v.hold),
		"wait":      answer(v.wait),
		"signal":    answer(v.signal),
		"usage":     answer(v.usage),
		"in-force":  answer(v.inForce),
		"processes": answer(v.processes),
		"stop":      answer(v.stop),
		"watch":     answer(v.watch),
		"unwatch":   answer(v.unwatch),
	} {
		routes.Handle("POST /v1/"+name, v.known(call))
	}
	routes.Handle("PUT /v1/image", v.known(v.receive))
	routes.Handle("GET /v1/output", v.known(v.output))
	routes.Handle("GET /v1/dial", v.known(v.dial))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v.mu.Lock()
		if v.ended {
			v.mu.Unlock()
			refuse(w, fmt.Errorf("the agent is ending: %w", platform.ErrGone))
			return
		}
		v.calls.Add(1)
		v.mu.Unlock()
		defer v.calls.Done()
		// Package http would end the stream without a word.
		defer func() {
			if fault := recover(); fault != nil {
				refuse(w, fmt.Errorf("the agent failed in %s: %v", r.URL.Path, fault))
			}
		}()
		if left, err := time.ParseDuration(r.Header.Get(headerTimeout)); err == nil {
			ctx, cancel := context.WithTimeout(r.Context(), left)
			defer cancel()
			r = r.WithContext(ctx)
		}
		routes.ServeHTTP(w, r)
	})
}

// known lets a request through once versions have been found equal.
func (v *visit) known(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !v.greeted.Load() {
			refuse(w, errors.New("nothing is served before hands were shaken with an equal version"))
			return
		}
		next(w, r)
	})
}

// hello answers whoever asks, and opens the rest to an equal.
func (v *visit) hello(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(headerProtocol) == fmt.Sprint(Protocol) && r.Header.Get(headerVersion) == v.server.Version {
		v.greeted.Store(true)
	}
	reply(w, v.server.hello())
}

// answer makes a handler of a call. The whole request is read before it is begun, so
// that a caller's going away is noticed while it lasts.
func answer[Asked, Answered any](call func(context.Context, Asked) (Answered, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, longestRequest))
		if err != nil {
			refuse(w, fmt.Errorf("reading the request: %w", err))
			return
		}
		var asked Asked
		if err := json.Unmarshal(body, &asked); err != nil {
			refuse(w, fmt.Errorf("reading the request: %w", err))
			return
		}
		answered, err := call(r.Context(), asked)
		if err != nil {
			refuse(w, err)
			return
		}
		reply(w, answered)
	}
}

func reply(w http.ResponseWriter, answered any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answered) // who does not get it has gone
}

// statusFailed is that of every error: what it is stands in the body.
const statusFailed = http.StatusUnprocessableEntity

func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(statusFailed)
	_ = json.NewEncoder(w).Encode(encodeError(err))
}

func (v *visit) powerOff(context.Context, nothing) (nothing, error) {
	if v.server.PowerOff == nil {
		return nothing{}, &platform.Missing{What: "this agent does not end its machine", Mend: "end it by its own means"}
	}
	// The answer goes out before the machine does; its end is what the caller awaits.
	go v.server.PowerOff()
	return nothing{}, nil
}

func (v *visit) describe(_ context.Context, n named) (described, error) {
	p, err := v.server.platform(n.Platform)
	if err != nil {
		return described{}, err
	}
	d := described{Name: p.Name()}
	_, d.Creator = p.(platform.Creator)
	_, d.Reaching = p.(platform.Reaching)
	_, d.Storing = p.(platform.Storing)
	return d, nil
}

func (v *visit) check(ctx context.Context, n named) (nothing, error) {
	p, err := v.server.platform(n.Platform)
	if err != nil {
		return nothing{}, err
	}
	return nothing{}, p.Check(ctx)
}

func (v *visit) supports(_ context.Context, s setting) (nothing, error) {
	p, err := v.server.platform(s.Platform)
	if err != nil {
		return nothing{}, err
	}
	return nothing{}, p.Supports(s.Setting)
}

func (v *visit) reaches(_ context.Context, s setting) (nothing, error) {
	p, err := v.server.platform(s.Platform)
	if err != nil {
		return nothing{}, err
	}
	reaching, ok := p.(platform.Reaching)
	if !ok {
		return nothing{}, fmt.Errorf("%s does not say which networks reach: %w", s.Platform, errors.ErrUnsupported)
	}
	return nothing{}, reaching.Reaches(s.Setting)
}

func (v *visit) storedAt(ctx context.Context, s storage) (text, error) {
	p, err := v.server.platform(s.Platform)
	if err != nil {
		return text{}, err
	}
	storing, ok := p.(platform.Storing)
	if !ok {
		return text{}, fmt.Errorf("%s does not say where data lie: %w", s.Platform, errors.ErrUnsupported)
	}
	dir, err := storing.StoredAt(ctx, s.Storage)
	return text{dir}, err
}

func (v *visit) version(ctx context.Context, n named) (text, error) {
	p, err := v.server.platform(n.Platform)
	if err != nil {
		return text{}, err
	}
	return text{p.Version(ctx)}, nil
}

func (v *visit) prepare(ctx context.Context, i imaged) (nothing, error) {
	p, err := v.server.platform(i.Platform)
	if err != nil {
		return nothing{}, err
	}
	img, err := v.server.locate(ctx, i.Image)
	if err != nil {
		return nothing{}, err
	}
	v.mu.Lock()
	v.prepared[p.Name()] = p // before: a Prepare that fails may have made something
	v.mu.Unlock()
	return nothing{}, p.Prepare(ctx, img)
}

func (v *visit) release(ctx context.Context, n named) (nothing, error) {
	p, err := v.server.platform(n.Platform)
	if err != nil {
		return nothing{}, err
	}
	if err := p.Release(ctx); err != nil {
		return nothing{}, err
	}
	v.mu.Lock()
	delete(v.prepared, p.Name())
	v.mu.Unlock()
	return nothing{}, nil
}

func (v *visit) remove(ctx context.Context, e entry) (nothing, error) {
	p, err := v.server.platform(e.Platform)
	if err != nil {
		return nothing{}, err
	}
	return nothing{}, p.Remove(ctx, e.Entry)
}

func (v *visit) has(_ context.Context, d digest) (whether, error) {
	is, err := v.server.has(d.Digest)
	return whether{is}, err
}

func (v *visit) attach(ctx context.Context, a attach) (nothing, error) {
	return nothing{}, v.server.attach(ctx, a.Digest, a.Device)
}

// receive takes an image: two parts, its description and its layer.
func (v *visit) receive(w http.ResponseWriter, r *http.Request) {
	if err := v.receiveImage(r); err != nil {
		refuse(w, err)
		return
	}
	reply(w, nothing{})
}

func (v *visit) receiveImage(r *http.Request) error {
	parts, err := r.MultipartReader()
	if err != nil {
		return fmt.Errorf("receiving an image: %w", err)
	}
	part, err := parts.NextPart()
	if err != nil {
		return fmt.Errorf("receiving an image's description: %w", err)
	}
	var img image.Image
	if err := json.NewDecoder(io.LimitReader(part, longestRequest)).Decode(&img); err != nil {
		return fmt.Errorf("receiving an image's description: %w", err)
	}
	layer, err := parts.NextPart()
	if err != nil {
		return fmt.Errorf("receiving image %s: %w", img.Name, err)
	}
	store, err := v.server.store()
	if err != nil {
		return err
	}
	// The layer is bounded by the store's own limits.
	_, err = store.Receive(r.Context(), imageOf(img), layer)
	return err
}

// end stops what the client has left, and releases what was prepared for it. No call goes
// on any more, and so nobody fetches what programs print.
func (v *visit) end(ctx context.Context) error {
	v.mu.Lock()
	v.ended = true
	left, prepared, boxes := v.instances, v.prepared, v.boxes
	v.instances, v.prepared = map[string]*resident{}, map[string]platform.Platform{}
	v.mu.Unlock()
	var mu sync.Mutex
	var errs []error
	var all sync.WaitGroup
	for _, i := range left {
		all.Go(func() {
			for _, o := range i.outputs {
				o.abandon()
			}
			if _, err := i.stop(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("stopping %s, which its client has left: %w", i.spec.Name, err))
			}
		})
	}
	all.Wait()
	// The programs in them have ended, and no call goes on.
	for _, c := range boxes {
		if err := c.remove(ctx); err != nil {
			errs = append(errs, fmt.Errorf("removing a box that its client has left: %w", err))
		}
	}
	for _, p := range prepared {
		if err := p.Release(ctx); err != nil {
			errs = append(errs, fmt.Errorf("releasing what %s had prepared: %w", p.Name(), err))
		}
	}
	return errors.Join(errs...)
}

// find gives an instance of the client's.
func (v *visit) find(id string) (*resident, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	i, ok := v.instances[id]
	if !ok {
		return nil, fmt.Errorf("instance %q: %w: it has been stopped, or was never made", id, platform.ErrGone)
	}
	return i, nil
}

func (v *visit) forget(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.instances, id)
}

// register enters an instance that is to be made, so that its output has where to go
// before there is any.
func (v *visit) register(_ context.Context, r registration) (nothing, error) {
	p, err := v.server.platform(r.Platform)
	if err != nil {
		return nothing{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch _, taken := v.instances[r.ID]; {
	case r.ID == "" || len(r.ID) > 64:
		return nothing{}, fmt.Errorf("instance %q: want an id of at most 64 characters", r.ID)
	case taken:
		return nothing{}, fmt.Errorf("instance %q: %w", r.ID, fs.ErrExist)
	case len(v.instances) >= mostInstances:
		return nothing{}, fmt.Errorf("%d instances are there already: stop some", mostInstances)
	}
	v.instances[r.ID] = newResident(p, r.Spec)
	return nothing{}, nil
}
