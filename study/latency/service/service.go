// Package service is one trial of a service under load, as in the studies of
// latency: launch, readiness, warm-up, the kernel's accounts, load, the accounts
// again. What differs between conditions is a field of [Trial]: where the client is,
// and what runs beside the service.
//
// It decides no design and judges nothing.
package service

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"tare/lab"
	"tare/load"
	"tare/platform"
	"tare/study/kit"
	"tare/workload"
)

// Study is the name of the studies of latency in the store.
const Study = "latency"

// Trial is how one condition's trials go.
type Trial struct {
	Workload workload.Loader
	// Stall is the latency above which a request counts as stalled; 0 is
	// [DefaultStall].
	Stall time.Duration
	// Client is where the load comes from; the zero Client is the host itself.
	Client Client
	// Beside, where not nil, is called when the service is ready. It sets up what the
	// condition adds: a neighbour, a scheduling class. What it returns ends that, and
	// is called before the service is stopped; it may be nil.
	Beside func(ctx context.Context, b lab.Bench, service platform.Instance) (end func() error, err error)
	// Begin, where not nil, is called just before each load that counts, to record more
	// of it. What it returns is called just after the load, with its result.
	Begin func(ctx context.Context, b lab.Bench) (end func(load.Result) error, err error)
	// Loads, where not empty, are the loads of one launch, one after the other. Their
	// order is drawn from the trial's seed, so it is the same for all of a block.
	// Otherwise there is one load, by the condition's parameters.
	Loads []Load
}

// Load is one of several loads of one launch.
type Load struct {
	Name string // unique in the trial; a part of its metrics' names ([Load.Of])
	// Params are what is set for it of the workload's parameters: a size.
	Params workload.Params
}

// Of is a metric's name, or the histogram's, for the load: the name itself for
// that of a trial which has one alone.
func (l Load) Of(name string) string {
	if l.Name == "" {
		return name
	}
	return name + "-" + l.Name
}

// Client is where a service's load comes from.
type Client struct {
	// NetNS is the path that keeps the network namespace of load programs; empty
	// is the host's.
	NetNS string
	// Dial connects tare's own generator; nil is over the host's network.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Address gives where the client reaches the service's port; nil is the
	// instance's own address.
	Address func(service platform.Instance, port int) string
	// Listen is the address at which the service listens for a client that dials by Dial;
	// empty is every address. For one on the host's network it follows from the setting.
	Listen string
	// Batches is how many spans of time a load is reported in as well; 0 is none.
	Batches int
}

// DefaultStall is S4's: a request above 1 ms has stalled.
const DefaultStall = time.Millisecond

// warmUp is how long a service is loaded before the load that counts.
const warmUp = 500 * time.Millisecond

// The metrics of a trial ([Metrics]).
const (
	P50, P99, P999 = "p50", "p99", "p99.9"
	Mean           = "mean"
	Stalled        = "stalled"
	Throughput     = "throughput"
	Demand         = "demand"
	Share          = "cpu-share"
	ThrottledShare = "throttled-periods"
	ThrottledTime  = "throttled-time"

	// Latency is the histogram from the intended moments, in microseconds.
	Latency = "latency"
)

// Covariates of a trial.
const (
	LatenessP99 = kit.LatenessP99
	Requests    = "requests"
)

// Metrics is what a trial yields; the verdict is on the median and the p99.
func Metrics() []workload.Metric {
	quantile := func(name string, q float64, primary bool) workload.Metric {
		return workload.Metric{
			Name: name, Unit: "us", Better: workload.Lower, Quantile: q, Histogram: Latency, Primary: primary,
			Doc: "latency from the intended moment",
		}
	}
	return []workload.Metric{
		quantile(P99, 0.99, true), quantile(P50, 0.5, true), quantile(P999, 0.999, false),
		{Name: Mean, Unit: "us", Better: workload.Lower, Doc: "mean latency from the intended moment"},
		{Name: Stalled, Unit: "of 10^6", Better: workload.Lower, Count: true, Doc: "requests above the stall threshold, per million"},
		{Name: Throughput, Unit: "requests/s", Better: workload.Higher, Doc: "requests answered correctly"},
		{Name: Demand, Unit: "us", Better: workload.Lower, Doc: "CPU time of the service per request, user and system"},
		{Name: Share, Unit: "%", Better: workload.Lower, Doc: "CPU time of the service, of one CPU"},
		{
			Name: ThrottledShare, Unit: "%", Better: workload.Lower, Count: true,
			Doc: "periods in which the quota ran out, of those in which the service ran",
		},
		{Name: ThrottledTime, Unit: "%", Better: workload.Lower, Count: true, Doc: "time for which the service was throttled, of the load's"},
	}
}

// LoadMetrics is what a trial of several loads yields: the latencies and throughput
// of each; verdicts are on the medians. CPU time is known only of all loads together,
// and is left out.
func LoadMetrics(loads []Load) []workload.Metric {
	var all []workload.Metric
	for _, l := range loads {
		for _, m := range Metrics() {
			switch m.Name {
			case Demand, Share, ThrottledShare, ThrottledTime:
				continue
			}
			m.Primary = m.Name == P50
			m.Name = l.Of(m.Name)
			if m.Histogram != "" {
				m.Histogram = l.Of(m.Histogram)
			}
			all = append(all, m)
		}
	}
	return all
}

// Run is one trial.
func (t Trial) Run(ctx context.Context, b lab.Bench) (err error) {
	c := b.Condition()
	listen := t.Client.Listen
	if t.Client.Dial == nil {
		listen = lab.ListensAt(b.Platform(), c.Setting)
	}
	program, params, err := lab.ProgramAt(t.Workload, c.Params, workload.Place{Listen: listen})
	if err != nil {
		return err
	}
	spec, err := lab.SpecOf(b.Name(), b.Image(), program, c)
	if err != nil {
		return err
	}
	r := NewRunning(b, params, t.Client)
	spec.Stdout, spec.Stderr = &r.Out, &r.Err
	// An engine starts a container in the host's network even if another program
	// serves its port. The load would reach that program.
	if n := c.Setting.Network; n == "" || n == platform.NetworkHost {
		if err := spec.CheckPorts(); err != nil {
			return err
		}
	}
	if r.Instance, err = b.Platform().Launch(ctx, spec); err != nil {
		return fmt.Errorf("launch on %s: %w", c.Platform, err)
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		err = errors.Join(err, r.Instance.Stop(stopping))
	}()
	if err := b.InForce(r.Instance); err != nil {
		return err
	}
	if err := r.AwaitReady(ctx, t.Workload); err != nil {
		return r.Err.WithLastLine(fmt.Errorf("readiness: %w", err))
	}
	if t.Beside != nil {
		var end func() error
		end, err = t.Beside(ctx, b, r.Instance)
		if end != nil {
			defer func() { err = errors.Join(err, end()) }()
		}
		if err != nil {
			return err
		}
	}
	if _, err := t.Workload.Load(ctx, r.With("warmup", "0s", "count", "0", "duration", warmUp.String()), b.Seed()); err != nil {
		return r.Err.WithLastLine(fmt.Errorf("warm-up: %w", err))
	}
	return r.Err.WithLastLine(t.measure(ctx, b, r))
}

// measure is what counts: each load, with the accounts before and after it.
func (t Trial) measure(ctx context.Context, b lab.Bench, r *Running) error {
	if err := b.Measuring(); err != nil {
		return err
	}
	for _, l := range t.inOrder(b.Seed()) {
		if err := t.load(ctx, b, r, l); err != nil {
			if l.Name != "" {
				err = fmt.Errorf("%s: %w", l.Name, err)
			}
			return err
		}
	}
	return b.Measured()
}

// inOrder gives the loads in the order that the seed draws.
func (t Trial) inOrder(seed uint64) []Load {
	if len(t.Loads) == 0 {
		return []Load{{}}
	}
	loads := slices.Clone(t.Loads)
	// The second word only separates this use of the seed from the load's own.
	rand.New(rand.NewPCG(seed, 0x6c6f616473)).
		Shuffle(len(loads), func(i, j int) { loads[i], loads[j] = loads[j], loads[i] })
	return loads
}

// eachWarm is how long each of several loads warms up by itself: the service is
// warm already, and only what the load brings (its connection, a size) is new.
const eachWarm = 100 * time.Millisecond

// load is one load that counts.
func (t Trial) load(ctx context.Context, b lab.Bench, r *Running, l Load) error {
	set := []string{"warmup", "0s"}
	if l.Name != "" {
		set = []string{"warmup", eachWarm.String()}
	}
	for name, value := range l.Params {
		set = append(set, name, value)
	}
	if b.WarmUp() {
		set = append(set, "count", "0", "duration", warmUp.String())
	}
	var end func(load.Result) error
	if t.Begin != nil {
		var err error
		if end, err = t.Begin(ctx, b); err != nil {
			return err
		}
	}
	before, err := r.Instance.Usage()
	if err != nil {
		return fmt.Errorf("the service's CPU time: %w", err)
	}
	began := time.Now()
	result, err := t.Workload.Load(ctx, r.With(set...), b.Seed())
	elapsed := time.Since(began)
	if err != nil {
		return err
	}
	after, err := r.Instance.Usage()
	if err != nil {
		return fmt.Errorf("the service's CPU time: %w", err)
	}
	if end != nil {
		if err := end(result); err != nil {
			return err
		}
	}
	if n := result.Failed(); n > 0 {
		return fmt.Errorf("%d of %d requests failed; the first error: %w", n, n+result.Requests, result.FirstError)
	}
	if result.Requests == 0 {
		return errors.New("no request was answered: set a longer --duration or a higher --rate")
	}
	t.record(b, l, result)
	if l.Name == "" {
		// A client of its own takes a while to start, in which the service is not loaded.
		if result.Elapsed > 0 {
			elapsed = result.Elapsed
		}
		account(b, result, spent(before, after), elapsed)
	}
	return nil
}

func spent(before, after platform.Usage) platform.Usage {
	return platform.Usage{
		CPU: after.CPU - before.CPU, ThrottledTime: after.ThrottledTime - before.ThrottledTime,
		Throttled: after.Throttled - before.Throttled, Periods: after.Periods - before.Periods,
	}
}

// record keeps the result of a load.
func (t Trial) record(b lab.Bench, l Load, result load.Result) {
	stall := t.Stall
	if stall == 0 {
		stall = DefaultStall
	}
	h := result.Corrected
	b.RecordHistogram(l.Of(Latency), h)
	b.Record(l.Of(Mean), h.Mean())
	b.Record(l.Of(Stalled), 1e6*float64(above(h, stall))/float64(h.TotalCount()))
	b.Record(l.Of(Throughput), result.Rate)
	b.Tally(Requests, float64(result.Requests))
	if late := result.Lateness; late != nil && late.TotalCount() > 0 {
		b.Covariate(l.Of(LatenessP99), float64(late.ValueAtQuantile(99)))
	}
}

// account keeps what the service used while it was loaded, for so long.
func account(b lab.Bench, result load.Result, used platform.Usage, elapsed time.Duration) {
	b.Record(Demand, used.CPU.Seconds()*1e6/float64(result.Requests))
	b.Record(Share, 100*used.CPU.Seconds()/elapsed.Seconds())
	if b.Condition().Setting.CPUs > 0 {
		share := 0.
		if used.Periods > 0 {
			share = 100 * float64(used.Throttled) / float64(used.Periods)
		}
		b.Record(ThrottledShare, share)
		b.Record(ThrottledTime, 100*used.ThrottledTime.Seconds()/elapsed.Seconds())
	}
}
