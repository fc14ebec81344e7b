package keyvalue

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/lab"
	"tare/platform"
	"tare/record"
	"tare/report"
	"tare/study/io/place"
	"tare/study/kit"
	"tare/workload"
)

// Design makes the design. Errors in the options are *kit.Usage; a host that has nothing to
// compare is a *platform.Missing.
func Design(o Options) (lab.Design, error) {
	d := lab.Design{Study: place.Study, Seed: o.Seed, Plan: o.Plan}
	redis, err := workload.Lookup(place.Redis)
	if err != nil {
		return d, err
	}
	disk, err := workload.Lookup("fio-sync")
	if err != nil {
		return d, err
	}
	if err := o.check(redis); err != nil {
		return d, err
	}
	usable, notes := o.Host.Usable(o.wanted(), place.Asked{Base: o.setting(), Serves: true, AnyCPU: true})
	nothing := func() error {
		return &platform.Missing{
			What: "there is nothing to compare: " + strings.Join(notes, "; "), Mend: "`tare doctor` says what is missing",
		}
	}
	if len(usable) < 2 || usable[0] != place.Metal {
		return d, nothing()
	}
	places, stored := picked(usable, o.places(o.Networks)), picked(usable, o.places(hostAlone))
	b := builder{o, redis, disk}
	for _, c := range o.cells() {
		// Memory behind a directory that nothing is written to decides nothing.
		d.Groups = append(d.Groups, b.group(c, slices.DeleteFunc(slices.Clone(places), func(p place.Place) bool {
			return p.Storage == platform.StorageTmpfs && !o.Cross
		})))
	}
	for _, c := range o.persistent() {
		d.Groups = append(d.Groups, b.group(c, stored))
	}
	// Bare metal and its disk floor alone compare nothing.
	d.Groups = slices.DeleteFunc(d.Groups, func(g lab.Group) bool {
		return !slices.ContainsFunc(g.Conditions, func(c lab.Condition) bool { return c.Platform != place.Bare })
	})
	if len(d.Groups) == 0 && len(notes) > 0 {
		return d, nothing()
	}
	if len(d.Groups) == 0 {
		return d, kit.Usagef("--storage tmpfs alone: without persistence Redis writes no files, so no cell is left; add --appendonly always, or another storage")
	}
	d.Plan.Notes = append(append(slices.Clone(d.Plan.Notes), notes...), o.notes()...)
	if err := d.Validate(); err != nil {
		return d, &kit.Usage{Text: err.Error()}
	}
	return place.Mark(place.Redis, d), nil
}

// hostAlone is the network of the cells with persistence.
var hostAlone = []platform.Network{platform.NetworkHost}

// wanted are the places of all cells, each once.
func (o Options) wanted() []place.Place {
	all := o.places(o.Networks)
	if len(o.persistent()) == 0 {
		return all
	}
	for _, p := range o.places(hostAlone) {
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// picked are the usable ones of places that were wanted.
func picked(usable, wanted []place.Place) []place.Place {
	return slices.DeleteFunc(slices.Clone(usable), func(p place.Place) bool {
		p.AnyCPU = false // which nobody wants
		return !slices.Contains(wanted, p)
	})
}

// places are bare metal and, on each platform, storage crossed with the host's network
// and the bridge, and the other ways of the network with the first storage.
func (o Options) places(networks []platform.Network) []place.Place {
	all := []place.Place{place.Metal}
	for _, on := range o.Platforms {
		for _, network := range networks {
			storages := o.Storages
			if network != platform.NetworkHost && network != platform.NetworkBridge {
				storages = storages[:1]
			}
			for _, storage := range storages {
				if storage == platform.StorageTmpfs && network != platform.NetworkHost {
					continue
				}
				all = append(all, place.Place{Platform: on, Storage: storage, Network: network})
			}
		}
	}
	return all
}

// notes say what of the host is in every figure.
func (o Options) notes() (notes []string) {
	server := o.Host.CPUs
	if set, err := platform.ParseCPUList(o.setting().CPUSet); err == nil && len(set) > 0 {
		server = set
	}
	shared := slices.ContainsFunc(
		server,
		func(cpu int) bool { return len(o.Host.Load) == 0 || slices.Contains(o.Host.Load, cpu) },
	)
	if shared {
		load := o.Host.Load
		if len(load) == 0 {
			load = o.Host.CPUs
		}
		notes = append(notes, fmt.Sprintf("the server and its load share CPUs (load on CPU %s, server on %s): "+
			"every figure includes the load's CPU time, of which a container's cost is a smaller part",
			platform.FormatCPUList(load), platform.FormatCPUList(server)))
	}
	if slices.Max(o.Threads) > 0 {
		fast := grid{
			slices.Min(o.Payloads), slices.Max(o.Pipelines), slices.Max(o.Threads), o.IOThreads[0], appendNo, false,
		}
		length := fast.takes(Options{Requests: fast.requests(o), Commands: []string{figureCommand}}) - assumedLaunch
		notes = append(notes, fmt.Sprintf("with --threads, redis-benchmark ends on a tick of %v and counts the wait. "+
			"That is %[3]s %% of the shortest trials, which take about %[2]v. More --requests reduce it",
			tick, length.Round(100*time.Millisecond), report.Rounded(100*min(1, tick.Seconds()/length.Seconds()), 2)))
	}
	if most := slices.Max(o.IOThreads); most > len(server) {
		notes = append(notes, fmt.Sprintf("%d io-threads share %s of the server: more of them cannot be faster here",
			most, report.Counted(len(server), "CPU")))
	}
	return notes
}

type builder struct {
	Options
	redis, disk workload.Workload
}

// group is a cell with its places, bare metal first: Design has seen to it that it is
// there.
func (b builder) group(c grid, places []place.Place) lab.Group {
	g := lab.Group{Workload: c.group()}
	for _, p := range places {
		g.Conditions = append(g.Conditions, b.condition(c, p, b.redis, c.params(b.Options)))
	}
	if c.appendOnly != appendNo {
		for _, p := range places {
			f := b.condition(
				c,
				p,
				b.disk,
				map[string]string{"size": strconv.Itoa(c.appended(b.Clients)), "syncs": strconv.Itoa(b.Syncs)},
			)
			f.Label = floor + " on " + f.Label
			f.ID = g.Workload + "@" + f.Label
			f.Factors[place.FactorFloor] = floor
			f.Takes = assumedLaunch + time.Duration(b.Syncs)*assumedSync
			for i := range f.Metrics {
				f.Metrics[i].Primary = false // it is there to be looked at beside the others
			}
			g.Conditions = append(g.Conditions, f)
		}
	}
	g.Conditions[0].Baseline = true
	return g
}

func (b builder) condition(c grid, p place.Place, w workload.Workload, wanted map[string]string) lab.Condition {
	params, err := workload.Resolve(w, wanted)
	if err != nil {
		panic(err) // check has asked the workload of these
	}
	factors := p.Factors(place.Redis)
	for name, level := range map[string]string{
		factorPayload: strconv.Itoa(c.payload), factorPipeline: strconv.Itoa(c.pipeline),
		factorClients: strconv.Itoa(b.Clients),
		factorThreads: strconv.Itoa(c.threads), factorIOThreads: strconv.Itoa(c.ioThreads),
		factorAppendOnly: c.appendOnly,
	} {
		factors[name] = level
	}
	return lab.Condition{
		Condition: record.Condition{
			ID: c.group() + "@" + p.Label(), Label: p.Label(), Workload: c.group(), Params: params,
			Platform: p.Platform, Setting: p.Setting(b.setting()), Factors: factors, Metrics: w.Metrics(params),
		},
		Program: w,
		Source:  w.Source(),
		Limit:   max(lab.DefaultTrialLimit, 20*c.takes(b.Options)),
		Takes:   c.takes(b.Options),
	}
}

// group names a cell by what it does not share with all.
func (c grid) group() string {
	levels := []place.Cell{
		{Factor: factorPayload, Level: strconv.Itoa(c.payload)},
		{Factor: factorPipeline, Level: strconv.Itoa(c.pipeline)},
	}
	if c.threads > 0 {
		levels = append(levels, place.Cell{Factor: factorThreads, Level: strconv.Itoa(c.threads)})
	}
	if c.ioThreads > 1 {
		levels = append(levels, place.Cell{Factor: factorIOThreads, Level: strconv.Itoa(c.ioThreads)})
	}
	if c.appendOnly != appendNo {
		levels = append(levels, place.Cell{Factor: factorAppendOnly, Level: c.appendOnly})
	}
	if c.lists {
		levels = append(levels, place.Cell{Factor: "commands", Level: "lists"})
	}
	return place.Group(place.Redis, levels...)
}

func (c grid) params(o Options) map[string]string {
	return map[string]string{
		"commands": strings.Join(c.commands(o), ","), "payload": strconv.Itoa(c.payload), "pipeline": strconv.Itoa(c.pipeline),
		"clients": strconv.Itoa(o.Clients), "threads": strconv.Itoa(c.threads), "io-threads": strconv.Itoa(c.ioThreads),
		"appendonly": c.appendOnly, "requests": strconv.Itoa(c.requests(o)),
	}
}

func (c grid) commands(o Options) []string {
	if c.appendOnly != appendNo {
		return []string{written}
	}
	return slices.DeleteFunc(slices.Clone(o.Commands), func(name string) bool {
		return values(name) >= manyValues != c.lists
	})
}

// largeValue is the payload, in bytes, from which a request takes about twice as long
// as with no value, over the commands of S5; it only sizes the requests.
const largeValue = 500

// With threads, redis-benchmark looks for its end on a tick alone, which must be little
// of a trial: so many times more requests.
const (
	tick     = 250 * time.Millisecond
	lengthen = 10
)

func (c grid) requests(o Options) int {
	if o.Requests > 0 {
		return o.Requests
	}
	n := o.Scaled * min(c.pipeline, 10) * largeValue / (largeValue + c.payload)
	if c.lists {
		n = int(float64(n) * c.seconds(figureCommand) / c.seconds(slices.MaxFunc(c.commands(o), func(a, b string) int {
			return cmp.Compare(values(a), values(b))
		})))
	}
	if c.threads > 0 {
		n *= lengthen
	}
	// Every client has some.
	return max(n, 4*o.Clients*c.pipeline)
}

// appended is what Redis writes to its file at a time, at most: the commands of all
// clients' pipelines, which came while it wrote the last.
func (c grid) appended(clients int) int {
	value := strings.Repeat("x", c.payload)
	one := len(fmt.Sprintf("*3\r\n$3\r\nSET\r\n$16\r\nkey:__rand_int__\r\n$%d\r\n%s\r\n", c.payload, value))
	return min(clients*c.pipeline*one, 16<<20)
}

// What a trial takes besides its requests, and what a request takes: assumptions by
// which a pass is estimated, from Docker on two CPUs of the slower of two hosts.
const (
	assumedLaunch  = 1100 * time.Millisecond
	assumedBatch   = 20e-6 // seconds: of a pipeline's share
	assumedRequest = 1.8e-6
	assumedValue   = 0.18e-6
	assumedByte    = 2.2e-9
	assumedSync    = time.Millisecond
)

// seconds is what a request of a command is thought to take.
func (c grid) seconds(command string) float64 {
	return assumedBatch/float64(c.pipeline) + assumedRequest +
		float64(values(command))*(assumedValue+assumedByte*float64(c.payload))
}

// takes is how long a trial is thought to take. Before it reads a list, redis-benchmark writes one by
// as many requests.
func (c grid) takes(o Options) time.Duration {
	var seconds float64
	for _, command := range c.commands(o) {
		n := float64(c.requests(o)) * 1.1 // the warm-up's
		seconds += n * c.seconds(command)
		if c.lists {
			seconds += n * c.seconds("lpush")
		}
	}
	return assumedLaunch + time.Duration(math.Min(seconds, 1e9)*1e9)
}
