package pages

import (
	"context"
	"errors"
	"sync"
	"time"

	"tare/platform"
	"tare/probe/faults"
	"tare/probe/pagetable"
	"tare/workload"
)

// fakePlatform creates containers that do nothing, and counts those that stand.
type fakePlatform struct {
	platform.Platform // nil: what is not overridden is not called
	startErr          error

	mu       sync.Mutex
	standing int
	started  int
}

func (p *fakePlatform) Name() string { return "fake" }

func (p *fakePlatform) Create(_ context.Context, spec platform.Spec) (platform.Created, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.standing++
	return &fakeContainer{p: p, name: spec.Name}, nil
}

// fakeInstance is what a fake container's Instance gives.
type fakeInstance struct {
	platform.Instance // nil likewise
	c                 *fakeContainer
}

func (i *fakeInstance) Processes() ([]int, error) { return []int{1}, nil }

type fakeContainer struct {
	p    *fakePlatform
	name string
	once sync.Once
}

func (c *fakeContainer) ID() string { return c.name }

func (c *fakeContainer) Start(context.Context) error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.p.started++
	return c.p.startErr
}

func (c *fakeContainer) Instance(context.Context) (platform.Instance, error) {
	return &fakeInstance{c: c}, nil
}

func (c *fakeContainer) Stop(context.Context) error {
	c.once.Do(func() {
		c.p.mu.Lock()
		defer c.p.mu.Unlock()
		c.p.standing--
	})
	return nil
}

// fakeWorkload is ready at once and works until it is stopped, or fails.
type fakeWorkload struct {
	workload.Workload // nil likewise
	sustain           func(ctx context.Context) error
}

func (w fakeWorkload) Name() string { return "fake" }

func (w fakeWorkload) Program(workload.Params) (workload.Program, error) {
	return workload.Program{Args: []string{"/bin/fake"}}, nil
}

func (w fakeWorkload) Ready(context.Context, workload.Trial) error { return nil }

func (w fakeWorkload) Sustained() (workload.Params, bool) { return nil, true }

func (w fakeWorkload) Sustain(ctx context.Context, _ workload.Trial, _ uint64) error {
	if w.sustain != nil {
		return w.sustain(ctx)
	}
	<-ctx.Done()
	return nil
}

// fakeTaker finds in every process the same two pages: one with a frame that all
// have, and one with a frame of its own.
type fakeTaker struct{ err error }

func (f fakeTaker) Name() string { return "fake" }
func (f fakeTaker) Close() error { return nil }

func (f fakeTaker) Take(_ context.Context, asked []pagetable.Process, flags bool) (*pagetable.Census, error) {
	if f.err != nil {
		return nil, f.err
	}
	c := &pagetable.Census{Backend: "fake", Flags: flags}
	for i, p := range asked {
		c.Spaces = append(c.Spaces, pagetable.Space{
			PID: p.PID, Group: p.Group, Command: "fake",
			Mappings: []pagetable.Mapping{{Start: 0x1000, End: 0x3000, Kind: pagetable.FileData, File: "/data"}},
			Runs: []pagetable.Run{{Page: 1, Entries: []pagetable.Entry{
				pagetable.Present | pagetable.FileFrame | pagetable.Active | pagetable.OnList | 7,
				pagetable.Present | pagetable.Anon | pagetable.Entry(100+i),
			}}},
		})
	}
	return c, nil
}

// fakeRecorder counts what it was asked.
type fakeRecorder struct {
	mu                 sync.Mutex
	whole, of, stopped int
	err                error
}

func (r *fakeRecorder) below() (recording, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.whole++
	return r, r.err
}

func (r *fakeRecorder) named([]faults.Target) (recording, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of++
	return r, r.err
}

func (r *fakeRecorder) Stop() (*faults.Recording, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped++
	return &faults.Recording{
		Known: faults.Known{Types: true, Kernel: true}, To: time.Second, Targets: []faults.Target{{Name: "fake-1"}, {Name: "fake-2"}},
		Executed: []faults.Execution{{At: time.Millisecond, Target: 0, Command: "fake"}, {At: time.Millisecond, Target: 1, Command: "fake"}},
		Counts:   []faults.Count{{}, {User: [faults.Types]uint64{faults.Anonymous: 3, faults.Read: 1, faults.Spurious: 5}}},
	}, nil
}

var errBroken = errors.New("answered wrongly")
