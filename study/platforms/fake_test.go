package platforms

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/lab"
	"tare/platform"
	"tare/probe/causes"
	"tare/record"
	"tare/study/kit"
	"tare/workload"
)

// fakePlatform stands where nothing is launched.
type fakePlatform struct {
	platform.Platform // nil: what is not overridden is not called

	name     string
	missing  error
	refuses  string // the key of a setting
	emulated string
}

func (p *fakePlatform) Name() string                { return p.name }
func (p *fakePlatform) Check(context.Context) error { return p.missing }
func (p *fakePlatform) NotRepresentative() string   { return p.emulated }

func (p *fakePlatform) Supports(s platform.Setting) error {
	for _, pair := range s.Pairs() {
		if pair.Key == p.refuses {
			return &platform.Unsupported{Platform: p.name, Key: p.refuses, Reason: "a test's"}
		}
	}
	if KindOf(p.name) == VM && s.CPUs != math.Trunc(s.CPUs) {
		return &platform.Unsupported{Platform: p.name, Key: "cpus", Reason: "without a quota only whole CPUs can be granted"}
	}
	return nil
}

// fakeWorkload is one of S2's by its name.
type fakeWorkload struct {
	name    string
	service bool
	needs   int64
	parts   bool
	ranks   bool
}

func (w fakeWorkload) Name() string            { return w.name }
func (w fakeWorkload) Summary() string         { return "a test's" }
func (w fakeWorkload) Source() workload.Source { return workload.Source{Recipe: "none"} }

func (w fakeWorkload) Params() []workload.Param {
	params := []workload.Param{{Name: "requests", Default: "1000"}}
	if w.ranks {
		params = append(params, workload.Param{Name: paramRanks, Default: "auto"})
	}
	if w.parts {
		params = append(params, workload.Param{Name: paramTasks, Default: "1"})
	}
	return params
}

func (w fakeWorkload) Program(workload.Params) (workload.Program, error) {
	return workload.Program{Args: []string{"/x"}, Service: w.service, MemoryNeed: w.needs}, nil
}

func (w fakeWorkload) Metrics(workload.Params) []workload.Metric {
	if w.service {
		return []workload.Metric{{Name: "mean", Unit: "ms", Better: workload.Lower, Primary: true}}
	}
	return []workload.Metric{{Name: "elapsed", Unit: "s", Better: workload.Lower, Primary: true}}
}

func (w fakeWorkload) Drive(context.Context, workload.Trial) error { return nil }

func subjectsOf(names ...string) (all []workload.Subject) {
	for _, name := range names {
		all = append(all, workload.Subject{Workload: fakeWorkload{name: name, service: slices.Contains(serving, name), parts: name == "ffmpeg"}})
	}
	return all
}

// usual are the platforms that a test's host has.
func usual() []*fakePlatform {
	return []*fakePlatform{{name: Bare}, {name: Held}, {name: "oci:runc"}, {name: "docker"}, {name: "vm:kvm/bare"}, {name: "vm:kvm/oci:runc"}, {name: "vm:kvm+cpu=default/bare"},
		{name: "vm:tcg/bare", emulated: "emulated by tcg"}, {name: "vm:tcg/oci:runc", emulated: "emulated by tcg"}}
}

func hosted(cpus int, on ...*fakePlatform) Host {
	h := Host{
		Host: kit.Host{Platform: func(name string) (platform.Platform, error) {
			for _, p := range on {
				if p.name == name {
					return p, nil
				}
			}
			if head, inner, ok := machine(name); ok && strings.Contains(head, "+cpus=") {
				engine, _, _ := strings.Cut(head, "+")
				for _, p := range on {
					if p.name == engine+"/"+inner || inner == Held && p.name == engine+"/"+Bare {
						return &fakePlatform{name: name, emulated: p.emulated}, nil
					}
				}
			}
			return nil, fmt.Errorf("unknown platform %q", name)
		}, Check: func(p platform.Platform) error { return p.Check(context.Background()) }},
		Confine: func([]int) (func() error, error) { return func() error { return nil }, nil },
		Watch: func(causes.Target, causes.Options) (Watcher, error) {
			return nil, fmt.Errorf("nothing is watched in a test's design")
		},
		Keep: func(int) (func() error, error) { return func() error { return nil }, nil },
	}
	for n := range cpus {
		h.CPUs = append(h.CPUs, n)
	}
	return h
}

// options are those of a test's design, on a host of 16 CPUs.
func options(change ...func(*Options)) Options {
	o := Full(4)
	o.Sizes = []Size{{CPUs: 1}, {CPUs: 2}, {CPUs: 4}, {CPUs: 8}}
	o.Causes = false
	o.Plan = record.Plan{Blocks: 8, Level: 0.95, SmallestEffect: 0.02}
	o.Subjects = subjectsOf("ffmpeg")
	o.Host = hosted(16, usual()...)
	for _, c := range change {
		c(&o)
	}
	return o
}

func onPlatforms(names ...string) func(*Options) {
	return func(o *Options) { o.Platforms, o.Chosen = names, true }
}

func ofWorkloads(names ...string) func(*Options) {
	return func(o *Options) { o.Subjects = subjectsOf(names...) }
}

func ofSizes(cpus ...float64) func(*Options) {
	return func(o *Options) {
		o.Sizes = nil
		for _, n := range cpus {
			o.Sizes = append(o.Sizes, Size{CPUs: n})
		}
	}
}

func withCPUs(n int) func(*Options) { return func(o *Options) { o.Host = hosted(n, usual()...) } }

func designed(t *testing.T, o Options) lab.Design {
	t.Helper()
	d, err := Design(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// world says what is so of a made-up machine: how many times bare metal's time a condition
// takes, beyond what it is granted less.
type world func(c record.Condition) float64

func alike(record.Condition) float64 { return 1 }

// by makes what is picked take so many times as long.
func (w world) by(times float64, picked ...func(record.Condition) bool) world {
	return func(c record.Condition) float64 {
		for _, p := range picked {
			if !p(c) {
				return w(c)
			}
		}
		return times * w(c)
	}
}

func isKind(k Kind) func(record.Condition) bool {
	return func(c record.Condition) bool { return KindOf(c.Platform) == k }
}

func isPreset(p string) func(record.Condition) bool {
	return func(c record.Condition) bool { return preset(c) == p }
}

// noise is the relative spread of a trial.
const noise = 0.003

// measured carries a design out in a made-up world; watched gives covariates.
func measured(d lab.Design, w world, watched ...func(c record.Condition) map[string]float64) record.Run {
	return drawn(d, w, noise, 1, watched...)
}

// drawn does so with trials of a relative spread, drawn with a seed.
func drawn(
	d lab.Design, w world, noise float64, seed uint64, watched ...func(c record.Condition) map[string]float64,
) record.Run {
	run := record.Run{ID: "platforms-1", Study: Name, Status: record.Complete, Started: time.Now(), Plan: d.Plan, Host: record.Host{CPUs: 2}}
	random := rand.New(rand.NewPCG(seed, 2))
	for _, g := range d.Groups {
		for _, c := range g.Conditions {
			run.Conditions = append(run.Conditions, c.Condition)
		}
		for block := 1; block <= d.Plan.Blocks; block++ {
			drift := 1 + 0.05*random.NormFloat64() // the block's, and the same for all
			for _, c := range g.Conditions {
				executions := 1
				if c.Baseline && !g.Once {
					executions = 2
				}
				for replicate := range executions {
					time := w(c.Condition) * missing(c.Condition) * drift * (1 + noise*random.NormFloat64())
					t := record.Trial{ID: int64(len(run.Trials) + 1), Condition: c.ID, Workload: c.Workload, Block: block, Attempt: 1, Replicate: replicate,
						Samples: []record.Sample{{Metric: c.Metrics[0].Name, Value: time}}, Covariates: map[string]float64{"tare_cpu_share": 0.01}}
					for _, of := range watched {
						if g.Once {
							for name, v := range of(c.Condition) {
								t.Covariates[name] = v * (1 + noise*random.NormFloat64())
							}
						}
					}
					run.Trials = append(run.Trials, t)
				}
			}
		}
	}
	return run
}

// ids are those of a design's conditions, group by group.
func ids(d lab.Design) (all []string) {
	for _, g := range d.Groups {
		for _, c := range g.Conditions {
			all = append(all, c.ID)
		}
	}
	return all
}

func has(d lab.Design, id string) bool { return slices.Contains(ids(d), id) }

func tasksAre(n int) func(record.Condition) bool {
	return func(c record.Condition) bool { return c.Factors[factorTasks] == strconv.Itoa(n) }
}

func hostHas(n int) func(record.Condition) bool {
	return func(c record.Condition) bool { return c.Factors[factorHost] == strconv.Itoa(n) }
}

// missing is by how much longer a program that uses every CPU takes on what it is granted.
func missing(c record.Condition) float64 {
	n := number(c, factorSize)
	if KindOf(c.Platform) == BM || math.IsNaN(n) {
		return 1
	}
	return math.Ceil(n) / n
}
