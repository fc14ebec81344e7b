package startup

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/google/pprof/profile"

	"tare/lab"
	"tare/probe"
	"tare/probe/breakdown"
	"tare/probe/sched"
	"tare/record"
	"tare/workload"
)

const (
	blockedPerStart = "blocked per start"
	forCPUPerStart  = "waiting for a CPU per start"
)

// blockedMetrics are those of a trial whose waits were added up.
func blockedMetrics() []workload.Metric {
	m := []workload.Metric{
		{Name: blockedPerStart, Unit: "us", Better: workload.Lower, Count: true, Primary: true,
			Doc: "time blocked, of all threads that worked on starts"},
		{Name: forCPUPerStart, Unit: "us", Better: workload.Lower, Count: true,
			Doc: "time able to run and waiting for a CPU, of the same"},
	}
	for _, c := range causes {
		m = append(m, workload.Metric{Name: ofCause + string(c), Unit: "us", Better: workload.Lower, Count: true,
			Doc: "of it for " + string(c)})
	}
	return append(m, sharesOf("blocked time of a start")...)
}

// blocking observes what threads wait for.
type blocking struct {
	tracer *sched.Tracer
	name   sched.Symbols
}

func (o *blocking) begin(_ context.Context, b lab.Bench, _ *fleet) (func(time.Time, []timing) error, error) {
	off, err := sched.StartOffCPU()
	if err != nil {
		return nil, err
	}
	return func(_ time.Time, timings []timing) error {
		times, err := off.Stop()
		if err != nil || len(timings) == 0 {
			return err
		}
		return recordBlocked(b, times.Named(o.tracer.Processes().At, o.name), times.Lost, timings)
	}, nil
}

// recordBlocked records what the threads waited for that worked on starts. Those
// that wait for work are left out: how long they do says nothing of a start.
func recordBlocked(b lab.Bench, times []sched.OffTime, lost uint64, timings []timing) error {
	starts := float64(len(timings) - failuresOf(timings))
	perStart := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) / starts }
	var blocked, forCPU time.Duration // not the client's
	byCause := map[sched.Cause]time.Duration{}
	var stacks []breakdown.Stack
	for _, t := range times {
		if !slices.Contains(components, probe.ComponentOf(t.Process, os.Getpid())) {
			continue
		}
		client := probe.ComponentOf(t.Process, os.Getpid()) == probe.Client
		if t.State == sched.Ready {
			if !client {
				forCPU += t.Time
			}
			continue
		}
		if t.Parked {
			continue
		}
		if !client {
			blocked += t.Time
			byCause[t.Cause] += t.Time
		}
		stacks = append(stacks, breakdown.Stack{Process: t.Process, Kernel: t.Stack, Weight: t.Time.Seconds()})
	}
	b.Record(blockedPerStart, perStart(blocked))
	b.Record(forCPUPerStart, perStart(forCPU))
	for _, c := range causes {
		b.Record(ofCause+string(c), perStart(byCause[c]))
	}
	b.Record(lostSamples, float64(lost))
	whole := breakdown.Of(stacks)
	recordBreakdown(b, whole, whole.Without(probe.Client), starts)
	p, err := profileOf(stacks)
	if err != nil {
		return err
	}
	var data bytes.Buffer
	if err := p.Write(&data); err != nil {
		return fmt.Errorf("profile of what was waited for: %w", err)
	}
	b.Attach(record.Attachment{Name: blockedProfile, MediaType: profileType, Data: data.Bytes()})
	return nil
}

// profileOf gives stacks of blocked time in pprof's form.
func profileOf(stacks []breakdown.Stack) (*profile.Profile, error) {
	kernel := &profile.Mapping{ID: 1, File: "[kernel]", HasFunctions: true}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "blocked", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "blocked", Unit: "nanoseconds"},
		Period:     1,
		Mapping:    []*profile.Mapping{kernel},
	}
	known := map[string]*profile.Location{}
	classify := breakdown.NewClassifier()
	for i := range stacks {
		s := &stacks[i]
		sample := &profile.Sample{Value: []int64{int64(s.Weight * float64(time.Second))}}
		for _, name := range s.Kernel {
			at := known[name]
			if at == nil {
				id := uint64(len(known) + 1)
				f := &profile.Function{ID: id, Name: name, SystemName: name}
				at = &profile.Location{ID: id, Mapping: kernel, Address: id, Line: []profile.Line{{Function: f}}}
				known[name] = at
				p.Function = append(p.Function, f)
				p.Location = append(p.Location, at)
			}
			sample.Location = append(sample.Location, at)
		}
		cell := classify.Cell(s)
		sample.Label = map[string][]string{
			"component": {string(cell.Component)}, "group": {string(cell.Group)}, "comm": {s.Process.Comm},
		}
		p.Sample = append(p.Sample, sample)
	}
	return p, p.CheckValid()
}
