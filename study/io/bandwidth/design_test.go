package bandwidth

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"tare/lab"
	"tare/platform"
	"tare/study/io/place"
	"tare/study/kit"
)

func groups(d lab.Design) []string {
	var names []string
	for _, g := range d.Groups {
		names = append(names, g.Workload)
	}
	return names
}

func TestDesignByDefault(t *testing.T) {
	d := designed(t, options())
	want := []string{"stream[elements=50000000,processes=1]", "stream[elements=50000000,processes=2]", "stream[elements=1000000,processes=1]"}
	if got := groups(d); !slices.Equal(got, want) {
		t.Errorf("groups %q, want %q", got, want)
	}
	for _, g := range d.Groups {
		var labels []string
		for i, c := range g.Conditions {
			labels = append(labels, c.Label)
			if c.Baseline != (i == 0) || c.Factors[place.FactorOf] != place.Stream || c.Procedure != nil || c.Program.Name() != program {
				t.Errorf("%s: %+v", g.Workload, c)
			}
		}
		if want := []string{"bare", "docker layer", "docker volume", "docker bind"}; !slices.Equal(labels, want) {
			t.Errorf("%s: %q, want %q", g.Workload, labels, want)
		}
	}
	primary := 0
	for _, m := range d.Groups[0].Conditions[0].Metrics {
		if m.Primary {
			primary++
		}
	}
	if primary != len(kernels) {
		t.Errorf("%d metrics carry the verdict, want the four kernels", primary)
	}
	if took := d.Pass(); took <= 0 || took*3 > d.Plan.Budget && d.Plan.Budget > 0 {
		t.Errorf("one block takes %v", took)
	}
}

// S5's size for the bandwidth of memory is taken where it is four times the caches.
func TestSizeBeyondTheCaches(t *testing.T) {
	for caches, want := range map[int64]int64{0: 50e6, 32 << 20: 50e6, 260 << 20: 250e6, 8 << 30: 500e6} {
		if got := Default(caches).Elements; got[0] != want || got[1] != 1e6 {
			t.Errorf("beside caches of %d bytes the sizes are %v, want %d first", caches, got, want)
		}
		if got := Quick(caches).Elements; len(got) != 1 || got[0] != want {
			t.Errorf("beside caches of %d bytes the quick run has %v, want %d", caches, got, want)
		}
	}
}

// S5's grid is whole where memory holds it, and a note names what is left out.
func TestDesignInFull(t *testing.T) {
	full := func(memory int64) lab.Design {
		o := Full()
		o.Plan = options().Plan
		o.Host = usual()
		o.Host.Memory = memory
		return designed(t, o)
	}
	if got, want := len(full(64<<30).Groups), len(PublishedElements)*len(PublishedProcesses); got != want {
		t.Errorf("%d cells, want %d", got, want)
	}
	small := full(8 << 30)
	if got, want := len(small.Groups), (len(PublishedElements)-1)*len(PublishedProcesses); got != want {
		t.Errorf("%d cells within 8 GiB, want all but those of 500 million: %d", got, want)
	}
	notes := strings.Join(small.Plan.Notes, "\n")
	for _, want := range []string{"500 M x 8 is left out: its arrays need 12.", "8 processes share 2 CPUs"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes do not say %q: %s", want, notes)
		}
	}
	if small.Pass() >= full(64<<30).Pass() {
		t.Error("fewer cells take no less time")
	}
}

func TestDesignWithPeer(t *testing.T) {
	d := designed(t, options(func(o *Options) { o.Peer, o.Processes = true, []int{1, 4} }))
	for id, want := range map[string]bool{
		"stream[elements=50000000,processes=1]@bare, peer": true,
		"stream[elements=50000000,processes=4]@bare, peer": false, // more than CPUs
		"stream[elements=1000000,processes=1]@bare, peer":  false, // in caches
	} {
		if has(d, id) != want {
			t.Errorf("%s is there: %v", id, !want)
		}
	}
	if notes := strings.Join(d.Plan.Notes, "\n"); strings.Count(notes, "has no peer") != 2 {
		t.Errorf("that there is no peer is not said twice: %s", notes)
	}
	for _, c := range d.Groups[0].Conditions {
		if c.Label != "bare, peer" {
			continue
		}
		if c.Program.Name() != peer || c.Params[factorElements] != "50000000" || c.Factors[place.FactorFloor] == "" {
			t.Errorf("the peer is %+v", c)
		}
		for _, m := range c.Metrics {
			if m.Primary {
				t.Errorf("the peer's %s carries the verdict", m.Name)
			}
		}
	}
}

func TestDesignRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no elements":          {func(o *Options) { o.Elements = nil }, "--elements"},
		"too many elements":    {func(o *Options) { o.Elements = []int64{2e12} }, "--elements 2000000000000"},
		"elements twice":       {func(o *Options) { o.Elements = []int64{1e6, 1e6} }, "twice"},
		"no process":           {func(o *Options) { o.Processes = []int{0} }, "--processes 0"},
		"more than elements":   {func(o *Options) { o.Elements, o.Processes = []int64{3}, []int{4} }, "an element for each"},
		"larger than memory":   {func(o *Options) { o.Fitting, o.Elements = false, []int64{1e9} }, "--elements 1000000000: the arrays need 24."},
		"one repetition":       {func(o *Options) { o.Repetitions = 1 }, "--repetitions 1"},
		"bare":                 {func(o *Options) { o.Platforms = []string{place.Bare} }, "always the baseline"},
		"no platform":          {func(o *Options) { o.Platforms = nil }, "--platform"},
		"a storage unheard":    {func(o *Options) { o.Storages = []platform.Storage{"attic"} }, "storage"},
		"a storage twice":      {func(o *Options) { o.Storages = []platform.Storage{"bind", "bind"} }, "twice"},
		"nothing that fits":    {func(o *Options) { o.Elements = []int64{1e9} }, "nothing to weigh"},
		"no end to the blocks": {func(o *Options) { o.Plan.Blocks = 0 }, "how many blocks"},
	} {
		var wrong *kit.Usage
		if _, err := Design(options(c.change)); !errors.As(err, &wrong) || !strings.Contains(wrong.Text, c.want) || strings.Contains(wrong.Text, "\n") {
			t.Errorf("%s: %v, want a usage error that says %q", name, err, c.want)
		}
	}
	lacking := options(func(o *Options) {
		o.Host = hosted(16<<30, &fakePlatform{name: place.Bare}, &fakePlatform{name: "docker", missing: &platform.Missing{What: "no engine answers", Mend: "start one"}})
	})
	var missing *platform.Missing
	if _, err := Design(lacking); !errors.As(err, &missing) || !strings.Contains(missing.What, "no engine answers") {
		t.Errorf("without an engine: %v", err)
	}
	// What was asked for by name is refused here, and not by every trial.
	swarm := options(func(o *Options) {
		o.Host = hosted(16<<30, &fakePlatform{name: place.Bare}, &fakePlatform{name: "docker", anyCPU: true})
		o.Base.CPUSet = "1"
	})
	if _, err := Design(swarm); !errors.As(err, &missing) || strings.Count(missing.What, "cpuset-cpus") != 1 {
		t.Errorf("on a platform that keeps nothing to CPUs: %v", err)
	}
}
