package k8s

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/v2/client"
	coreevents "github.com/containerd/containerd/v2/core/events"
	"github.com/containerd/errdefs"
	"github.com/containerd/typeurl/v2"

	"tare/platform"
	"tare/platform/containerd"
	"tare/platform/engine"
)

// The labels by which containerd's CRI plugin marks containers.
const (
	labelUID  = "io.kubernetes.pod.uid"
	labelKind = "io.cri-containerd.kind" // "sandbox" or "container"
)

// feed hands containerd's events to the pods that they are of.
type feed struct {
	engine *containerd.Platform

	mu   sync.Mutex
	pods map[string]*pod // by uid
	of   map[string]*pod // by a container's id
	stop context.CancelFunc
}

func newFeed(e *containerd.Platform) *feed {
	return &feed{engine: e, pods: map[string]*pod{}, of: map[string]*pod{}}
}

// pod is what events have reported of a pod.
type pod struct {
	uid     string
	started chan struct{}      // closed when the program was started, or the feed is lost
	deleted chan struct{}      // closed when its task was deleted, or the feed is lost
	ended   chan engine.Ending // has one element at most

	mu        sync.Mutex
	lost      error // why nothing more is reported
	sandbox   moments
	program   moments
	oomKilled bool
}

// moments are those of a container, by containerd's clock.
type moments struct {
	id               string
	created, started time.Time
	pid              int
}

func newPod(uid string) *pod {
	return &pod{
		uid: uid, started: make(chan struct{}), deleted: make(chan struct{}), ended: make(chan engine.Ending, 1),
	}
}

// state is a copy of what was reported.
func (p *pod) state() (sandbox, program moments, lost error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sandbox, p.program, p.lost
}

func (p *pod) wasOOMKilled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.oomKilled
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// lose says that nothing more will be reported.
func (p *pod) lose(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = err
	for _, c := range []chan struct{}{p.started, p.deleted} {
		if !isClosed(c) {
			close(c)
		}
	}
	p.end(engine.Ending{At: time.Now(), Err: err})
}

func (p *pod) end(e engine.Ending) {
	select {
	case p.ended <- e:
	default:
	}
}

// open begins to listen. containerd does not say when it has taken a listener, so that this is done
// long before the first pod starts.
func (f *feed) open(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop != nil {
		return nil
	}
	return f.engine.Call(ctx, "listen to containerd's events", func(_ context.Context, c *client.Client) error {
		listening, stop := context.WithCancel(context.WithoutCancel(ctx))
		all, errs := c.Subscribe(listening, `namespace=="`+namespace+`"`)
		f.stop = stop
		go f.listen(listening, all, errs)
		return nil
	})
}

// close ends listening, where no pod is left.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.pods) == 0 && f.stop != nil {
		f.stop()
		f.stop = nil
	}
}

// join has the feed report a pod from now on.
func (f *feed) join(ctx context.Context, p *pod) error {
	if err := f.open(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pods[p.uid] = p
	return nil
}

func (f *feed) leave(p *pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pods, p.uid)
	for id, of := range f.of {
		if of == p {
			delete(f.of, id)
		}
	}
}

// sandboxes are those of the pods.
func (f *feed) sandboxes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []string
	for _, p := range f.pods {
		if sandbox, _, _ := p.state(); sandbox.id != "" {
			ids = append(ids, sandbox.id)
		}
	}
	return ids
}

func (f *feed) listen(ctx context.Context, all <-chan *coreevents.Envelope, errs <-chan error) {
	for {
		select {
		case e := <-all:
			f.take(ctx, e)
		case err := <-errs:
			if ctx.Err() == nil {
				f.lose(fmt.Errorf("containerd's events have ended (%w): %w", err, platform.ErrGone))
			}
			return
		case <-ctx.Done():
			return
		}
	}
}

func (f *feed) lose(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop != nil {
		f.stop() // the next pod has it listen anew
		f.stop = nil
	}
	for _, p := range f.pods {
		p.lose(err)
	}
}

func (f *feed) take(ctx context.Context, e *coreevents.Envelope) {
	decoded, err := typeurl.UnmarshalAny(e.Event)
	if err != nil {
		return // of a kind that is not asked for
	}
	if created, ok := decoded.(*events.ContainerCreate); ok {
		f.created(ctx, created.ID, e.Timestamp)
		return
	}
	task, ok := decoded.(interface{ GetContainerID() string })
	if !ok {
		return
	}
	f.mu.Lock()
	p := f.of[task.GetContainerID()]
	f.mu.Unlock()
	if p != nil {
		p.take(task.GetContainerID(), decoded, e.Timestamp)
	}
}

// created looks whose a new container is: its event does not say.
func (f *feed) created(ctx context.Context, id string, at time.Time) {
	var labels map[string]string
	err := f.engine.Call(ctx, "look for container "+id, func(ctx context.Context, c *client.Client) error {
		found, err := c.ContainerService().Get(ctx, id)
		labels = found.Labels
		return err
	})
	if err != nil {
		return // it was removed meanwhile
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.pods[labels[labelUID]]
	if p == nil {
		return
	}
	f.of[id] = p
	p.mu.Lock()
	defer p.mu.Unlock()
	if of := (moments{id: id, created: at}); labels[labelKind] == "sandbox" {
		p.sandbox = of
	} else {
		p.program = of
	}
}

// take takes an event of a container's task.
func (p *pod) take(id string, event any, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := &p.sandbox
	if id == p.program.id {
		of = &p.program
	}
	switch e := event.(type) {
	case *events.TaskStart:
		of.started, of.pid = at, int(e.Pid)
	case *events.TaskOOM:
		p.oomKilled = p.oomKilled || of == &p.program
	case *events.TaskExit:
		if of == &p.program && e.ID == id { // and of no other process in the container
			p.end(engine.Ending{Code: int(e.ExitStatus), At: e.ExitedAt.AsTime()})
		}
	case *events.TaskDelete:
		if of == &p.program && !isClosed(p.deleted) {
			close(p.deleted)
		}
	}
	if !p.program.started.IsZero() && !isClosed(p.started) {
		close(p.started)
	}
}

// running lists the first processes of a pod's containers that run.
func running(ctx context.Context, e *containerd.Platform, uid string) (pids []int, err error) {
	err = e.Call(ctx, "list the containers of pod "+uid, func(ctx context.Context, c *client.Client) error {
		containers, err := c.Containers(ctx, `labels."`+labelUID+`"==`+strconv.Quote(uid))
		if err != nil {
			return err
		}
		for _, one := range containers {
			task, err := one.Task(ctx, nil)
			var status client.Status
			if err == nil {
				status, err = task.Status(ctx)
			}
			switch {
			case errdefs.IsNotFound(err): // it has none any more
			case err != nil:
				return err
			case status.Status != client.Stopped:
				pids = append(pids, int(task.Pid()))
			}
		}
		return nil
	})
	return pids, err
}
