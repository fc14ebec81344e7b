package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"tare/image"
	"tare/kernel/accounting"
	"tare/platform"
	"tare/record"
	"tare/workload"
)

// clock is a clock that moves on request.
type clock struct{ at time.Time }

func (c *clock) now() time.Time       { return c.at }
func (c *clock) pass(d time.Duration) { c.at = c.at.Add(d) }

// fakePlatform launches nothing, and counts what is alive.
type fakePlatform struct {
	name      string
	clock     *clock
	takes     time.Duration // one trial
	executes  bool          // its time counts from the execution
	force     platform.InForce
	launchErr func(n int) error
	checkErr  error

	mu       sync.Mutex
	launches int
	alive    int
	names    map[string]bool
	released bool
}

func (p *fakePlatform) Name() string                               { return p.name }
func (p *fakePlatform) Check(context.Context) error                { return p.checkErr }
func (p *fakePlatform) Supports(platform.Setting) error            { return nil }
func (p *fakePlatform) Prepare(context.Context, image.Image) error { return nil }
func (p *fakePlatform) Release(context.Context) error              { p.released = true; return nil }
func (p *fakePlatform) Remove(context.Context, platform.Entry) error {
	return nil
}
func (p *fakePlatform) Version(context.Context) string { return "fake 1" }

func (p *fakePlatform) Launch(_ context.Context, spec platform.Spec) (platform.Instance, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.launches++
	if p.names == nil {
		p.names = map[string]bool{}
	}
	if p.names[spec.Name] {
		return nil, fmt.Errorf("the name %s was used before", spec.Name)
	}
	p.names[spec.Name] = true
	if p.launchErr != nil {
		if err := p.launchErr(p.launches); err != nil {
			return nil, err
		}
	}
	p.alive++
	return &fakeInstance{platform: p, spec: spec}, nil
}

type fakeInstance struct {
	platform *fakePlatform
	spec     platform.Spec
	stopped  bool
}

func (i *fakeInstance) Address(port int) string            { return fmt.Sprintf("127.0.0.1:%d", port) }
func (i *fakeInstance) Processes() ([]int, error)          { return []int{1}, nil }
func (i *fakeInstance) InForce() (platform.InForce, error) { return i.platform.force, nil }
func (i *fakeInstance) Usage() (platform.Usage, error)     { return platform.Usage{CPU: time.Second}, nil }
func (i *fakeInstance) Signal(int) error                   { return nil }
func (i *fakeInstance) Wait(context.Context) (platform.Exit, error) {
	i.platform.clock.pass(i.platform.takes)
	return platform.Exit{Elapsed: i.platform.takes, FromExecution: i.platform.executes}, nil
}
func (i *fakeInstance) Stop(context.Context) error {
	if !i.stopped {
		i.stopped = true
		i.platform.mu.Lock()
		i.platform.alive--
		i.platform.mu.Unlock()
	}
	return nil
}

// fakeWorkload yields whatever its function says.
type fakeWorkload struct {
	name  string
	value func(n int) (float64, error) // n-th drive, from 1
	n     int
}

func (w *fakeWorkload) Name() string             { return w.name }
func (w *fakeWorkload) Summary() string          { return "a fake" }
func (w *fakeWorkload) Params() []workload.Param { return nil }
func (w *fakeWorkload) Source() workload.Source  { return workload.Source{Recipe: w.name} }
func (w *fakeWorkload) Program(workload.Params) (workload.Program, error) {
	return workload.Program{Args: []string{"/bin/true"}}, nil
}
func (w *fakeWorkload) Metrics(workload.Params) []workload.Metric {
	return []workload.Metric{{Name: "elapsed", Unit: "s", Better: workload.Lower, Primary: true}}
}
func (w *fakeWorkload) Drive(ctx context.Context, t workload.Trial) error {
	w.n++
	if _, err := t.Wait(ctx); err != nil {
		return err
	}
	v, err := w.value(w.n)
	if err != nil {
		return err
	}
	t.Record("elapsed", v)
	return nil
}

// bench is a lab on fakes.
type bench struct {
	*Lab
	clock     *clock
	platforms map[string]*fakePlatform
	events    []Event
	taints    []string // what Judge answers, one a trial; "" is clean
	judged    int
}

// inMemory is a directory for a store: rounds write often, and a test need not wait until
// that is on a disk.
func inMemory(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "tare-lab-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func newBench(t *testing.T, names ...string) *bench {
	t.Helper()
	store, err := record.Open(filepath.Join(inMemory(t), "tare.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	b := &bench{clock: &clock{at: time.Unix(1_700_000_000, 0)}, platforms: map[string]*fakePlatform{}}
	for _, n := range names {
		b.platforms[n] = &fakePlatform{name: n, clock: b.clock, takes: time.Second, force: platform.InForce{NetworkNS: "host", Seccomp: 2}}
	}
	b.Lab = &Lab{
		Store: store,
		Platforms: func(name string) (platform.Platform, error) {
			p, ok := b.platforms[name]
			if !ok {
				return nil, &UnknownPlatform{name}
			}
			return p, nil
		},
		Image: func(context.Context, workload.Source) (image.Image, error) {
			return image.Image{Name: "fake", Digest: "sha256:00"}, nil
		},
		Generate: func(context.Context, image.Image, string, []string) ([]byte, error) {
			return nil, errors.New("no generator")
		},
		Watch: func(e Event) { b.events = append(b.events, e) },
		Now:   b.clock.now,
		Judge: func(accounting.Interval, float64, bool) []string {
			b.judged++
			if b.judged <= len(b.taints) && b.taints[b.judged-1] != "" {
				return []string{b.taints[b.judged-1]}
			}
			return nil
		},
	}
	t.Cleanup(func() {
		for _, p := range b.platforms {
			if p.alive != 0 {
				t.Errorf("%s: %d instances are left", p.name, p.alive)
			}
			if p.launches > 0 && !p.released {
				t.Errorf("%s: never released", p.name)
			}
		}
	})
	return b
}

// twoPlatforms is the smallest design: a baseline and one other condition.
func twoPlatforms(w *fakeWorkload, plan record.Plan) Design {
	if plan.Level == 0 {
		plan.Level, plan.SmallestEffect = 0.95, 0.02
	}
	g := Group{Workload: w.name}
	for _, name := range []string{"bare", "box"} {
		g.Conditions = append(g.Conditions, Condition{
			Condition: record.Condition{
				ID: w.name + "@" + name, Label: name, Workload: w.name, Platform: name, Baseline: name == "bare",
				Params: workload.Params{}, Metrics: w.Metrics(nil),
			},
			Program: w, Source: w.Source(),
		})
	}
	return Design{Study: "weigh", Groups: []Group{g}, Seed: 7, Plan: plan}
}

func newRun(id string) record.Run {
	return record.Run{ID: id, Study: "weigh", Command: []string{"tare", "weigh"}, Started: time.Unix(1_700_000_000, 0), Status: record.Running}
}
