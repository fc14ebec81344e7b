package bandwidth

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/lab"
	"tare/platform"
	"tare/record"
	"tare/study/io/place"
	"tare/study/kit"
	"tare/study/kit/kittest"
	"tare/workload"
)

// fakePlatform stands where nothing is launched.
type fakePlatform struct {
	platform.Platform // nil: what is not overridden is not called

	name    string
	missing error
	anyCPU  bool // it keeps no program to CPUs
}

func (p *fakePlatform) Name() string                { return p.name }
func (p *fakePlatform) Check(context.Context) error { return p.missing }

func (p *fakePlatform) Supports(s platform.Setting) error {
	if p.anyCPU && s.CPUSet != "" {
		return &platform.Unsupported{Platform: p.name, Key: "cpuset-cpus", Reason: "a test's"}
	}
	return nil
}

// hosted is a machine with two CPUs and some platforms.
func hosted(memory int64, on ...*fakePlatform) place.Host {
	return place.Host{Host: kit.Host{
		CPUs: []int{0, 1}, Memory: memory,
		Platform: func(name string) (platform.Platform, error) {
			for _, p := range on {
				if p.name == name {
					return p, nil
				}
			}
			return nil, fmt.Errorf("unknown platform %q", name)
		},
		Check: func(p platform.Platform) error { return p.Check(context.Background()) },
	}}
}

func usual() place.Host {
	return hosted(16<<30, &fakePlatform{name: place.Bare}, &fakePlatform{name: "docker"}, &fakePlatform{name: "oci:runc"})
}

// options are those of a test's design.
func options(change ...func(*Options)) Options {
	o := Default(0)
	o.Plan = record.Plan{Blocks: 6, Level: 0.95, SmallestEffect: 0.02}
	o.Host = usual()
	for _, c := range change {
		c(&o)
	}
	return o
}

func designed(t *testing.T, o Options) lab.Design { return kittest.Designed(t, Design, o) }

// world says what is so of a made-up machine: the rate that a condition has of a
// metric, in bytes a second.
type world func(c record.Condition, metric string) float64

// alike is a machine on which every place has the same bandwidth; what is smaller than
// ten million elements lies in caches.
func alike(c record.Condition, metric string) float64 {
	if metric == cacheResident {
		if place.Number(c, factorElements) < leastElements {
			return 1
		}
		return 0
	}
	return 20e9 * float64(min(2, place.Number(c, factorProcesses)))
}

// slower makes conditions slower that are picked.
func slower(than world, by float64, picked func(record.Condition) bool) world {
	return func(c record.Condition, metric string) float64 {
		v := than(c, metric)
		if picked(c) {
			v *= by
		}
		return v
	}
}

func inContainer(c record.Condition) bool { return c.Factors[place.FactorStorage] != place.Bare }

func onBind(c record.Condition) bool {
	return c.Factors[place.FactorStorage] == string(platform.StorageBind)
}

// noise is the relative spread of a trial.
const noise = 0.002

// measured carries a design out in a made-up world.
func measured(d lab.Design, w world) record.Run {
	run := record.Run{ID: "io-1", Study: place.Study, Status: record.Complete, Started: time.Now(), Plan: d.Plan, Host: record.Host{CPUs: 2}}
	random := rand.New(rand.NewPCG(1, 2))
	for _, g := range d.Groups {
		for _, c := range g.Conditions {
			run.Conditions = append(run.Conditions, c.Condition)
		}
		for block := 1; block <= d.Plan.Blocks; block++ {
			drift := 1 + 0.05*random.NormFloat64() // the block's, and the same for all
			for _, c := range g.Conditions {
				for replicate := range map[bool]int{true: 2, false: 1}[c.Baseline] {
					run.Trials = append(run.Trials, trialOf(run, c.Condition, block, replicate, func(metric string) float64 {
						v := w(c.Condition, metric)
						if metric != cacheResident {
							v *= drift * (1 + noise*random.NormFloat64())
						}
						return v
					}))
				}
			}
		}
	}
	return run
}

func trialOf(run record.Run, c record.Condition, block, replicate int, value func(metric string) float64) record.Trial {
	t := record.Trial{ID: int64(len(run.Trials) + 1), Condition: c.ID, Workload: c.Workload, Block: block, Attempt: 1, Replicate: replicate, Started: run.Started}
	for _, m := range c.Metrics {
		if strings.HasSuffix(m.Name, "-iterations") {
			continue // which nothing here reads, and every analysis takes its time over
		}
		t.Samples = append(t.Samples, record.Sample{Metric: m.Name, Value: value(m.Name)})
	}
	return t
}

// imported is a run as it comes from elsewhere: platforms of any name, the kernels'
// rates alone, nothing twice, and nothing that pairs the repetitions.
func imported(w world, spread float64, cells ...cell) record.Run {
	run := record.Run{ID: "io-2", Study: place.Study, Status: record.Imported, Started: time.Now(), Host: record.Host{CPUs: 2},
		Plan: record.Plan{Level: 0.95, SmallestEffect: 0.02, Imported: &record.Import{}}}
	random := rand.New(rand.NewPCG(3, 4))
	var metrics []workload.Metric
	for _, kernel := range kernels {
		metrics = append(metrics, workload.Metric{Name: kernel, Unit: "B/s", Better: workload.Higher, Primary: true})
	}
	for _, at := range cells {
		for i, storage := range []string{place.Bare, string(platform.StorageVolume), string(platform.StorageBind)} {
			c := record.Condition{
				ID: at.group() + "@" + storage, Label: storage, Workload: at.group(), Platform: "somewhere " + storage, Baseline: i == 0, Metrics: metrics,
				Factors: map[string]string{place.FactorOf: place.Stream, place.FactorStorage: storage,
					factorElements: strconv.FormatInt(at.elements, 10), factorProcesses: strconv.Itoa(at.processes)},
			}
			run.Conditions = append(run.Conditions, c)
			for block := 1; block <= 5; block++ {
				run.Trials = append(run.Trials, trialOf(run, c, block, 0, func(metric string) float64 {
					return w(c, metric) * (1 + spread*random.NormFloat64())
				}))
			}
		}
	}
	return run
}

// ids are those of a design's conditions, group by group.
func ids(d lab.Design) []string {
	var all []string
	for _, g := range d.Groups {
		for _, c := range g.Conditions {
			all = append(all, c.ID)
		}
	}
	return all
}

// has is whether a design has a condition.
func has(d lab.Design, id string) bool { return slices.Contains(ids(d), id) }
