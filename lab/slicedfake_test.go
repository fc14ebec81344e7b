package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/platform"
	"tare/record"
	"tare/workload"
)

// stage is what the instances of rounds stand on: it sees every step that is taken on
// them, and fails those that a test names.
type stage struct {
	t     *testing.T
	clock *clock
	// fail is asked before each step ("launch", "ready", "slices", "load", "freeze",
	// "thaw", "usage", "stop", "create", "start", "drive"), the n-th of its name from 1.
	fail  func(step string, n int, of *standIn) error
	count map[string]int
	alive map[*standIn]bool
	seen  []*standIn // all that were launched, in that order
	loads []string   // conditions in the order in which they were loaded
	ports map[int]int
	rests int
}

func newStage(t *testing.T, b *bench) *stage {
	s := &stage{t: t, clock: b.clock, count: map[string]int{}, alive: map[*standIn]bool{}, ports: map[int]int{}}
	b.Rest = func(d time.Duration) { s.rests++; b.clock.pass(d) }
	b.PortFree = func(int) bool { return true }
	b.Proc = t.TempDir() // of a host on which nothing runs: there are many strips
	if err := os.WriteFile(filepath.Join(b.Proc, "stat"), []byte("cpu 1 0 1 9 0 0 0 0 0 0\ncpu0 1 0 1 9 0 0 0 0 0 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	lookUp := b.Platforms
	b.Platforms = func(name string) (platform.Platform, error) {
		p, err := lookUp(name)
		if err != nil {
			return nil, err
		}
		return &freezer{fakePlatform: p.(*fakePlatform), stage: s}, nil
	}
	t.Cleanup(func() {
		if len(s.alive) > 0 {
			t.Errorf("%d instances are left", len(s.alive))
		}
	})
	return s
}

func (s *stage) step(name string, of *standIn) error {
	s.count[name]++
	if s.fail == nil {
		return nil
	}
	return s.fail(name, s.count[name], of)
}

// freezer is a platform whose instances freeze.
type freezer struct {
	*fakePlatform
	stage *stage
}

func (p *freezer) Freezes(context.Context, platform.Setting) error { return nil }

func (p *freezer) Launch(ctx context.Context, spec platform.Spec) (platform.Instance, error) {
	i := &standIn{stage: p.stage, platform: p.name, spec: spec}
	if err := p.stage.step("launch", i); err != nil {
		return nil, err
	}
	inner, err := p.fakePlatform.Launch(ctx, spec)
	if err != nil {
		return nil, err
	}
	i.Instance = inner
	i.stage.alive[i] = true
	i.stage.seen = append(i.stage.seen, i)
	for _, port := range spec.Ports {
		for other := range i.stage.alive {
			if other != i && len(other.spec.Ports) > 0 && other.spec.Ports[0] == port {
				p.stage.t.Errorf("port %d is given twice", port)
			}
		}
	}
	p.clock.pass(100 * time.Millisecond)
	return i, nil
}

// standIn is an instance that freezes.
type standIn struct {
	platform.Instance
	stage    *stage
	platform string
	spec     platform.Spec
	frozen   bool
	loads    int
	cpu      time.Duration
}

func (i *standIn) Freeze(context.Context) error {
	if err := i.stage.step("freeze", i); err != nil {
		return err
	}
	i.frozen = true
	return nil
}

func (i *standIn) Thaw(context.Context) error {
	if err := i.stage.step("thaw", i); err != nil {
		return err
	}
	i.frozen = false
	return nil
}

func (i *standIn) Usage() (platform.Usage, error) {
	return platform.Usage{CPU: i.cpu}, i.stage.step("usage", i)
}

func (i *standIn) Stop(ctx context.Context) error {
	delete(i.stage.alive, i)
	return errors.Join(i.Instance.Stop(ctx), i.stage.step("stop", i))
}

// slicedFake is a service whose load is cut into slices. Its rate is 10,000 requests a
// second, times what its function says.
type slicedFake struct {
	*fakeWorkload
	stage  *stage
	factor func(of *standIn, w workload.Stretch) float64
	need   int64
	drives []workload.Drive
	fixed  bool
}

const fakeRate = 10_000

func (w *slicedFake) Program(p workload.Params) (workload.Program, error) {
	port, err := strconv.Atoi(p["port"])
	if err != nil {
		port = 6379
	}
	return workload.Program{Args: []string{"/bin/serve"}, Service: true, Ports: []int{port}, MemoryNeed: w.need}, nil
}

func (w *slicedFake) Placed(_ workload.Params, at workload.Place) (workload.Params, error) {
	if w.fixed {
		return nil, &workload.Unplaceable{Workload: w.name, Reason: "its port is in its image"}
	}
	return workload.Params{"port": strconv.Itoa(at.Port)}, nil
}

func (w *slicedFake) Drives(workload.Params) ([]workload.Drive, error) {
	if w.drives == nil {
		return nil, errors.New("threads are of the load program: --design blocks")
	}
	return w.drives, nil
}

func (w *slicedFake) SliceMetrics(workload.Params) []workload.Metric {
	return []workload.Metric{
		{Name: "throughput", Unit: "requests/s", Better: workload.Higher, Primary: true, Part: "get", Figure: workload.FigureRate},
		{Name: "cpu", Unit: "us", Better: workload.Lower, Primary: true, Part: "get", Figure: workload.FigureCPU},
	}
}

func (w *slicedFake) Ready(_ context.Context, t workload.Trial) error {
	return w.stage.step("ready", t.(*trial).inst.(*standIn))
}

func (w *slicedFake) Slices(_ context.Context, t workload.Trial, _ uint64) (workload.Slicer, error) {
	i := t.(*trial).inst.(*standIn)
	return &fakeSlicer{of: w, on: i}, w.stage.step("slices", i)
}

type fakeSlicer struct {
	of *slicedFake
	on *standIn
}

func (s *fakeSlicer) Close() error { return nil }

func (s *fakeSlicer) Load(_ context.Context, w workload.Stretch) ([]workload.Measured, error) {
	stage := s.of.stage
	var thawed []string
	for i := range stage.alive {
		if !i.frozen {
			thawed = append(thawed, i.spec.Name)
		}
	}
	if s.on.frozen || len(thawed) != 1 {
		stage.t.Errorf("%s is loaded while %q are thawed", s.on.spec.Name, thawed)
	}
	if err := stage.step("load", s.on); err != nil {
		return nil, err
	}
	s.on.loads++
	stage.loads = append(stage.loads, s.on.platform)
	factor := 1.0
	if s.of.factor != nil {
		factor = s.of.factor(s.on, w)
	}
	rate := fakeRate * factor
	if w.Rate > 0 {
		rate = w.Rate
	}
	stage.clock.pass(w.Duration)
	s.on.cpu += time.Duration(float64(w.Duration) * 0.9)
	return []workload.Measured{{
		Part: w.Drive, Window: w.Duration - w.Ramp, Amount: rate * (w.Duration - w.Ramp).Seconds(), Worked: rate * w.Duration.Seconds(), Load: time.Millisecond,
	}}, nil
}

// executedFake is a program that runs to its end.
type executedFake struct {
	*fakeWorkload
	stage *stage
}

func (w *executedFake) Drive(ctx context.Context, t workload.Trial) error {
	i := t.(*trial).inst.(*standIn)
	for other := range w.stage.alive {
		if other != i && other.loads == 0 {
			w.stage.t.Errorf("%s runs beside %s", other.spec.Name, i.spec.Name)
		}
	}
	i.loads++
	if err := w.stage.step("drive", i); err != nil {
		return err
	}
	return w.fakeWorkload.Drive(ctx, t)
}

// creator is a platform that lays programs out ahead of their start.
type creator struct {
	*freezer
	atRest map[*created]bool
}

func (p *creator) Create(_ context.Context, spec platform.Spec) (platform.Created, error) {
	if err := p.stage.step("create", nil); err != nil {
		return nil, err
	}
	c := &created{on: p, spec: spec}
	p.atRest[c] = true
	return c, nil
}

type created struct {
	on   *creator
	spec platform.Spec
	inst platform.Instance
}

func (c *created) ID() string { return c.spec.Name }
func (c *created) Start(ctx context.Context) (err error) {
	if err := c.on.stage.step("start", nil); err != nil {
		return err
	}
	c.inst, err = c.on.Launch(ctx, c.spec)
	return err
}
func (c *created) Instance(context.Context) (platform.Instance, error) {
	delete(c.on.atRest, c) // it is the instance's to stop
	return c.inst, nil
}
func (c *created) Stop(ctx context.Context) error {
	delete(c.on.atRest, c)
	if c.inst != nil {
		return c.inst.Stop(ctx)
	}
	return nil
}

// inRounds is a design of rounds over platforms, the first of which is the baseline.
func inRounds(w workload.Workload, plan record.Plan, platforms ...string) Design {
	plan.Design = record.DesignRounds
	if plan.Level == 0 {
		plan.Level, plan.SmallestEffect = 0.95, 0.02
	}
	g := Group{Workload: w.Name()}
	for _, name := range platforms {
		g.Conditions = append(g.Conditions, Condition{
			Condition: record.Condition{
				ID: w.Name() + "@" + name, Label: name, Workload: w.Name(), Platform: name, Baseline: name == platforms[0],
				Params: workload.Params{}, Metrics: w.Metrics(nil),
			},
			Program: w, Source: w.Source(),
		})
	}
	return Design{Study: "weigh", Groups: []Group{g}, Seed: 7, Plan: plan}
}

// getDrive is a closed loop, and getDrives the same with one at half of its rate.
var (
	getDrive  = []workload.Drive{{Name: "get", Least: 100}}
	getDrives = []workload.Drive{{Name: "get", Least: 100}, {Name: "get@half", HalfOf: "get"}}
)

func sliced(s *stage, drives []workload.Drive) *slicedFake {
	random := rand.New(rand.NewPCG(1, 2))
	levels := map[*standIn]float64{}
	// Launches differ by more than strips do, so that a round has few strips.
	return &slicedFake{fakeWorkload: &fakeWorkload{name: "w", value: constant(1)}, stage: s, drives: drives, factor: func(of *standIn, _ workload.Stretch) float64 {
		if levels[of] == 0 {
			levels[of] = math.Exp(0.01 * random.NormFloat64())
		}
		return levels[of] * math.Exp(0.0001*random.NormFloat64())
	}}
}

// warned gives the warnings that hold a text.
func (b *bench) warned(part string) (found []string) {
	for _, e := range b.events {
		if e.Kind == Warned && strings.Contains(e.Text, part) {
			found = append(found, e.Text)
		}
	}
	return found
}

// places are the conditions of a run's slices of estimates, strip by strip, in the order
// in which they were measured: "1.3: w@box w@bare w@bare".
func places(run record.Run) map[string][]string {
	at := map[string][]string{}
	for _, t := range run.Trials {
		for _, s := range t.Slices {
			if s.Control != "" || t.Block == 0 {
				continue
			}
			key := fmt.Sprintf("%d.%d", t.Block, s.Strip)
			for len(at[key]) <= s.Position {
				at[key] = append(at[key], "")
			}
			at[key][s.Position] += fmt.Sprintf("%s/%d", t.Condition, t.Replicate)
		}
	}
	return at
}
