package keyvalue

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/lab"
	"tare/platform"
	"tare/study/io/place"
	"tare/study/kit"
	"tare/study/kit/kittest"
)

func TestDesign(t *testing.T) {
	d := designed(t, options(func(o *Options) {
		o.AppendOnly = []string{appendNo, appendAlways}
		o.Payloads, o.Networks = []int{3}, []platform.Network{platform.NetworkHost, platform.NetworkBridge, platform.NetworkProxy}
		o.IOThreads = []int{1, 2}
	}))
	square := "bare* | docker layer | docker volume | docker bind | docker layer bridge | docker volume bridge | docker bind bridge | docker layer bridge:proxy"
	want := []string{
		"redis[payload=3,pipeline=1]: " + square,
		"redis[payload=3,pipeline=10]: " + square,
		"redis[payload=3,pipeline=1,io-threads=2]: " + square,
		"redis[payload=3,pipeline=10,io-threads=2]: " + square,
		"redis[payload=3,pipeline=1,appendonly=always]: bare* | docker layer | docker volume | docker bind | docker tmpfs | " +
			"fio on bare | fio on docker layer | fio on docker volume | fio on docker bind | fio on docker tmpfs",
	}
	if got := kittest.Groups(d); !slices.Equal(got, want) {
		t.Errorf("groups\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, g := range d.Groups {
		for _, c := range g.Conditions {
			if c.Setting.CPUSet != "1" || c.Procedure != nil || c.Limit < lab.DefaultTrialLimit || c.Factors[place.FactorOf] != place.Redis {
				t.Errorf("%s: %+v, limit %v", c.ID, c.Setting, c.Limit)
			}
			floor := c.Factors[place.FactorFloor] != ""
			if name := c.Program.Name(); (name == "fio-sync") != floor {
				t.Errorf("%s runs %s", c.ID, name)
			}
			if floor && c.Params["size"] != "23040" { // 512 clients' SET of three bytes
				t.Errorf("%s writes %s bytes", c.ID, c.Params["size"])
			}
		}
	}
	if !slices.ContainsFunc(d.Plan.Notes, func(n string) bool { return strings.Contains(n, "2 io-threads share 1 CPU") }) {
		t.Errorf("notes %q do not mention more io-threads than CPUs", d.Plan.Notes)
	}
	threaded := designed(t, options(func(o *Options) { o.Threads = []int{0, 24} }))
	if !slices.ContainsFunc(threaded.Plan.Notes, func(n string) bool { return strings.Contains(n, "tick of 250ms") }) {
		t.Errorf("notes %q do not mention the tick", threaded.Plan.Notes)
	}
	if pass := d.Pass(); pass < 30*time.Second || pass > 5*time.Minute {
		t.Errorf("a pass is thought to take %v", pass)
	}
}

// Commands that read lists have cells of their own, and trials of fewer requests: a trial takes about as
// long as another. Io-threads vary under the most threads of the load.
func TestListsApart(t *testing.T) {
	d := designed(t, options(func(o *Options) {
		o.Commands, o.Payloads, o.Pipelines = Commands, []int{1000}, []int{10}
		o.Storages, o.Networks = []platform.Storage{platform.StorageBind}, []platform.Network{platform.NetworkHost}
		o.Threads, o.IOThreads = []int{0, 2}, []int{1, 2}
	}))
	const both = ": bare* | docker bind"
	want := []string{
		"redis[payload=1000,pipeline=10]" + both, "redis[payload=1000,pipeline=10,commands=lists]" + both,
		"redis[payload=1000,pipeline=10,threads=2]" + both, "redis[payload=1000,pipeline=10,threads=2,commands=lists]" + both,
		"redis[payload=1000,pipeline=10,threads=2,io-threads=2]" + both,
		"redis[payload=1000,pipeline=10,threads=2,io-threads=2,commands=lists]" + both,
	}
	if got := kittest.Groups(d); !slices.Equal(got, want) {
		t.Errorf("groups\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	plain, lists := d.Groups[0].Conditions[0], d.Groups[1].Conditions[0]
	if plain.Params["commands"] != "get,set,mset,hset" || lists.Params["commands"] != "lrange_100" {
		t.Errorf("commands %q and %q", plain.Params["commands"], lists.Params["commands"])
	}
	if lists.Takes > 4*plain.Takes || plain.Takes > 4*lists.Takes {
		t.Errorf("a trial takes %v, of lists %v", plain.Takes, lists.Takes)
	}
}

// S5's grid is all there.
func TestFullDesign(t *testing.T) {
	o := Full()
	o.Plan, o.Host = options().Plan, usual()
	d := designed(t, o)
	memory, persistent := 2*3*4*5*4, 2*3*4 // of memory lists apart
	if len(d.Groups) != memory+persistent {
		t.Errorf("%d cells, want %d and %d", len(d.Groups), memory, persistent)
	}
	c := d.Groups[0].Conditions[0]
	if c.Params["requests"] != "1000000" || c.Params["clients"] != "512" || c.Params["commands"] != "get,set,mset,hset" {
		t.Errorf("%v", c.Params)
	}
	if got := slices.Concat(throughputs(c.Condition), throughputs(d.Groups[1].Conditions[0].Condition)); !slices.Equal(got, Commands) {
		t.Errorf("metrics %v", got)
	}
	if notes := strings.Join(d.Plan.Notes, "\n"); !strings.Contains(notes, "docker:rootless is left out") || !strings.Contains(notes, "docker:swarm is left out") {
		t.Errorf("notes %q do not say which engines this host lacks", notes)
	}
}

func TestQuickFits(t *testing.T) {
	o := Quick()
	o.Plan, o.Host = options().Plan, usual()
	if took := designed(t, o).Expected(3); took > 50*time.Second {
		t.Errorf("three blocks take %v", took)
	}
}

func TestDesignOnLessOfAHost(t *testing.T) {
	noBridge := hosted(&fakePlatform{name: place.Bare}, &fakePlatform{name: "docker", refuses: platform.NetworkBridge})
	d := designed(t, options(func(o *Options) { o.Host = noBridge }))
	for _, g := range d.Groups {
		if slices.ContainsFunc(g.Conditions, func(c lab.Condition) bool { return c.Setting.Network == platform.NetworkBridge }) {
			t.Errorf("%s has a bridge that there is none of", g.Workload)
		}
	}
	if !slices.ContainsFunc(d.Plan.Notes, func(n string) bool {
		return strings.HasPrefix(n, "docker layer bridge, docker volume bridge, docker bind bridge are left out: ")
	}) {
		t.Errorf("notes %q", d.Plan.Notes)
	}
	none := hosted(&fakePlatform{name: place.Bare}, &fakePlatform{name: "docker", missing: &platform.Missing{What: "no engine answers"}})
	_, err := Design(options(func(o *Options) { o.Host = none }))
	if missing := (*platform.Missing)(nil); !errors.As(err, &missing) || !strings.Contains(err.Error(), "no engine answers") {
		t.Errorf("without an engine: %v", err)
	}
	bareless := hosted(&fakePlatform{name: place.Bare, missing: &platform.Missing{What: "no root"}}, &fakePlatform{name: "docker"})
	if _, err := Design(options(func(o *Options) { o.Host = bareless })); err == nil || !strings.Contains(err.Error(), "bare is left out: no root") {
		t.Errorf("without bare metal: %v", err)
	}
	shared := usual()
	shared.Load = shared.CPUs
	d = designed(t, options(func(o *Options) { o.Host = shared }))
	if !slices.ContainsFunc(d.Plan.Notes, func(n string) bool { return strings.Contains(n, "share CPUs") }) {
		t.Errorf("notes %q do not mention shared CPUs", d.Plan.Notes)
	}
}

// A platform that keeps no program to CPUs is measured on all of them, which is said; one
// whose host network nobody reaches has no place there.
func TestDesignOnWhatIsNoOrdinaryEngine(t *testing.T) {
	odd := hosted(&fakePlatform{name: place.Bare}, &fakePlatform{name: "docker", anyCPU: true, apart: true})
	d := designed(t, options(func(o *Options) { o.Host, o.AppendOnly = odd, []string{appendNo, appendAlways} }))
	if len(d.Groups) == 0 {
		t.Fatal("no groups")
	}
	for _, g := range d.Groups {
		if !g.Conditions[0].Baseline || g.Conditions[0].Platform != place.Bare || g.Conditions[0].Setting.CPUSet != "1" {
			t.Errorf("%s: its baseline is %+v", g.Workload, g.Conditions[0])
		}
		for _, c := range g.Conditions[1:] {
			if c.Setting.CPUSet != "" || c.Setting.Network == platform.NetworkHost {
				t.Errorf("%s: %+v, which the platform cannot give", c.ID, c.Setting)
			}
		}
	}
	_, err := Design(options(func(o *Options) { o.Host, o.AppendOnly = odd, []string{appendAlways} }))
	if missing := (*platform.Missing)(nil); !errors.As(err, &missing) || !strings.Contains(err.Error(), "nobody reaches it") {
		t.Errorf("persistence alone, on no host network: %v", err)
	}
	for _, want := range []string{"cannot pin the program to CPU 1", "nobody reaches it"} {
		if notes := strings.Join(d.Plan.Notes, "\n"); strings.Count(notes, want) != 1 {
			t.Errorf("the notes do not say once %q:\n%s", want, notes)
		}
	}
}

func TestDesignRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no payload":             {func(o *Options) { o.Payloads = nil }, "--payload"},
		"a pipeline of nothing":  {func(o *Options) { o.Pipelines = []int{0} }, "pipeline"},
		"a payload below none":   {func(o *Options) { o.Payloads = []int{-500} }, "--payload -500"},
		"clients below none":     {func(o *Options) { o.Clients = -1 }, "--clients -1"},
		"a payload twice":        {func(o *Options) { o.Payloads = []int{3, 3} }, "once"},
		"an unknown command":     {func(o *Options) { o.Commands = []string{"getall"} }, "getall"},
		"an unknown persistence": {func(o *Options) { o.AppendOnly = []string{"sometimes"} }, "sometimes"},
		"an unknown storage":     {func(o *Options) { o.Storages = []platform.Storage{"disk"} }, "--storage disk"},
		"an unknown network":     {func(o *Options) { o.Networks = []platform.Network{"wire"} }, "--network wire"},
		"bare as a container":    {func(o *Options) { o.Platforms = []string{place.Bare} }, "bare"},
		"a network for all":      {func(o *Options) { o.Base.Network = platform.NetworkBridge }, "--network"},
		"a CPU that is not":      {func(o *Options) { o.Base.CPUSet = "7" }, "7"},
		"more than the memory":   {func(o *Options) { o.Host.Memory = 1 << 20 }, "MiB of memory"},
		"too many threads":       {func(o *Options) { o.Threads = []int{65} }, "threads"},
		"no writes":              {func(o *Options) { o.Syncs = 1 }, "--syncs 1"},
		"memory that decides nothing": {func(o *Options) {
			o.Storages, o.AppendOnly = []platform.Storage{platform.StorageTmpfs}, []string{appendNo}
		}, "--storage tmpfs alone"},
	} {
		_, err := Design(options(c.change))
		if wrong := (*kit.Usage)(nil); !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one about %q", name, err, c.want)
		}
	}
}
