package keyvalue

import (
	"context"
	"fmt"
	"math/rand/v2"
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
	refuses platform.Network
	anyCPU  bool // it keeps no program to CPUs
	apart   bool // nobody reaches its host network
}

func (p *fakePlatform) Name() string { return p.name }

func (p *fakePlatform) Check(context.Context) error { return p.missing }

func (p *fakePlatform) Supports(s platform.Setting) error {
	if p.refuses != "" && s.Network == p.refuses {
		return &platform.Unsupported{Platform: p.name, Key: "network=" + string(s.Network), Reason: "a test's"}
	}
	if p.anyCPU && s.CPUSet != "" {
		return &platform.Unsupported{Platform: p.name, Key: "cpuset-cpus", Reason: "a test's"}
	}
	return nil
}

func (p *fakePlatform) Reaches(s platform.Setting) error {
	if p.apart && (s.Network == "" || s.Network == platform.NetworkHost) {
		return &platform.Unsupported{Platform: p.name, Key: "network=host", Reason: "nobody reaches it"}
	}
	return nil
}

// hosted is a machine with some platforms.
func hosted(on ...*fakePlatform) place.Host {
	return place.Host{Server: []int{1}, Load: []int{0}, Host: kit.Host{
		CPUs: []int{0, 1}, Memory: 16 << 30,
		Platform: func(name string) (platform.Platform, error) {
			for _, p := range on {
				if p.name == name {
					return p, nil
				}
			}
			return nil, fmt.Errorf("unknown platform %q", name)
		},
		Check: func(p platform.Platform) error { return p.(*fakePlatform).Check(context.Background()) },
	}}
}

func usual() place.Host {
	return hosted(&fakePlatform{name: place.Bare}, &fakePlatform{name: "docker"})
}

// options are those of a test's design.
func options(change ...func(*Options)) Options {
	o := Default()
	o.Commands, o.AppendOnly = []string{"get", "mset"}, []string{appendNo}
	o.Plan = record.Plan{Blocks: 6, Level: 0.95, SmallestEffect: 0.02}
	o.Host = usual()
	for _, c := range change {
		c(&o)
	}
	return o
}

func designed(t *testing.T, o Options) lab.Design { return kittest.Designed(t, Design, o) }

// cost is microseconds that a place adds: to a batch, to a request, and to a byte.
type cost struct{ batch, request, byte float64 }

func (a cost) and(b cost) cost {
	return cost{a.batch + b.batch, a.request + b.request, a.byte + b.byte}
}

func (a cost) of(pipeline, bytes float64) float64 {
	return a.batch/pipeline + a.request + a.byte*bytes
}

// truth is what containers really cost in a run that is made up.
type truth struct {
	container, volume, bind, network cost
	noise                            float64 // of a trial, in parts of a request's time
	cpu                              bool    // the server's CPU time is reported
	idle                             float64 // the server's share of time in which it waits for the load
	// disk is the writes a second that each storage brings to the disk.
	disk map[string]float64
}

// bare is the time of a request there: some ten microseconds, or one and a half in a
// pipeline.
var bare = cost{9, 1, 0.0006}

func (t truth) at(s spot) cost {
	if s.storage == place.Bare {
		return cost{}
	}
	c := t.container
	switch s.storage {
	case string(platform.StorageVolume):
		c = c.and(t.volume)
	case string(platform.StorageBind):
		c = c.and(t.bind)
	}
	if s.bridged() {
		c = c.and(t.network)
	}
	return c
}

// run makes up a run of a design.
func (t truth) run(d lab.Design) record.Run {
	random := rand.New(rand.NewPCG(11, 12))
	run := record.Run{ID: "io-1", Study: place.Study, Status: record.Complete, Started: time.Now(), Plan: d.Plan, Seed: 5}
	run.Finished = run.Started.Add(time.Minute)
	for _, g := range d.Groups {
		for _, c := range g.Conditions {
			run.Conditions = append(run.Conditions, c.Condition)
		}
		for block := 1; block <= d.Plan.Blocks; block++ {
			drift := 1 + 0.05*random.NormFloat64()
			for _, c := range g.Conditions {
				replicates := 1
				if c.Baseline {
					replicates = 2
				}
				for replicate := range replicates {
					trial := record.Trial{ID: int64(len(run.Trials) + 1), Condition: c.ID, Workload: c.Workload, Block: block, Attempt: 1, Replicate: replicate, Started: run.Started}
					own := func() float64 { return 1 + t.noise*random.NormFloat64() }
					if c.Factors[place.FactorFloor] != "" {
						trial.Samples = []record.Sample{{Metric: floorSyncs, Value: t.disk[c.Factors[place.FactorStorage]] * own() / drift}}
					}
					for _, metric := range throughputs(c.Condition) {
						pipeline, bytes := float64(place.Number(c.Condition, factorPipeline)), float64(place.Number(c.Condition, factorPayload)*values(commandOf(metric)))
						of := bare.of(pipeline, bytes)*drift*own() + t.at(spotOf(c.Condition)).of(pipeline, bytes)
						if persists(c.Condition) {
							of += 1e6 / t.disk[c.Factors[place.FactorStorage]] / 500
						}
						trial.Samples = append(trial.Samples, record.Sample{Metric: metric, Value: perSecond / of})
						if t.cpu {
							trial.Samples = append(trial.Samples, record.Sample{Metric: metric + workload.RedisCPU, Value: of * (1 - t.idle)})
						}
					}
					run.Trials = append(run.Trials, trial)
				}
			}
		}
	}
	return run
}
