package keyvalue

import (
	"slices"
	"strings"

	"tare/platform"
	"tare/record"
	"tare/study/io/place"
	"tare/study/kit"
	"tare/workload"
)

// Options are what the user asked for.
type Options struct {
	Platforms  []string // of the containers
	Commands   []string // tests of redis-benchmark
	Payloads   []int    // bytes of a value
	Pipelines  []int
	Threads    []int // of the load program; 0 is none
	IOThreads  []int // of the server
	Clients    int
	AppendOnly []string // no, everysec, always
	// Requests is how many each command has in a trial; 0 is Scaled.
	Requests int
	// Scaled is how many a command has without a pipeline, of small values; with one so
	// many times more, and of large values fewer, that trials take about as long.
	Scaled   int
	Storages []platform.Storage
	Networks []platform.Network
	// Syncs is how often the disk floor writes.
	Syncs int
	// Cross takes every combination of the levels; without it payloads and pipelines are
	// crossed, and the others varied one at a time.
	Cross bool
	// Base holds for every condition, but for storage and network. Its CPUSet is the
	// server's; where it is empty, the host's place for servers is.
	Base platform.Setting

	Plan record.Plan
	Seed int64
	Host place.Host
}

// Default are the options of a run of some ten minutes: the cells that decide S5.3,
// and one in which storage matters.
func Default() Options {
	return Options{
		Platforms:  []string{"docker"},
		Commands:   slices.Clone(Commands),
		Payloads:   []int{3, 1000},
		Pipelines:  []int{1, 10},
		Threads:    []int{0},
		IOThreads:  []int{1},
		Clients:    512,
		AppendOnly: []string{appendNo, appendAlways},
		Scaled:     20_000,
		Syncs:      300,
		Storages: []platform.Storage{
			platform.StorageLayer,
			platform.StorageVolume,
			platform.StorageBind,
			platform.StorageTmpfs,
		},
		Networks: []platform.Network{
			platform.NetworkHost,
			platform.NetworkBridge,
			platform.NetworkProxy,
			platform.NetworkNAT,
		},
	}
}

// Quick are those of a run of about a minute: few requests of one command at two rates, in a volume.
func Quick() Options {
	o := Default()
	o.Commands, o.Payloads = []string{"get"}, []int{3}
	o.AppendOnly, o.Scaled = []string{appendNo}, 10_000
	o.Storages = []platform.Storage{platform.StorageVolume}
	o.Networks = []platform.Network{platform.NetworkHost, platform.NetworkBridge}
	return o
}

// Full is S5's grid, with as many requests as there, and the engines that S5 left for later.
func Full() Options {
	o := Default()
	o.Platforms = append(o.Platforms, place.FurtherEngines...)
	o.Payloads, o.Pipelines = []int{3, 100, 1000}, []int{1, 3, 5, 10}
	o.Threads, o.IOThreads = []int{0, 12, 24, 36, 48}, []int{1, 2, 4, 8}
	o.AppendOnly = []string{appendNo, appendEverySec, appendAlways}
	o.Requests, o.Syncs, o.Cross = 1_000_000, 1000, true
	return o
}

// Bounds of what may be asked for; the workload has others of its own.
const (
	leastScaled = 1000
	leastSyncs  = 10
)

// check refuses what cannot be measured, in the words of the command's flags.
func (o Options) check(redis workload.Workload) error {
	for _, of := range []struct {
		flag  string
		given int
	}{
		{"platform", len(o.Platforms)}, {"command", len(o.Commands)}, {"payload", len(o.Payloads)},
		{"pipeline", len(o.Pipelines)}, {"threads", len(o.Threads)}, {"io-threads", len(o.IOThreads)},
		{"appendonly", len(o.AppendOnly)}, {"storage", len(o.Storages)}, {"network", len(o.Networks)},
	} {
		if of.given == 0 {
			return kit.Usagef("--%s: want at least one", of.flag)
		}
	}
	for _, flag := range []struct {
		name   string
		levels []int
	}{{"payload", o.Payloads}, {"pipeline", o.Pipelines}, {"threads", o.Threads}, {"io-threads", o.IOThreads}} {
		if twice(flag.levels) {
			return kit.Usagef("--%s: name each once", flag.name)
		}
	}
	if twice(o.Commands) || twice(o.AppendOnly) || twice(o.Storages) || twice(o.Networks) || twice(o.Platforms) {
		return kit.Usagef("--platform, --command, --appendonly, --storage, --network: name each once")
	}
	for _, s := range o.Storages {
		if !slices.Contains([]platform.Storage{platform.StorageLayer, platform.StorageVolume, platform.StorageBind,
			platform.StorageTmpfs}, s) {
			return kit.Usagef("--storage %s: want layer, volume, bind or tmpfs", s)
		}
	}
	for _, n := range o.Networks {
		if !slices.Contains([]platform.Network{platform.NetworkHost, platform.NetworkBridge, platform.NetworkProxy,
			platform.NetworkNAT}, n) {
			return kit.Usagef("--network %s: want host, bridge, bridge:proxy or bridge:nat", n)
		}
	}
	switch {
	case slices.Contains(o.Platforms, place.Bare):
		return kit.Usagef("--platform bare: bare metal is always the baseline; name platforms of containers")
	case o.Base.Storage != "" || o.Base.Network != "":
		return kit.Usagef("storage and network are compared here: choose them with --storage and --network")
	case o.Requests == 0 && o.Scaled < leastScaled:
		return kit.Usagef("%d requests of a command: want at least %d", o.Scaled, leastScaled)
	case o.Syncs < leastSyncs:
		return kit.Usagef("--syncs %d: want at least %d writes of the disk floor", o.Syncs, leastSyncs)
	}
	if why := o.setting().Contradiction(o.Host.CPUs); why != "" {
		return kit.Usagef("%s", why)
	}
	// What the number of requests is found by must be sound before it is; the workload
	// knows the rest of its parameters' ranges: ask it of every level.
	for _, least := range []struct {
		flag  string
		given int
	}{{"payload", slices.Min(o.Payloads)}, {"pipeline", slices.Min(o.Pipelines)}, {"clients", o.Clients}} {
		if least.given < 1 {
			return kit.Usagef("--%s %d: want 1 or more", least.flag, least.given)
		}
	}
	for _, c := range append(o.cells(), o.persistent()...) {
		p, err := workload.Resolve(redis, c.params(o))
		if err == nil {
			var program workload.Program
			if program, err = redis.Program(p); err == nil && o.Host.Memory > 0 && program.MemoryNeed > o.Host.Memory {
				return kit.Usagef("%s needs %d MiB of memory, and this host has %d: name a smaller --payload or fewer --requests",
					c.group(), program.MemoryNeed>>20, o.Host.Memory>>20)
			}
		}
		if err != nil {
			return &kit.Usage{Text: strings.TrimPrefix(err.Error(), "redis: ")}
		}
	}
	return nil
}

func twice[T comparable](levels []T) bool {
	for i, v := range levels {
		if slices.Contains(levels[:i], v) {
			return true
		}
	}
	return false
}

// setting is what every condition grants.
func (o Options) setting() platform.Setting {
	s := o.Base
	if s.CPUSet == "" && len(o.Host.Server) > 0 {
		s.CPUSet = platform.FormatCPUList(o.Host.Server)
	}
	return s
}

// grid is a cell as it is asked for.
type grid struct {
	payload, pipeline, threads, ioThreads int
	appendOnly                            string
	// lists marks the commands that read many values at once. They have cells of their own,
	// because a trial of as many requests would take a hundred times as long.
	lists bool
}

// manyValues is how many values a request reads, at least, that is in a cell of lists.
const manyValues = 100

// split makes a cell of each kind of command.
func (o Options) split(cells []grid) []grid {
	var all []grid
	for _, c := range cells {
		for _, c.lists = range []bool{false, true} {
			if len(c.commands(o)) > 0 {
				all = append(all, c)
			}
		}
	}
	return all
}

// cells are those without persistence: payloads and pipelines crossed, and the
// others one at a time at the smallest payload, with the shortest and the longest
// pipeline, unless everything is crossed. Io-threads vary under the most threads of
// the load, as in S5: fewer could not keep them busy.
func (o Options) cells() []grid {
	if !slices.Contains(o.AppendOnly, appendNo) {
		return nil
	}
	var all []grid
	add := func(g grid) {
		if !slices.Contains(all, g) {
			all = append(all, g)
		}
	}
	for _, payload := range o.Payloads {
		for _, pipeline := range o.Pipelines {
			add(grid{payload, pipeline, o.Threads[0], o.IOThreads[0], appendNo, false})
		}
	}
	for _, threads := range o.Threads {
		for _, ioThreads := range o.IOThreads {
			if !o.Cross {
				continue
			}
			for _, payload := range o.Payloads {
				for _, pipeline := range o.Pipelines {
					add(grid{payload, pipeline, threads, ioThreads, appendNo, false})
				}
			}
		}
	}
	for _, pipeline := range []int{slices.Min(o.Pipelines), slices.Max(o.Pipelines)} {
		for _, threads := range o.Threads {
			add(grid{slices.Min(o.Payloads), pipeline, threads, o.IOThreads[0], appendNo, false})
		}
		for _, ioThreads := range o.IOThreads[1:] {
			add(grid{slices.Min(o.Payloads), pipeline, slices.Max(o.Threads), ioThreads, appendNo, false})
		}
	}
	return o.split(all)
}

// persistent are the cells with an append-only file: the smallest payload and the
// shortest pipeline, unless everything is crossed.
func (o Options) persistent() []grid {
	payloads, pipelines := []int{slices.Min(o.Payloads)}, []int{slices.Min(o.Pipelines)}
	if o.Cross {
		payloads, pipelines = o.Payloads, o.Pipelines
	}
	var all []grid
	for _, how := range o.AppendOnly {
		if how == appendNo {
			continue
		}
		for _, payload := range payloads {
			for _, pipeline := range pipelines {
				all = append(all, grid{payload, pipeline, o.Threads[0], o.IOThreads[0], how, false})
			}
		}
	}
	return all
}
