package network

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/platform"
	"tare/record"
	"tare/study/kit"
	"tare/workload"
)

// options are S4's.
func options(change ...func(*Options)) Options {
	o := Options{
		Service: workload.Subject{Workload: &pages{}}, Sizes: Sizes(), Directions: Directions, Connections: []string{Kept}, Paths: []string{NAT},
		Duration: 500 * time.Millisecond, Base: platform.Setting{CPUSet: "1"}, ClientCPUs: []int{0}, Plan: record.Plan{Blocks: 3, Level: 0.95},
		Host: kit.Host{
			CPUs:     []int{0, 1},
			Platform: func(string) (platform.Platform, error) { return &fakePlatform{}, nil },
			Check:    func(platform.Platform) error { return nil },
		},
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

func TestDesign(t *testing.T) {
	d, err := Design(options())
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Groups) != 2 {
		t.Fatalf("%d groups, want one a direction", len(d.Groups))
	}
	for i, direction := range Directions {
		g := d.Groups[i]
		if len(g.Conditions) != 2 || !g.Conditions[0].Baseline || g.Conditions[0].Factors[factorPath] != Host {
			t.Fatalf("%s: %+v", g.Workload, g.Conditions)
		}
		c := g.Conditions[1]
		if c.Setting.Network != platform.NetworkNAT || c.Setting.CPUSet != "1" || c.Params["call"] != direction || c.Factors[factorClient] != apart {
			t.Errorf("%s: setting %v, parameters %v, factors %v", c.ID, c.Setting, c.Params, c.Factors)
		}
		for _, metric := range []string{"p50-1000B", "p99-100000B", "mean-30000B"} {
			if !slices.ContainsFunc(c.Metrics, func(m workload.Metric) bool { return m.Name == metric }) {
				t.Errorf("%s has no %s", c.ID, metric)
			}
		}
	}
	if pass, fewer := d.Pass(), d.Groups[0].Pass(); pass != 2*fewer || fewer <= 0 {
		t.Errorf("a block takes %v, one of two like groups %v", pass, fewer)
	}
}

// Every way stands beside a baseline of its client's own place, and only there.
func TestEveryWayHasItsBaseline(t *testing.T) {
	d, err := Design(options(func(o *Options) { o.Paths, o.Connections = Paths, Connections }))
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Groups) != 8 {
		t.Errorf("%d groups, want two directions, connections and places each", len(d.Groups))
	}
	for _, g := range d.Groups {
		var paths []string
		for _, c := range g.Conditions {
			paths = append(paths, c.Factors[factorPath])
		}
		want := []string{Host, NAT, Bridge}
		if g.Conditions[0].Factors[factorClient] == here {
			want = []string{Host, Proxy, Container}
		}
		if !slices.Equal(paths, want) {
			t.Errorf("%s: %v, want %v", g.Workload, paths, want)
		}
	}
	// What is asked for alone has no group of the other place.
	d, err = Design(options(func(o *Options) { o.Paths = []string{Proxy} }))
	if err != nil || len(d.Groups) != 2 || d.Groups[0].Conditions[0].Factors[factorClient] != here {
		t.Errorf("the proxy alone: %d groups (%v)", len(d.Groups), err)
	}
}

func TestDesignRefuses(t *testing.T) {
	for _, c := range []struct {
		change func(*Options)
		says   string
	}{
		{func(o *Options) { o.Sizes = nil }, "--size"},
		{func(o *Options) { o.Sizes = []int{0} }, "want 1 to 16777216"},
		{func(o *Options) { o.Sizes = []int{GreatestSize + 1} }, "want 1 to 16777216"},
		{func(o *Options) { o.Sizes = []int{5, 5} }, "each size once"},
		{func(o *Options) { o.Sizes = []int{13} }, "size=13"},
		{func(o *Options) { o.Paths = nil }, "--path"},
		{func(o *Options) { o.Paths = []string{"wire"} }, "nat, bridge, proxy, container"},
		{func(o *Options) { o.Paths = []string{NAT, NAT} }, "twice"},
		{func(o *Options) { o.Directions = []string{"up"} }, "--direction up"},
		{func(o *Options) { o.Connections = nil }, "--connection"},
		{func(o *Options) { o.Duration = time.Millisecond }, "--duration 1ms"},
		{func(o *Options) { o.Count = -1 }, "--count"},
		{func(o *Options) { o.Base.Network = platform.NetworkBridge }, "--path"},
		{func(o *Options) { o.Base.CPUSet = "7" }, "CPU 7 is not one of this host's"},
		{func(o *Options) { o.ClientCPUs = []int{0, 1} }, "the load runs on CPU 1 too"},
		{func(o *Options) { o.Service.Params = map[string]string{"colour": "red"} }, "colour"},
	} {
		_, err := Design(options(c.change))
		var wrong *kit.Usage
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want a line of usage with %q", err, c.says)
		}
	}
	missing := &platform.Missing{What: "no engine answers", Mend: "start one"}
	_, err := Design(options(func(o *Options) { o.Host.Check = func(platform.Platform) error { return missing } }))
	var lacks *platform.Missing
	if !errors.As(err, &lacks) {
		t.Errorf("without an engine: %v", err)
	}
	_, err = Design(options(func(o *Options) {
		o.Paths = []string{Proxy}
		o.Host.Platform = func(string) (platform.Platform, error) {
			return &fakePlatform{refuses: platform.NetworkProxy}, nil
		}
	}))
	var unsupported *platform.Unsupported
	if !errors.As(err, &unsupported) {
		t.Errorf("without a userland proxy: %v", err)
	}
}

// What cannot be kept apart is said, and not refused.
func TestDesignSaysWhatIsConfounded(t *testing.T) {
	says := func(change func(*Options), text string) {
		t.Helper()
		d, err := Design(options(change))
		if err != nil || !strings.Contains(strings.Join(d.Plan.Notes, "\n"), text) {
			t.Errorf("%v (%v), want a note of %q", d.Plan.Notes, err, text)
		}
	}
	says(func(o *Options) { o.Host.CPUs, o.Base.CPUSet = []int{0}, "0" }, "one CPU")
	says(func(o *Options) { o.ClientCPUs = nil }, "no CPUs of their own")
}
