package startup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tare/platform"
	"tare/record"
	"tare/study/kit"
	"tare/workload"
)

// designPlatform is a platform that is there, or is not.
type designPlatform struct {
	fakePlatform
	name    string
	missing error
	refuses string // a network
}

func (p *designPlatform) Name() string                { return p.name }
func (p *designPlatform) Check(context.Context) error { return p.missing }

func (p *designPlatform) Supports(s platform.Setting) error {
	if p.refuses != "" && string(s.Network) == p.refuses {
		return &platform.Unsupported{Platform: p.name, Key: "network=" + p.refuses, Reason: "it has none"}
	}
	return nil
}

// plainPlatform cannot create without starting.
type plainPlatform struct{ platform.Platform }

func (plainPlatform) Check(context.Context) error { return nil }

func options() Options {
	known := map[string]platform.Platform{
		"docker":     &designPlatform{name: "docker"},
		"containerd": &designPlatform{name: "containerd", missing: &platform.Missing{What: "no containerd answers", Mend: "start it"}},
		"oci:runc":   &designPlatform{name: "oci:runc"},
		"oci:crun":   &designPlatform{name: "oci:crun", refuses: "bridge"},
		"plain":      plainPlatform{},
	}
	return Options{
		Subjects: []workload.Subject{{Workload: fakeWorkload{ready: readyAtOnce}}},
		Rates:    []float64{1, 8}, Knee: true, Base: platform.Setting{Network: platform.NetworkBridge},
		Plan: record.Plan{Blocks: 2, Level: 0.95},
		Host: kit.Host{CPUs: []int{0, 1}, Platform: func(name string) (platform.Platform, error) {
			if p, ok := known[name]; ok {
				return p, nil
			}
			return nil, fmt.Errorf("unknown platform %q", name)
		}, Check: func(p platform.Platform) error { return p.Check(context.Background()) }},
	}
}

func TestDesign(t *testing.T) {
	o := options()
	o.Profile, o.Single, o.Cold = true, true, true
	o.Watch = Planned(true)
	d, err := Design(o)
	if err != nil {
		t.Fatal(err)
	}
	var groups []string
	for _, g := range d.Groups {
		var of []string
		for _, c := range g.Conditions {
			label := c.Label
			if c.Baseline {
				label += "*"
			}
			of = append(of, label)
			if c.Procedure == nil || len(c.Metrics) == 0 {
				t.Errorf("%s has no procedure or no metrics", c.ID)
			}
		}
		groups = append(groups, g.Workload+": "+strings.Join(of, " | "))
	}
	want := []string{
		"fake[rate=1]: docker* | oci:runc", "fake[rate=8]: docker* | oci:runc", "fake[knee]: docker* | oci:runc",
		"fake[single,docker]: docker cache=warm* | docker cache=cold", "fake[single,oci:runc]: oci:runc cache=warm* | oci:runc cache=cold",
		"fake[profile]: docker* | oci:runc", "fake[off-cpu]: docker* | oci:runc", "fake[trace]: docker* | oci:runc",
		"fake[burst,docker]: docker probe=none* | docker probe=profile | docker probe=watch", "fake[burst,oci:runc]: oci:runc probe=none* | oci:runc probe=profile | oci:runc probe=watch",
	}
	if !slices.Equal(groups, want) {
		t.Errorf("groups\n%s\nwant\n%s", strings.Join(groups, "\n"), strings.Join(want, "\n"))
	}
	notes := strings.Join(d.Plan.Notes, "\n")
	for _, want := range []string{"containerd left out: no containerd answers", "oci:crun left out"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes do not say %q:\n%s", want, notes)
		}
	}
}

func TestDesignWithoutProbesHasNoneOfTheirGroups(t *testing.T) {
	o := options()
	o.Profile = true
	d, err := Design(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range d.Groups {
		for _, of := range []string{"profile", "off-cpu", "trace", "burst"} {
			if strings.Contains(g.Workload, of) {
				t.Errorf("%s is in the design of a host without probes", g.Workload)
			}
		}
	}
}

func TestDesignRefuses(t *testing.T) {
	var missing *platform.Missing
	var unsupported *platform.Unsupported
	var usage *kit.Usage
	for name, c := range map[string]struct {
		change func(*Options)
		as     any
		says   string
	}{
		"a rate of nothing":   {func(o *Options) { o.Rates = []float64{0} }, &usage, "--rate 0: want 0.01 to 1000 starts a second"},
		"a rate of a million": {func(o *Options) { o.Rates = []float64{1e6} }, &usage, "--rate 1e+06"},
		"three containers":    {func(o *Options) { o.Count = 3 }, &usage, "--count 3: want at least 8"},
		"too many containers": {func(o *Options) { o.Count = 5000 }, &usage, "--count 5000: want 1 to 1000"},
		"nothing at all":      {func(o *Options) { o.Rates, o.Knee = nil, false }, &usage, "nothing to measure"},
		"the host's network":  {func(o *Options) { o.Base.Network = "" }, &usage, "--network bridge"},
		"a platform without creation": {func(o *Options) { o.Platforms = []string{"plain"} }, &usage,
			"cannot create a container without starting it"},
		"an unknown platform":           {func(o *Options) { o.Platforms = []string{"lxc"} }, &usage, "unknown platform"},
		"a platform that is not there":  {func(o *Options) { o.Platforms = []string{"containerd"} }, &missing, "no containerd answers"},
		"a network that it has not":     {func(o *Options) { o.Platforms = []string{"oci:crun"} }, &unsupported, "it has none"},
		"the same workload twice":       {func(o *Options) { o.Subjects = append(o.Subjects, o.Subjects[0]) }, &usage, "name each workload and rate once"},
		"a parameter that it has not":   {func(o *Options) { o.Subjects[0].Params = map[string]string{"x": "1"} }, &usage, "no parameter"},
		"no platform on the whole host": {func(o *Options) { o.Host.Check = func(platform.Platform) error { return errors.New("gone") } }, &missing, "no platform can be used here"},
	} {
		o := options()
		c.change(&o)
		_, err := Design(o)
		if err == nil || !errors.As(err, c.as) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %T that says %q", name, err, c.as, c.says)
		}
	}
}

func TestCountsGoWithTheRate(t *testing.T) {
	for rate, want := range map[float64]int{0.01: 10, 1: 10, 8: 32, 500: 64} {
		if n := countFor(rate); n != want || n < fewestForGrowth {
			t.Errorf("%d containers at %v a second, want %d", n, rate, want)
		}
	}
}

// S1's rates on its 24 CPUs, and on fewer.
func TestProfilesAreMadeAtARateThatTheHostBears(t *testing.T) {
	for _, c := range []struct {
		rates []float64
		cpus  int
		want  float64
	}{{nil, 24, 8}, {nil, 2, 2}, {[]float64{8, 1, 4}, 2, 1}, {[]float64{4, 8}, 2, 4}, {[]float64{0.5}, 1, 0.5}} {
		if got := profileRate(c.rates, c.cpus); got != c.want {
			t.Errorf("of %v on %d CPUs: %v, want %v", c.rates, c.cpus, got, c.want)
		}
	}
}

// second is another program.
type second struct{ fakeWorkload }

func (second) Name() string { return "second" }

// What is compared with nothing in its group is executed once, and what looking costs is measured with
// the first program.
func TestDesignOfOnePlatform(t *testing.T) {
	o := options()
	o.Platforms, o.Profile, o.Watch = []string{"docker"}, true, Planned(true)
	o.Subjects = append(o.Subjects, workload.Subject{Workload: second{fakeWorkload{ready: readyAtOnce}}})
	d, err := Design(o)
	if err != nil {
		t.Fatal(err)
	}
	bursts := 0
	for _, g := range d.Groups {
		if strings.Contains(g.Workload, "[burst") {
			bursts++
			continue
		}
		if !g.Once || len(g.Conditions) != 1 {
			t.Errorf("%s: %d conditions, once: %v", g.Workload, len(g.Conditions), g.Once)
		}
	}
	if bursts != 1 {
		t.Errorf("%d groups of bursts, want that of the first program", bursts)
	}
}
