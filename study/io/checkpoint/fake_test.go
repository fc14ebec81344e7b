package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"tare/kernel/filesystem"
	"tare/platform"
	"tare/record"
	"tare/study/io/place"
	"tare/study/kit"
	"tare/workload"
)

// fakeWorkload has the parameters of both workloads, and yields what a test says.
type fakeWorkload struct {
	name  string
	drive func(ctx context.Context, t workload.Trial) error
}

func (w *fakeWorkload) Name() string            { return w.name }
func (w *fakeWorkload) Summary() string         { return "a fake" }
func (w *fakeWorkload) Source() workload.Source { return workload.Source{Recipe: w.name} }

func (w *fakeWorkload) Params() []workload.Param {
	return []workload.Param{
		{Name: factorParticles, Default: "1000000"}, {Name: factorRanks, Default: "1"}, {Name: factorAPI, Default: POSIX},
		{Name: factorLayout, Default: FilePerRank}, {Name: factorCache, Default: Kept}, {Name: factorSync, Default: NoSync}, {Name: "seed", Default: "1"},
	}
}

// Program needs as much memory as disk, as a program that checks what it reads does.
func (w *fakeWorkload) Program(p workload.Params) (workload.Program, error) {
	if p[factorCache] == Bypassed && p[factorAPI] != POSIX {
		return workload.Program{}, errors.New("no way past the page cache")
	}
	particles, err := strconv.ParseInt(p[factorParticles], 10, 64)
	if err != nil {
		return workload.Program{}, err
	}
	ranks, err := strconv.ParseInt(p[factorRanks], 10, 64)
	bytes := particles * ranks * particleSize
	return workload.Program{Args: []string{"/usr/bin/" + w.name, p[factorParticles]}, Data: []string{"/data"}, MemoryNeed: bytes, DiskNeed: bytes}, err
}

func (w *fakeWorkload) Metrics(workload.Params) []workload.Metric { return rates }
func (w *fakeWorkload) Drive(ctx context.Context, t workload.Trial) error {
	return w.drive(ctx, t)
}

var rates = []workload.Metric{
	{Name: write, Unit: "B/s", Better: workload.Higher, Primary: true},
	{Name: read, Unit: "B/s", Better: workload.Higher, Primary: true},
}

// fakePlatform launches what a test plays.
type fakePlatform struct {
	platform.Platform // nil: what is not overridden is not called

	name    string
	missing error
	refuses platform.Storage
	stored  map[platform.Storage]string // directories; nil does not report them
	exit    platform.Exit
	launch  error
	specs   []platform.Spec
	running int
}

func (p *fakePlatform) Name() string                { return p.name }
func (p *fakePlatform) Check(context.Context) error { return p.missing }
func (p *fakePlatform) Supports(s platform.Setting) error {
	if p.refuses != "" && s.Storage == p.refuses {
		return &platform.Unsupported{Platform: p.name, Key: "storage=" + string(s.Storage), Reason: "a test's"}
	}
	return nil
}

func (p *fakePlatform) StoredAt(_ context.Context, s platform.Storage) (string, error) {
	if p.stored == nil {
		return "", errors.New("it does not say")
	}
	if s == "" {
		s = platform.StorageLayer
	}
	return p.stored[s], nil
}

func (p *fakePlatform) Launch(_ context.Context, spec platform.Spec) (platform.Instance, error) {
	if p.launch != nil {
		return nil, p.launch
	}
	p.specs = append(p.specs, spec)
	p.running++
	fmt.Fprint(spec.Stdout, "its output\n")
	fmt.Fprint(spec.Stderr, "its last word\n")
	return &fakeInstance{platform: p}, nil
}

type fakeInstance struct {
	platform.Instance // nil likewise
	platform          *fakePlatform
}

func (i *fakeInstance) Wait(context.Context) (platform.Exit, error) { return i.platform.exit, nil }
func (i *fakeInstance) Usage() (platform.Usage, error)              { return platform.Usage{CPU: time.Second}, nil }
func (i *fakeInstance) Stop(context.Context) error                  { i.platform.running--; return nil }

// host is a machine of a test's: its disks by directory.
type host struct {
	metal, engine *fakePlatform
	disks         map[string]filesystem.FileSystem
	dirty         filesystem.Dirty
	memory        int64
	cpus          int
}

// oneDisk is a host all of whose storage lies on one disk.
func oneDisk() *host {
	const mine, engines = "/var/lib/tare", "/var/lib/docker"
	disk := filesystem.FileSystem{Device: "8:1", Free: 100e9}
	return &host{
		metal:  &fakePlatform{name: place.Bare, stored: map[platform.Storage]string{platform.StorageLayer: mine}},
		engine: &fakePlatform{name: "docker", stored: map[platform.Storage]string{platform.StorageLayer: engines, platform.StorageVolume: engines, platform.StorageBind: mine}},
		disks:  map[string]filesystem.FileSystem{mine: disk, engines: disk},
		dirty:  filesystem.Dirty{Background: 1e9, Limit: 2e9}, memory: 64e9, cpus: 2,
	}
}

// twoDisks has the engine's own directory on another.
func twoDisks() *host {
	h := oneDisk()
	h.disks["/var/lib/docker"] = filesystem.FileSystem{Device: "8:2", Free: 50e9}
	return h
}

func (h *host) host() Host {
	return Host{
		Host: place.Host{Host: kit.Host{
			CPUs: make([]int, h.cpus), Memory: h.memory,
			Platform: func(name string) (platform.Platform, error) {
				switch name {
				case h.metal.name:
					return h.metal, nil
				case h.engine.name:
					return h.engine, nil
				}
				return nil, fmt.Errorf("unknown platform %q", name)
			},
			Check: func(p platform.Platform) error { return p.Check(context.Background()) },
		}},
		Workload: func(name string) (workload.Workload, error) {
			if name != program && name != floor {
				return nil, fmt.Errorf("no workload %q", name)
			}
			return &fakeWorkload{name: name}, nil
		},
		Disk: func(path string) (filesystem.FileSystem, error) {
			fs, ok := h.disks[path]
			if !ok {
				return fs, fmt.Errorf("no disk at %s", path)
			}
			return fs, nil
		},
		Dirty: func() (filesystem.Dirty, error) { return h.dirty, nil },
	}
}

// asked are options on a host, of a fixed number of blocks.
func asked(o Options, h *host) Options {
	o.Plan = record.Plan{Blocks: 3, Level: 0.95, SmallestEffect: 0.02}
	o.Host = h.host()
	return o
}

// made is a run whose figures are made up: what must be said of it is known.
type made struct {
	run    record.Run
	blocks int
	// shakes is how much more a block's own noise is than a fiftieth, for floors.
	shakes float64
}

func makeRun(blocks int) *made {
	return &made{run: record.Run{ID: "io-1", Study: place.Study, Status: record.Complete, Started: time.Now(), Plan: record.Plan{Level: 0.95, SmallestEffect: 0.02}}, blocks: blocks}
}

// wobble is the noise of a block, the same for all conditions, and a little of a
// condition's own.
func wobble(block, own int, common float64) float64 {
	return 1 + common*math.Sin(float64(3*block)) + 0.002*math.Sin(float64(7*block+5*own))
}

var (
	onMetal  = place.Metal
	inLayer  = place.Place{Platform: "docker", Storage: platform.StorageLayer}
	inVolume = place.Place{Platform: "docker", Storage: platform.StorageVolume}
	inBind   = place.Place{Platform: "docker", Storage: platform.StorageBind}
)

// base is the cell around which those of the tests lie.
var base = cell{particles: 1_000_000, ranks: 2, api: POSIX, layout: FilePerRank, cache: Kept, sync: NoSync}

func with(change func(*cell)) cell {
	c := base
	change(&c)
	return c
}

var dropped = with(func(c *cell) { c.cache = Dropped })

// add adds a place in a cell, with the rates of its writes and reads in MB/s; the first
// of a cell is its baseline.
func (m *made) add(c cell, p place.Place, writes, reads float64) {
	m.condition(c, p, p.Label(), false, writes, reads)
}

// floor adds the floor of bare metal's disk.
func (m *made) floor(c cell, writes, reads float64) {
	m.condition(c, place.Metal, "bare, fio floor", true, writes, reads)
}

func (m *made) condition(c cell, p place.Place, label string, isFloor bool, writes, reads float64) {
	factors := p.Factors(place.Haccio)
	for k, v := range c.factors() {
		factors[k] = v
	}
	factors[factorDisk] = "8:1"
	common := 0.02
	if isFloor {
		factors[place.FactorFloor] = withFio
		common += m.shakes
	}
	first := !slices.ContainsFunc(m.run.Conditions, func(of record.Condition) bool { return of.Workload == c.group() })
	of := record.Condition{
		ID: c.group() + "@" + label, Label: label, Workload: c.group(), Platform: p.Platform, Setting: p.Setting(platform.Setting{}),
		Factors: factors, Baseline: first, Metrics: rates,
	}
	m.run.Conditions = append(m.run.Conditions, of)
	for block := 1; block <= m.blocks; block++ {
		for replicate := range map[bool]int{true: 2, false: 1}[first] {
			noise := wobble(block, len(m.run.Conditions)+3*replicate, common)
			m.run.Trials = append(m.run.Trials, record.Trial{
				ID: int64(len(m.run.Trials) + 1), Condition: of.ID, Workload: of.Workload, Block: block, Attempt: 1, Replicate: replicate, Started: m.run.Started,
				Samples:    []record.Sample{{Metric: write, Value: writes * 1e6 * noise}, {Metric: read, Value: reads * 1e6 * noise}},
				Covariates: map[string]float64{flushSeconds: 0.25, dirtyBefore: 3e6, dirtyLimit: 1e9, dirtyBackground: 5e7},
			})
		}
	}
}
