package service_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/lab"
	"tare/lab/labtest"
	"tare/load"
	"tare/platform"
	"tare/study/latency/service"
	"tare/workload"
)

// fakePlatform launches nothing and counts what it launched.
type fakePlatform struct {
	platform.Platform // nil: what is not overridden is not called
	launched, stopped int
	dies              bool // at once
}

func (p *fakePlatform) Name() string { return "fake" }

func (p *fakePlatform) Launch(context.Context, platform.Spec) (platform.Instance, error) {
	p.launched++
	return &fakeInstance{p: p}, nil
}

type fakeInstance struct {
	platform.Instance // nil likewise
	p                 *fakePlatform
}

func (i *fakeInstance) Address(port int) string { return fmt.Sprintf("192.0.2.1:%d", port) }
func (i *fakeInstance) Usage() (platform.Usage, error) {
	return platform.Usage{CPU: time.Second}, nil
}
func (i *fakeInstance) Stop(context.Context) error { i.p.stopped++; return nil }
func (i *fakeInstance) Wait(ctx context.Context) (platform.Exit, error) {
	if i.p.dies {
		return platform.Exit{Code: 3}, nil
	}
	<-ctx.Done()
	return platform.Exit{}, ctx.Err()
}

// fakeLoader remembers the sizes that it was loaded by.
type fakeLoader struct {
	workload.Workload // nil likewise
	ports             []int
	loads             []string // "size/warmup", the first being the warm-up's
	fails             string   // a size
	waits             bool     // it is never ready
}

func (w *fakeLoader) Name() string { return "fake" }
func (w *fakeLoader) Program(workload.Params) (workload.Program, error) {
	return workload.Program{Args: []string{"/bin/fake"}, Ports: w.ports}, nil
}
func (w *fakeLoader) Ready(ctx context.Context, _ workload.Trial) error {
	if w.waits {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}
func (w *fakeLoader) Offered(workload.Params) (workload.Offered, error) {
	return workload.Offered{}, nil
}

func (w *fakeLoader) Load(_ context.Context, t workload.Trial, _ uint64) (load.Result, error) {
	p := t.Params()
	w.loads = append(w.loads, p["size"]+"/"+p["warmup"])
	r := load.Result{Corrected: load.NewHistogram(), Requests: 3}
	if p["size"] == w.fails {
		return r, errors.New("it broke")
	}
	for range r.Requests {
		_ = r.Corrected.RecordValue(2000)
	}
	return r, nil
}

func newBench(seed uint64) (*seeded, *fakePlatform) {
	p := &fakePlatform{}
	b := &seeded{labtest.NewBench(p), seed}
	b.Of.Params = workload.Params{"size": "0", "warmup": "1s", "duration": "1s", "count": "0"}
	b.Of.Setting.Network = platform.NetworkNone
	return b, p
}

// seeded is a bench of another seed.
type seeded struct {
	*labtest.Bench
	seed uint64
}

func (b *seeded) Seed() uint64 { return b.seed }

func loads(sizes ...string) []service.Load {
	var all []service.Load
	for _, s := range sizes {
		all = append(all, service.Load{Name: s + "B", Params: workload.Params{"size": s}})
	}
	return all
}

// Several loads of one launch come in an order that the seed draws, each once, and
// are kept apart by name; what the service used is known of one load alone.
func TestSeveralLoads(t *testing.T) {
	orders := map[string]bool{}
	for seed := range uint64(20) {
		var order [2]string
		for again := range order {
			w := &fakeLoader{}
			b, p := newBench(seed)
			if err := (service.Trial{Workload: w, Loads: loads("1", "2", "3")}).Run(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if p.launched != 1 || p.stopped != 1 || b.Begun != 1 || b.Done != 1 {
				t.Fatalf("launched %d, stopped %d, measured %d to %d", p.launched, p.stopped, b.Begun, b.Done)
			}
			if w.loads[0] != "0/0s" || len(w.loads) != 4 {
				t.Fatalf("loads %v, want a warm-up and three", w.loads)
			}
			order[again] = strings.Join(w.loads[1:], " ")
			slices.Sort(w.loads)
			if got := strings.Join(w.loads, " "); got != "0/0s 1/100ms 2/100ms 3/100ms" {
				t.Errorf("loads %s", got)
			}
			for _, m := range service.LoadMetrics(loads("1", "2", "3")) {
				if m.Quantile != 0 && b.Histograms[m.Histogram] == nil || m.Quantile == 0 && len(b.Samples[m.Name]) != 1 {
					t.Errorf("no %s: samples %v, histograms %v", m.Name, b.Samples, b.Histograms)
				}
			}
			if b.Samples[service.Demand] != nil || b.Covariates[service.Requests] != 9 {
				t.Errorf("samples %v, covariates %v", b.Samples, b.Covariates)
			}
		}
		if order[0] != order[1] {
			t.Errorf("of one seed the orders are %v", order)
		}
		orders[order[0]] = true
	}
	if len(orders) < 3 {
		t.Errorf("20 seeds draw %d orders of 6", len(orders))
	}
	w := &fakeLoader{}
	b, _ := newBench(1)
	if err := (service.Trial{Workload: w}).Run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if b.Samples[service.Demand] == nil || b.Histograms[service.Latency] == nil || len(w.loads) != 2 {
		t.Errorf("one load: samples %v, histograms %v, loads %v", b.Samples, b.Histograms, w.loads)
	}
}

// A load that fails is named, and the service is stopped.
func TestFailingLoadIsNamed(t *testing.T) {
	b, p := newBench(1)
	err := service.Trial{Workload: &fakeLoader{fails: "2"}, Loads: loads("1", "2", "3")}.Run(t.Context(), b)
	if err == nil || !strings.Contains(err.Error(), "2B: it broke") || p.stopped != 1 {
		t.Errorf("%v; stopped %d times", err, p.stopped)
	}
}

// In the host's network a port that is served is refused before the launch; in one
// of the container's own it is nobody else's.
func TestServedPort(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := int(netip.MustParseAddrPort(l.Addr().String()).Port())
	for network, refused := range map[platform.Network]bool{"": true, platform.NetworkHost: true, platform.NetworkNAT: false} {
		b, p := newBench(1)
		b.Of.Setting.Network = network
		err := service.Trial{Workload: &fakeLoader{ports: []int{port}}}.Run(t.Context(), b)
		if (err != nil) != refused || (p.launched == 0) != refused {
			t.Errorf("network %q: %v, launched %d times", network, err, p.launched)
		}
	}
}

var _ lab.Bench = (*seeded)(nil)

// What cannot be given back, a neighbour that does not end or a scheduling class,
// makes a trial not valid.
func TestTheEndOfWhatIsBesideIsNotSwallowed(t *testing.T) {
	b, p := newBench(1)
	trial := service.Trial{Workload: &fakeLoader{}, Beside: func(context.Context, lab.Bench, platform.Instance) (func() error, error) {
		return func() error { return errors.New("it stays") }, nil
	}}
	if err := trial.Run(t.Context(), b); err == nil || !strings.Contains(err.Error(), "it stays") {
		t.Errorf("the trial ended with %v", err)
	}
	if p.stopped != 1 {
		t.Errorf("stopped %d times", p.stopped)
	}
}

// A service that ends before it is ready never will be.
func TestAServiceThatEndsIsNotWaitedFor(t *testing.T) {
	b, p := newBench(1)
	p.dies = true
	err := (service.Trial{Workload: &fakeLoader{waits: true}}).Run(t.Context(), b)
	ended := new(workload.Ended)
	if !errors.As(err, &ended) || ended.Exit.Code != 3 {
		t.Errorf("the trial ended with %v", err)
	}
}
