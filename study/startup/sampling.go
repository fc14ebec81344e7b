package startup

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"tare/kernel/clock"
	"tare/lab"
	"tare/probe"
	"tare/probe/breakdown"
	"tare/probe/profile"
	"tare/probe/sched"
	"tare/record"
	"tare/workload"
)

// Metrics of a profile, in percent of the CPU time that was spent on starts: of
// the engine, its tools, the application and the kernel's threads; not of the
// client, which is the instrument itself, nor of programs that have no part.
const (
	kernelShare     = "kernel"
	userShare       = "user"
	memoryShare     = "memory and process start" // S1.4's first group
	heapShare       = "go heap"                  // and its second
	bothShare       = "both groups"
	unassignedShare = "unassigned"

	lostSamples = "lost"
	cpuPerStart = "cpu per start"

	ofGroup     = "group: "
	ofComponent = "component: "
)

// components are those whose share of a start's time is recorded, in the order of a start.
var components = []probe.Component{
	probe.Client, probe.Engine, probe.Containerd, probe.Network, probe.Shim, probe.Runtime, probe.Application,
	probe.Kernel,
}

// sharesOf declares the metrics of a breakdown. They may be zero, and so are
// compared as counts are.
func sharesOf(perStart string) []workload.Metric {
	m := []workload.Metric{
		{Name: lostSamples, Unit: "records", Better: workload.Lower, Count: true, Doc: "records of the probe that were lost"},
		{Name: failed, Unit: "starts", Better: workload.Lower, Count: true, Doc: "starts that failed"},
	}
	for _, c := range components {
		m = append(m, workload.Metric{Name: ofComponent + string(c), Unit: "us", Better: workload.Lower, Count: true,
			Doc: perStart + " in " + string(c)})
	}
	for _, g := range breakdown.Groups {
		m = append(m, workload.Metric{Name: ofGroup + string(g), Unit: "%", Better: workload.Lower, Count: true,
			Doc: "share of " + string(g)})
	}
	return m
}

// profileMetrics are those of a profiled trial.
func profileMetrics() []workload.Metric {
	share := func(name, doc string) workload.Metric {
		return workload.Metric{Name: name, Unit: "%", Better: workload.Lower, Count: true, Doc: doc}
	}
	m := []workload.Metric{
		{Name: cpuPerStart, Unit: "us", Better: workload.Lower, Primary: true,
			Doc: "CPU time of a start, of all components but the client"},
		share(kernelShare, "share of samples in the kernel (S1.3)"),
		share(userShare, "share of samples in user mode"),
		share(memoryShare, "kernel memory management and process start (S1.4)"),
		share(heapShare, "Go garbage collection and allocation (S1.4)"),
		share(bothShare, "the two together"),
		share(unassignedShare, "samples that no rule of the groups knows"),
	}
	return append(m, sharesOf("CPU time of a start")...)
}

// profiled is a ramp with something looking on, of which only what that saw is
// recorded: how long starts take is measured in a plain ramp.
type profiled struct{ ramp }

func (p profiled) run(ctx context.Context, b lab.Bench) error {
	timings, _, err := p.measure(ctx, b)
	if err != nil {
		return err
	}
	b.Record(failed, float64(failuresOf(timings)))
	return nil
}

// sampling observes what the CPUs do.
type sampling struct{ tracer *sched.Tracer }

func (s *sampling) begin(ctx context.Context, b lab.Bench, _ *fleet) (func(time.Time, []timing) error, error) {
	recorder, err := profile.Start(ctx, profile.Options{
		Roots: []string{b.Image().Root}, Processes: s.tracer.Processes().At,
	})
	if err != nil {
		return nil, err
	}
	return func(origin time.Time, timings []timing) error {
		if len(timings) == 0 {
			recorder.Discard()
			return nil
		}
		recording, err := recorder.Stop()
		if err != nil {
			return err
		}
		return recordProfile(b, recording.Between(span(origin, timings)), timings)
	}, nil
}

// span is the time of a ramp's starts, from the first's moment to the last's
// readiness, on the kernel's clock.
func span(origin time.Time, timings []timing) (from, to time.Duration) {
	from = monotonic(origin)
	to = from
	for _, t := range timings {
		to = max(to, from+max(t.Sent, t.Answered, t.First, t.Ready))
	}
	return from, to
}

// monotonic is a moment of Go's clock on the kernel's.
func monotonic(t time.Time) time.Duration { return clock.Monotonic() - time.Since(t) }

func recordProfile(b lab.Bench, r *profile.Recording, timings []timing) error {
	starts := float64(len(timings) - failuresOf(timings))
	whole := breakdown.Of(r.Stacks()).Without(probe.Other)
	all := whole.Without(probe.Client)
	b.Record(cpuPerStart, all.Total()/starts*1e6)
	percent := func(share float64) float64 { return 100 * share }
	b.Record(kernelShare, percent(all.KernelShare()))
	b.Record(userShare, 100-percent(all.KernelShare()))
	b.Record(memoryShare, percent(all.Share(breakdown.Memory)))
	b.Record(heapShare, percent(all.Share(breakdown.Collector, breakdown.Allocation)))
	b.Record(bothShare, percent(all.Share(breakdown.Memory, breakdown.Collector, breakdown.Allocation)))
	b.Record(unassignedShare, percent(all.Share(breakdown.Unassigned)))
	b.Record(lostSamples, float64(r.Lost))
	recordBreakdown(b, whole, all, starts)
	b.Covariate("busy_share", r.Busy())
	b.Covariate("throttled_samples", float64(r.Throttled))
	p, err := r.Profile()
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	var data bytes.Buffer
	if err := p.Write(&data); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	b.Attach(record.Attachment{Name: cpuProfile, MediaType: profileType, Data: data.Bytes()})
	return nil
}

// recordBreakdown records the whole's amounts (in seconds) by component for each
// start, and the shares by group of all but the client.
func recordBreakdown(b lab.Bench, whole, all breakdown.Breakdown, starts float64) {
	used := map[probe.Component]float64{}
	for _, row := range whole.ByComponent() {
		used[row.Component] = row.Total()
	}
	for _, c := range components {
		b.Record(ofComponent+string(c), used[c]/starts*1e6)
	}
	for _, g := range breakdown.Groups {
		b.Record(ofGroup+string(g), 100*all.Share(g))
	}
}

// silent looks on and records nothing: what it costs to look.
type silent struct{ observer }

func (s silent) begin(ctx context.Context, b lab.Bench, f *fleet) (func(time.Time, []timing) error, error) {
	end, err := s.observer.begin(ctx, b, f)
	if err != nil {
		return nil, err
	}
	return func(time.Time, []timing) error { return end(time.Time{}, nil) }, nil
}

// another is one more watch for first instructions beside the one that every
// trial has: what it costs is what one costs.
type another struct{}

func (another) begin(context.Context, lab.Bench, *fleet) (func(time.Time, []timing) error, error) {
	tracer, err := sched.Start()
	if err != nil {
		return nil, err
	}
	return func(time.Time, []timing) error { return tracer.Stop() }, nil
}
