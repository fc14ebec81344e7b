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
	"time"

	"tare/platform"
	"tare/probe/causes"
)

// resident is one of a client's, at the server: registered, then made, then stopped.
type resident struct {
	platform platform.Platform
	spec     platform.Spec
	outputs  map[string]*output

	mu      sync.Mutex
	making  chan struct{} // closed when what is being made is; nil before
	stopped bool
	created platform.Created  // nil where it was launched at once
	inst    platform.Instance // nil until there is one
	watches []platform.Watch
}

func newResident(p platform.Platform, s spec) *resident {
	i := &resident{platform: p, spec: s.spec(), outputs: map[string]*output{}}
	if s.Stdout {
		i.outputs["stdout"] = newOutput()
		i.spec.Stdout = i.outputs["stdout"]
	}
	if s.Stderr {
		i.outputs["stderr"] = newOutput()
		i.spec.Stderr = i.outputs["stderr"]
	}
	return i
}

// output carries what a program prints to the request that fetches it. Who prints
// waits for who fetches.
type output struct {
	read  *io.PipeReader
	write *io.PipeWriter

	first sync.Once
	taken chan struct{} // closed when somebody begins to fetch

	mu sync.Mutex
	n  int64
}

func newOutput() *output {
	o := &output{taken: make(chan struct{})}
	o.read, o.write = io.Pipe()
	return o
}

// take says that somebody fetches from now on, who abandons the output at the end.
func (o *output) take() { o.first.Do(func() { close(o.taken) }) }

func (o *output) isTaken() bool {
	select {
	case <-o.taken:
		return true
	default:
		return false
	}
}

// abandon says that nobody fetches any more: what is printed is refused, and who prints
// waits for nobody.
func (o *output) abandon() {
	_ = o.read.CloseWithError(fmt.Errorf("nobody reads the output: %w", platform.ErrGone))
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.write.Write(p)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n += int64(n)
	return n, err
}

func (o *output) written() int64 {
	if o == nil {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.n
}

// begin claims the making of an instance, which is done once and never after its stop.
func (i *resident) begin() (made func(), err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.stopped:
		return nil, fmt.Errorf("%s has been stopped: %w", i.spec.Name, platform.ErrGone)
	case i.making != nil:
		return nil, fmt.Errorf("%s has been made already", i.spec.Name)
	}
	i.making = make(chan struct{})
	return sync.OnceFunc(func() { close(i.making) }), nil
}

// running is the instance's program.
func (i *resident) running() (platform.Instance, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.inst == nil {
		return nil, fmt.Errorf("%s has no program that runs: %w", i.spec.Name, platform.ErrGone)
	}
	return i.inst, nil
}

// readerBound is how long a program's making waits for those who fetch its output. Their
// requests are on their way when it is asked for.
const readerBound = 10 * time.Second

// heard waits until whoever wants the output has come for it, so that no program prints
// to a client that has gone.
func (i *resident) heard(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readerBound)
	defer cancel()
	for of, o := range i.outputs {
		select {
		case <-o.taken:
		case <-ctx.Done():
			return fmt.Errorf("nobody has come for the %s of %s: %w", of, i.spec.Name, ctx.Err())
		}
	}
	return nil
}

// settled waits for the end of a making that goes on, and forbids a later one.
func (i *resident) settled(ctx context.Context) error {
	i.mu.Lock()
	i.stopped = true
	making := i.making
	i.mu.Unlock()
	if making == nil {
		return nil
	}
	select {
	case <-making:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lastWord bounds how long the end of a stopped program may take to be reported.
const lastWord = 10 * time.Second

// stop ends the program and removes what was made for it, whatever there is. It may be
// called again.
func (i *resident) stop(ctx context.Context) (ending, error) {
	if err := i.settled(ctx); err != nil {
		return ending{}, err
	}
	i.mu.Lock()
	inst, created, watches := i.inst, i.created, i.watches
	i.watches = nil
	i.mu.Unlock()
	// A program that waits for who never came would keep its own stop waiting.
	for _, o := range i.outputs {
		if !o.isTaken() {
			o.abandon()
		}
	}
	for _, w := range watches {
		_, _ = w.Stop(ctx) // which nobody has asked for any more
	}
	var err error
	switch {
	case inst != nil:
		err = inst.Stop(ctx)
	case created != nil:
		err = created.Stop(ctx)
	}
	if err != nil {
		return ending{}, err
	}
	var e ending
	if inst != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWord)
		defer cancel()
		e = i.wait(ctx, inst)
	}
	i.closeOutputs()
	return e, nil
}

func (i *resident) closeOutputs() {
	for _, o := range i.outputs {
		_ = o.write.Close()
	}
}

func (i *resident) wait(ctx context.Context, inst platform.Instance) ending {
	exit, err := inst.Wait(ctx)
	if err != nil && ctx.Err() != nil {
		return ending{}
	}
	return ending{
		Over:   true,
		Exit:   exit,
		Error:  encodeError(err),
		Stdout: i.outputs["stdout"].written(),
		Stderr: i.outputs["stderr"].written(),
	}
}

// make makes an instance by one of its platform's ways.
func (v *visit) make(ctx context.Context, id string, how func(*resident) error) error {
	i, err := v.find(id)
	if err != nil {
		return err
	}
	made, err := i.begin()
	if err != nil {
		return err
	}
	defer made()
	if i.spec.Image, err = v.server.locate(ctx, i.spec.Image); err == nil {
		err = i.heard(ctx)
	}
	if err == nil {
		err = how(i)
	}
	if err != nil {
		i.closeOutputs()
		v.forget(id)
	}
	return err
}

func (v *visit) launch(ctx context.Context, r instanced) (nothing, error) {
	return nothing{}, v.make(ctx, r.ID, func(i *resident) error {
		inst, err := i.platform.Launch(ctx, i.spec)
		if err != nil {
			return err
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		i.inst = inst
		return nil
	})
}

func (v *visit) create(ctx context.Context, r instanced) (text, error) {
	var t text
	return t, v.make(ctx, r.ID, func(i *resident) error {
		creator, ok := i.platform.(platform.Creator)
		if !ok {
			return fmt.Errorf("%s cannot create what is started later: %w", i.platform.Name(), errors.ErrUnsupported)
		}
		created, err := creator.Create(ctx, i.spec)
		if err != nil {
			return err
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		i.created = created
		t.Text = created.ID()
		return nil
	})
}

func (v *visit) atRest(id string) (*resident, platform.Created, error) {
	i, err := v.find(id)
	if err != nil {
		return nil, nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.created == nil {
		return nil, nil, fmt.Errorf("%s was not created to be started", i.spec.Name)
	}
	return i, i.created, nil
}

func (v *visit) start(ctx context.Context, r instanced) (nothing, error) {
	_, created, err := v.atRest(r.ID)
	if err != nil {
		return nothing{}, err
	}
	return nothing{}, created.Start(ctx)
}

func (v *visit) hold(ctx context.Context, r instanced) (nothing, error) {
	i, created, err := v.atRest(r.ID)
	if err != nil {
		return nothing{}, err
	}
	inst, err := created.Instance(ctx)
	if err != nil {
		return nothing{}, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.inst = inst
	return nothing{}, nil
}

// of finds the program of an instance.
func (v *visit) of(id string) (*resident, platform.Instance, error) {
	i, err := v.find(id)
	if err != nil {
		return nil, nil, err
	}
	inst, err := i.running()
	return i, inst, err
}

func (v *visit) wait(ctx context.Context, r instanced) (ending, error) {
	i, inst, err := v.of(r.ID)
	if err != nil {
		return ending{}, err
	}
	e := i.wait(ctx, inst)
	if !e.Over {
		return ending{}, context.Cause(ctx)
	}
	return e, nil
}

func (v *visit) signal(_ context.Context, s signal) (nothing, error) {
	_, inst, err := v.of(s.ID)
	if err != nil {
		return nothing{}, err
	}
	return nothing{}, inst.Signal(s.Signal)
}

func (v *visit) usage(_ context.Context, r instanced) (platform.Usage, error) {
	_, inst, err := v.of(r.ID)
	if err != nil {
		return platform.Usage{}, err
	}
	return inst.Usage()
}

func (v *visit) inForce(_ context.Context, r instanced) (platform.InForce, error) {
	_, inst, err := v.of(r.ID)
	if err != nil {
		return platform.InForce{}, err
	}
	return inst.InForce()
}

func (v *visit) processes(_ context.Context, r instanced) (processes, error) {
	_, inst, err := v.of(r.ID)
	if err != nil {
		return processes{}, err
	}
	pids, err := inst.Processes()
	return processes{pids}, err
}

// stop stops an instance, or what there is of it. One that is not known is gone.
func (v *visit) stop(ctx context.Context, r instanced) (ending, error) {
	i, err := v.find(r.ID)
	if err != nil {
		return ending{}, nil
	}
	e, err := i.stop(ctx)
	if err != nil {
		return ending{}, err
	}
	v.forget(r.ID)
	return e, nil
}

func (v *visit) watch(_ context.Context, w watching) (watched, error) {
	i, inst, err := v.of(w.ID)
	if err != nil {
		return watched{}, err
	}
	target, err := platform.WatchTarget(inst)
	if err != nil {
		return watched{}, err
	}
	watch := v.server.Watch
	if watch == nil {
		watch = watchCauses
	}
	begun, err := watch(target, w.Options)
	if err != nil {
		return watched{}, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.watches = append(i.watches, begun)
	return watched{w.ID, len(i.watches) - 1}, nil
}

// watchCauses is package causes' own way.
func watchCauses(t causes.Target, o causes.Options) (platform.Watch, error) {
	w, err := causes.Start(t, o)
	if err != nil {
		return nil, err
	}
	return causesWatch{w}, nil
}

type causesWatch struct{ *causes.Watch }

// Stop ends the watch; the probe reads what it has counted, and waits for nothing.
func (c causesWatch) Stop(context.Context) (causes.Reading, error) { return c.Watch.Stop() }

func (v *visit) unwatch(ctx context.Context, w watched) (causes.Reading, error) {
	i, err := v.find(w.ID)
	if err != nil {
		return causes.Reading{}, err
	}
	i.mu.Lock()
	if w.Watch < 0 || w.Watch >= len(i.watches) {
		i.mu.Unlock()
		return causes.Reading{}, fmt.Errorf("%s has no watch %d", i.spec.Name, w.Watch)
	}
	watch := i.watches[w.Watch]
	i.mu.Unlock()
	return watch.Stop(ctx)
}

// output streams what a program prints to who asks, until it is stopped.
func (v *visit) output(w http.ResponseWriter, r *http.Request) {
	i, err := v.find(r.URL.Query().Get("id"))
	if err != nil {
		refuse(w, err)
		return
	}
	o, ok := i.outputs[r.URL.Query().Get("of")]
	if !ok {
		refuse(w, fmt.Errorf("%s has no %q to be read", i.spec.Name, r.URL.Query().Get("of")))
		return
	}
	// Who goes away must not leave the program blocked.
	stop := context.AfterFunc(r.Context(), o.abandon)
	defer stop()
	defer o.abandon()
	o.take()
	flush := http.NewResponseController(w).Flush
	if err := flush(); err != nil {
		return
	}
	piece := make([]byte, 64<<10)
	for {
		n, err := o.read.Read(piece)
		if n > 0 {
			_, err = w.Write(piece[:n])
			err = errors.Join(err, flush())
		}
		if err != nil {
			return
		}
	}
}

// dial connects the request's stream with a port: of an instance where one is named,
// else of the agent's host.
func (v *visit) dial(w http.ResponseWriter, r *http.Request) {
	at, err := v.dialled(r)
	if err != nil {
		refuse(w, err)
		return
	}
	var dialer net.Dialer
	ctx, cancel := context.WithTimeout(r.Context(), dialBound)
	defer cancel()
	upstream, err := dialer.DialContext(ctx, "tcp", at)
	if err != nil {
		refuse(w, err)
		return
	}
	defer upstream.Close()
	stream, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		refuse(w, err)
		return
	}
	defer stream.Close()
	_, err = io.WriteString(stream, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+upgrade+"\r\n\r\n")
	if err != nil {
		return
	}
	join(stream, buffered.Reader, upstream)
}

// dialBound is how long a port may take to answer.
const dialBound = 10 * time.Second

func (v *visit) dialled(r *http.Request) (string, error) {
	query := r.URL.Query()
	number, err := strconv.Atoi(query.Get("port"))
	if err != nil || number < 1 || number > 65535 {
		return "", fmt.Errorf("port %q: want 1 to 65535", query.Get("port"))
	}
	_, inst, err := v.of(query.Get("id"))
	if err != nil {
		return "", err
	}
	return inst.Address(number), nil
}
