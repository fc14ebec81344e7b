package network

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tare/image"
	"tare/kernel/netns"
	"tare/lab"
	"tare/lab/labtest"
	"tare/load"
	"tare/platform"
	"tare/platform/bare"
	"tare/platform/conformance"
	"tare/platform/docker"
	"tare/platform/linked"
	"tare/workload"
)

// entries are a ledger's.
type entries struct{ open []platform.Entry }

func (e *entries) Add(one platform.Entry) (func(), error) {
	e.open = append(e.open, one)
	return func() {
		e.open = slices.DeleteFunc(e.open, func(x platform.Entry) bool { return x.Kind == one.Kind && x.ID == one.ID })
	}, nil
}

// bench is labtest's with a real image.
type bench struct {
	*labtest.Bench
	image image.Image
	names string
}

func (b *bench) Image() image.Image { return b.image }
func (b *bench) Name() string       { return b.names + "-" + b.Bench.Name() }

// ground is what trials on a real engine need.
type ground struct {
	engine *docker.Platform
	image  image.Image
	client *linked.Client
	ledger *entries
}

func needEngine(t *testing.T) ground {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a place apart needs root")
	}
	g := ground{ledger: &entries{}}
	state := t.TempDir()
	g.engine = docker.New(docker.Options{StateDir: state, Ledger: g.ledger})
	if err := g.engine.Check(t.Context()); err != nil {
		t.Skip(err)
	}
	g.image = conformance.Image(t)
	if err := g.engine.Prepare(t.Context(), g.image); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.engine.Release(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if len(g.ledger.open) > 0 {
			t.Errorf("left %v", g.ledger.open)
		}
	})
	var err error
	g.client, err = linked.NewClient(t.Context(), linked.ClientSpec{StateDir: state, Ledger: g.ledger, Platform: bare.Bare, Name: fmt.Sprintf("way-%d", os.Getpid())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.client.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return g
}

// design is one of small loads, of a service of the test's.
func (g ground) design(t *testing.T, service *pages) lab.Design {
	t.Helper()
	d, err := Design(options(func(o *Options) {
		o.Service.Workload, o.Paths, o.Directions, o.Sizes = service, Paths, []string{Send}, []int{1, 2, 3}
		o.Base = platform.Setting{}
		o.Client = Client{NetNS: g.client.File, Dial: netns.Dialer(g.client.File), Host: g.client.Host}
		o.Host.Platform = func(string) (platform.Platform, error) { return g.engine, nil }
	}))
	if err != nil {
		t.Skip(err)
	}
	return d
}

func (g ground) run(t *testing.T, c lab.Condition) (*bench, error) {
	t.Helper()
	b := &bench{Bench: labtest.NewBench(g.engine), image: g.image, names: fmt.Sprintf("way-%d-%s-%s", os.Getpid(), c.Factors[factorPath], c.Factors[factorClient])}
	b.Of = c.Condition
	return b, c.Procedure(t.Context(), b)
}

// translated counts the packets that Docker's rule of a published port rewrote.
func translated(t *testing.T) int {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "iptables", "-t", "nat", "-nvxL", "DOCKER").Output()
	if err != nil {
		return -1
	}
	packets := 0
	for _, line := range strings.Split(string(out), "\n") {
		fields := strings.Fields(line)
		if n, err := strconv.Atoi(append(fields, "")[0]); err == nil && strings.HasSuffix(line, fmt.Sprintf(":%d", pagesPort)) {
			packets += n
		}
	}
	return packets
}

// What the service and the kernel see shows which way a request took: the address
// that it came from, whether a rule rewrote where it went, and what the devices carried.
func TestWaysAreCrossed(t *testing.T) {
	g := needEngine(t)
	service := &pages{}
	rewritten := 0
	service.answered = func() { rewritten = translated(t) }
	d := g.design(t, service)
	gateway := docker0(t)
	client := g.client.Address.String()
	type seen struct {
		from            string // the asker's address; empty for one on the engine's bridge that is not its gateway
		translated      bool
		client, service bool // devices that carried it
	}
	wanted := map[string]seen{
		apart + Host:     {from: client, client: true},
		apart + NAT:      {from: client, translated: true, client: true, service: true},
		apart + Bridge:   {from: client, client: true, service: true},
		here + Host:      {from: "127.0.0.1"},
		here + Proxy:     {from: gateway.Addr().String(), service: true},
		here + Container: {client: true, service: true},
	}
	for _, group := range d.Groups {
		for _, c := range group.Conditions {
			service.askers, service.at, service.loaded = map[string]bool{}, nil, nil
			b, err := g.run(t, c)
			if err != nil {
				t.Errorf("%s: %v", c.ID, err)
				continue
			}
			want, ok := wanted[c.Factors[factorClient]+c.Factors[factorPath]]
			if !ok {
				t.Fatalf("%s is no way that is known", c.ID)
			}
			for asker := range service.askers {
				switch from, err := netip.ParseAddr(asker); {
				case want.from != "" && asker != want.from:
					t.Errorf("%s: the service was asked by %s, want %s", c.ID, asker, want.from)
				case want.from == "" && (err != nil || !gateway.Contains(from) || from == gateway.Addr()):
					t.Errorf("%s: the service was asked by %s (%v), want another container's address", c.ID, asker, err)
				}
			}
			if len(service.askers) != 1 || len(service.loaded) != 4 {
				t.Errorf("%s: asked by %v with sizes %v, want by one, and a warm-up with three loads", c.ID, service.askers, service.loaded)
			}
			if rewritten < 0 {
				t.Log("no iptables: what was translated is not known")
			} else if (rewritten > 0) != want.translated {
				t.Errorf("%s: %d packets were translated", c.ID, rewritten)
			}
			for covariate, carried := range map[string]bool{clientCarried: want.client, serviceCarried: want.service} {
				if (b.Covariates[covariate] > 0) != carried {
					t.Errorf("%s: %s is %g", c.ID, covariate, b.Covariates[covariate])
				}
			}
			for _, m := range c.Metrics {
				if m.Quantile != 0 && b.Histograms[m.Histogram] == nil || m.Quantile == 0 && len(b.Samples[m.Name]) != 1 {
					t.Errorf("%s did not yield %s", c.ID, m.Name)
				}
			}
		}
	}
}

// docker0 is the engine's bridge: its own address and its subnet.
func docker0(t *testing.T) netip.Prefix {
	t.Helper()
	bridge, err := net.InterfaceByName("docker0")
	if err != nil {
		t.Skipf("the engine's bridge has another name: %v", err)
	}
	all, err := bridge.Addrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
			return p
		}
	}
	t.Skip("docker0 has no IPv4 address")
	return netip.Prefix{}
}

// A port that another serves is refused before anything is launched.
func TestPortInUse(t *testing.T) {
	g := needEngine(t)
	service := &pages{askers: map[string]bool{}}
	d := g.design(t, service)
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", pagesPort))
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	_, err = g.run(t, d.Groups[0].Conditions[0])
	if err == nil || !strings.Contains(err.Error(), "is served by another program") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, want a line on the port", err)
	}
	if len(service.at) > 0 {
		t.Errorf("the load reached somebody else's at %v", service.at)
	}
}

// A load whose bytes no device carried came some other way.
func TestLoadThatCameAnotherWay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a namespace needs root")
	}
	file := t.TempDir() + "/ns"
	if err := netns.Create(file); err != nil {
		t.Fatal(err)
	}
	defer netns.Delete(file)
	seen := crossing{client: file, least: 1000}
	end, err := seen.watch(t.Context(), labtest.NewBench(nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := end(load.Result{Requests: 1}); err == nil || !strings.Contains(err.Error(), "carried 0 bytes") {
		t.Errorf("%v, want it refused", err)
	}
}

// Without a place apart a design can be shown and not run.
func TestNoPlaceApart(t *testing.T) {
	d, err := Design(options())
	if err != nil {
		t.Fatal(err)
	}
	b := labtest.NewBench(&fakePlatform{})
	if err := d.Groups[0].Conditions[0].Procedure(t.Context(), b); err == nil || !strings.Contains(err.Error(), "made before the run") {
		t.Errorf("%v", err)
	}
}

var _ workload.Loader = (*pages)(nil)
