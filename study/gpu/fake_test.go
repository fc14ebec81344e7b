package gpu

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/image"
	"tare/platform"
	programs "tare/programs/gpu"
	"tare/record"
	"tare/study/kit"
	"tare/workload"
)

// synthetic is a result of round figures that no device ever gave, for the program and
// parameters of a command line.
func synthetic(args []string) programs.Result {
	parts := strings.Split(strings.TrimPrefix(args[0], "/gpu/"), "/")
	r := programs.Result{
		Schema: programs.Schema, Program: parts[1],
		Parameters:  programs.Parameters{Size: []int64{64}, Iterations: 2, Warmup: 1, Seed: 7, Memory: "pageable"},
		Build:       programs.Build{Kind: programs.Kind(parts[0])},
		Device:      programs.Device{Name: "synthetic device", ComputeCapability: "9.0", UUID: "GPU-0", Multiprocessors: 1, MemoryBytes: 1 << 30},
		Seconds:     programs.Seconds{MainAt: 100, Start: 0.25, Module: 0.5, Allocate: 0.125, ToDevice: 0.25, FromDevice: 0.125, Iterate: 1, Total: 3},
		Allocations: []programs.Call{{Bytes: 8, Seconds: 0.125}},
		Copies:      []programs.Copy{{Direction: "to_device", Bytes: 8, Seconds: 0.25}, {Direction: "from_device", Bytes: 8, Seconds: 0.125}},
		Kernels:     programs.Kernels{Bound: "bandwidth", Basis: "of a test"},
		Figures:     map[string]float64{},
	}
	for i := 1; i < len(args); i++ {
		value := ""
		if i+1 < len(args) {
			value = args[i+1]
		}
		switch args[i] {
		case "--size":
			r.Parameters.Size = nil
			for _, edge := range strings.Split(value, "x") {
				n, _ := strconv.ParseInt(edge, 10, 64)
				r.Parameters.Size = append(r.Parameters.Size, n)
			}
		case "--iterations":
			r.Parameters.Iterations, _ = strconv.Atoi(value)
		case "--warmup":
			r.Parameters.Warmup, _ = strconv.Atoi(value)
		case "--seed":
			r.Parameters.Seed, _ = strconv.ParseUint(value, 10, 64)
		case "--memory":
			r.Parameters.Memory = value
		case "--task":
			r.Parameters.Task = value
		case "--each-kernel":
			r.Parameters.EachKernel = true
		case "--check":
			r.Parameters.Check = true
			none := 0.0
			r.Check = &programs.Check{MaxError: &none, Tolerance: 1, Method: "of a test", Reason: "of a test", Valid: true}
		}
	}
	if r.Program == programs.LeNet && r.Parameters.Task == "" {
		r.Parameters.Task = "training"
	}
	for range r.Parameters.Iterations {
		r.Kernels.Iterations = append(r.Kernels.Iterations, 0.25)
		r.Kernels.Seconds += 0.25
	}
	r.Kernels.Bytes, r.Kernels.Flops, r.Kernels.Launches = 16, 32, int64(r.Parameters.Iterations)
	r.Kernels.BytesPerSecond, r.Kernels.FlopsPerSecond = 16/r.Kernels.Seconds, 32/r.Kernels.Seconds
	r.Kernels.Each = []programs.Kernel{{Name: "step", Launches: r.Kernels.Launches, Bytes: 16, Flops: 32}}
	if r.Parameters.EachKernel {
		r.Kernels.Each[0].Seconds = &r.Kernels.Seconds
	}
	if r.Program == programs.DeviceLimits {
		r.Figures = map[string]float64{"copy_bytes_per_second": 160, "triad_bytes_per_second": 150, "fma_flops_per_second": 1000, "launch_seconds": 1e-6}
	}
	return r
}

// fakePlatform launches what a test plays.
type fakePlatform struct {
	platform.Platform // nil: what is not overridden is not called

	name    string
	missing error
	launch  error
	exit    platform.Exit
	stderr  string
	// change changes what the program prints; number counts launches from 0.
	change func(number int, r *programs.Result)
	// does is what the program does to the host, by its spec.
	does func(spec platform.Spec)

	mu      sync.Mutex
	specs   []platform.Spec
	running int
}

func (p *fakePlatform) Name() string                    { return p.name }
func (p *fakePlatform) Check(context.Context) error     { return p.missing }
func (p *fakePlatform) Supports(platform.Setting) error { return nil }
func (p *fakePlatform) Launch(_ context.Context, spec platform.Spec) (platform.Instance, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.launch != nil {
		return nil, p.launch
	}
	r := synthetic(spec.Args)
	if p.change != nil {
		p.change(len(p.specs), &r)
	}
	p.specs = append(p.specs, spec)
	p.running++
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if p.does != nil {
		p.does(spec)
	}
	fmt.Fprintln(spec.Stdout, string(text))
	fmt.Fprint(spec.Stderr, p.stderr)
	return &fakeInstance{platform: p}, nil
}

func (p *fakePlatform) Prepare(context.Context, image.Image) error { return nil }

type fakeInstance struct {
	platform.Instance // nil likewise
	platform          *fakePlatform
}

func (i *fakeInstance) Wait(context.Context) (platform.Exit, error) {
	exit := i.platform.exit
	if exit.Elapsed == 0 {
		exit.Elapsed = 4 * time.Second
	}
	return exit, nil
}
func (i *fakeInstance) Usage() (platform.Usage, error) { return platform.Usage{CPU: time.Second}, nil }
func (i *fakeInstance) Stop(context.Context) error {
	i.platform.mu.Lock()
	defer i.platform.mu.Unlock()
	i.platform.running--
	return nil
}

// fakeHost has platforms by name, those that are not there failing their check.
func fakeHost(t *testing.T, names ...string) (Host, map[string]*fakePlatform) {
	all := map[string]*fakePlatform{}
	for _, n := range append([]string{Bare, Direct}, names...) {
		all[n] = &fakePlatform{name: n}
	}
	dir := t.TempDir()
	return Host{
		Host: kit.Host{
			Platform: func(name string) (platform.Platform, error) {
				if p, ok := all[name]; ok {
					return p, nil
				}
				return &fakePlatform{name: name, missing: &platform.Missing{What: "no " + name, Mend: "install it"}}, nil
			},
			Check: func(p platform.Platform) error { return p.Check(context.Background()) },
		},
		Scratch: func(_ context.Context, name string) (string, func() error, error) {
			at := filepath.Join(dir, name)
			return at, func() error { return os.RemoveAll(at) }, os.Mkdir(at, 0o755)
		},
	}, all
}

// found is what a host with a device has.
func found() *Found {
	return &Found{
		Root: "/root-of-a-test", Device: programs.Device{Name: "synthetic device", ComputeCapability: "9.0", UUID: "GPU-0"},
		Versions: programs.Versions{Driver: "13.0", Runtime: "12.8"}, Kinds: slices.Clone(programs.Kinds), Library: "/library-of-a-test", Unusable: map[string]string{},
	}
}

// planned are options of a fixed number of blocks.
func planned(o Options, h Host) Options {
	o.Plan = record.Plan{Blocks: 3, Level: 0.95, SmallestEffect: 0.02}
	o.Host = h
	return o
}

// made is a run whose figures are made up: what must be said of it is known.
type made struct {
	run    record.Run
	blocks int
}

func makeRun(t *testing.T, blocks int, change func(*Options), platforms ...string) *made {
	t.Helper()
	h, _ := fakeHost(t, platforms...)
	h.Found = found()
	o := planned(Default(), h)
	o.Platforms = append([]string{Bare}, platforms...)
	o.Subjects = []string{programs.ParticleFilter, programs.Stencil, programs.LeNet + "-training"}
	o.Builds, o.Memories = []string{string(programs.Exact), string(programs.PTX)}, []string{Pageable}
	if change != nil {
		change(&o)
	}
	d, err := Design(o)
	if err != nil {
		t.Fatal(err)
	}
	m := &made{run: record.Run{ID: "gpu-1", Study: Name, Status: record.Complete, Started: time.Now(), Plan: d.Plan, Command: []string{"tare", "gpu"}}, blocks: blocks}
	for _, g := range d.Groups {
		for _, c := range g.Conditions {
			m.run.Conditions = append(m.run.Conditions, c.Condition)
		}
	}
	return m
}

// wobble is the noise of a block, the same for all conditions, and a little of a
// condition's own.
func wobble(block, own int) float64 {
	return 1 + 0.02*math.Sin(float64(3*block)) + 0.001*math.Sin(float64(7*block+5*own))
}

// fill gives every trial its figures: level says a metric's of a condition, 0 for none.
func (m *made) fill(level func(c record.Condition, metric string) float64) *made {
	for at, c := range m.run.Conditions {
		for block := 1; block <= m.blocks; block++ {
			replicates := 1
			if c.Baseline {
				replicates = 2
			}
			for replicate := range replicates {
				t := record.Trial{ID: int64(len(m.run.Trials) + 1), Condition: c.ID, Workload: c.Workload, Block: block, Attempt: 1, Replicate: replicate, Started: m.run.Started}
				for i, metric := range c.Metrics {
					if v := level(c, metric.Name); v > 0 {
						t.Samples = append(t.Samples, record.Sample{Metric: metric.Name, Value: v * wobble(block, at+3*replicate+11*i)})
					}
				}
				m.run.Trials = append(m.run.Trials, t)
			}
		}
	}
	return m
}

// loses is how many times as long something takes in containers, by what it is.
type loses struct{ kernels, exact, cold, compile float64 }

// level gives figures of a container that loses so much: 1 of everything on bare metal.
func (l loses) level(c record.Condition, metric string) float64 {
	contained := c.Platform != Bare
	times := func(v float64) float64 {
		if contained {
			return v
		}
		return 1
	}
	of := cellOf(c)
	switch {
	case c.Factors[FactorProbe] == On && metric == metricKernelShare:
		return 100 * 25.85 * times(l.kernels) / (25.85*times(l.kernels) + 74.15)
	case c.Factors[FactorProbe] == On && metric == metricAPIShare:
		return 100 * 74.15 / (25.85*times(l.kernels) + 74.15)
	case metric == "kernels":
		return times(l.kernels)
	case metric == "module" && of.compiles() && of.cache == Cold:
		return times(l.compile)
	case metric == "wall" && of == ptxCold:
		return 2 * times(l.cold)
	case metric == "wall" || metric == "total":
		return times(l.exact)
	case metric == metricFMA || metric == metricCopy:
		return 4
	case slices.Contains([]string{"allocate", "to-device", "from-device", metricAPITime, metricLoads}, metric):
		return 1
	}
	return 0 // it is not recorded: each estimate takes its time
}

var _ workload.Trial = (*running)(nil)
