// Package predict predicts the latency of each service of a run under any CPU quota,
// from that run's conditions without one, and compares it with what was measured.
//
// From a condition without a quota it reads three things: the CPU time per request,
// the latencies, and how requests arrived. The model is package model/quota.
// Conditions with a quota are read for the comparison only: no prediction uses them.
//
// A run may hold several services, in closed and in open loops. Each is predicted
// from its own condition without a quota. Other conditions differ from it only by
// cpus, cpu-period and cpu-burst.
package predict

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/load"
	"tare/model/quota"
	"tare/overhead"
	"tare/platform"
	"tare/record"
	"tare/stats"
	"tare/study/latency/service"
	"tare/workload"
)

// Options are what to predict; the zero value predicts the conditions that a run
// measured.
type Options struct {
	// Asked are predicted too.
	Asked []quota.Bandwidth
	// Wanted is the p99 for which the smallest quota is sought; 0 is none.
	Wanted time.Duration
	// Kernel is that of the host that was measured; the zero value is
	// [quota.DefaultKernel]. [HostKernel] reads this host's.
	Kernel quota.Kernel
	// Stall is the latency above which a request counted as stalled; 0 is
	// [service.DefaultStall].
	Stall time.Duration
	// Offered gives how a condition's requests arrived; nil is by the shipped workload
	// of its name.
	Offered func(c record.Condition) (workload.Offered, error)
}

// The accuracy promised of a prediction: its p99 is within Relative or Absolute of the
// measured one, whichever is more. Nothing is promised within the cliff, where the
// quota is near the demand: small changes of either decide there.
const (
	Relative = 0.15
	Absolute = 200 * time.Microsecond
	Cliff    = 0.2 // of the demand, to either side
	// Flat is how near to the p99 without a quota one above the cliff is.
	Flat = 0.1
)

// Result is all services of a run.
type Result struct {
	Services []Service
	Options  Options
}

// Service is one service under one kind of load.
type Service struct {
	Name    string           // the group's: "thrift[open]"
	Base    record.Condition // without a quota
	Offered workload.Offered
	Known   quota.Service // what it is predicted from
	Arrival quota.Arrival
	// Demand is the CPU time of a request in microseconds, Load that of a second
	// in CPUs: where the cliff is.
	Demand stats.Estimate
	Load   float64
	Rows   []Row // by period, burst and quota
	// Smallest quotas that keep the wanted p99, by period, without a burst and with
	// the greatest; empty where none was wanted.
	Smallest []Smallest
	// Free is the measured p99 without a quota, in microseconds.
	Free stats.Estimate
}

// Row is one bandwidth.
type Row struct {
	Bandwidth quota.Bandwidth
	Predicted quota.Prediction
	// Measured is the condition that had it; Found reports whether there is one.
	Measured record.Condition
	Found    bool
	P99      Comparison
	P999     Comparison
	Mean     Comparison
	Stalled  Comparison
	Short    Comparison // periods that ran out, in percent
	// InCliff means that the quota is near the demand, where nothing is promised.
	InCliff bool
}

// Comparison is a figure as it was predicted and as it was measured.
type Comparison struct {
	Predicted quota.Figure
	Measured  stats.Estimate // its value is not a number where it was not measured
}

// Error is the predicted figure's, as a share of the measured one.
func (c Comparison) Error() float64 { return c.Predicted.Value/c.Measured.Value - 1 }

// Kept reports whether a predicted p99 is as accurate as promised.
func (c Comparison) Kept() bool {
	bound := max(Relative*c.Measured.Value, float64(Absolute.Microseconds()))
	return math.Abs(c.Predicted.Value-c.Measured.Value) <= bound
}

// Known reports whether there is a measured figure.
func (c Comparison) Known() bool { return !math.IsNaN(c.Measured.Value) }

// Smallest is the smallest quota of a period that keeps a wanted p99.
type Smallest struct {
	Period     time.Duration
	Saving     bool // with the largest burst that the kernel allows: the quota itself
	Quota      time.Duration
	Prediction quota.Prediction
	// None is why there is none: a *[quota.Unreachable].
	None error
}

// Nothing is the error of a run from which nothing can be predicted.
type Nothing struct{ Why string }

func (n *Nothing) Error() string {
	return "nothing to predict from: " + n.Why + ": run `tare predict quota SERVICE`"
}

// From predicts a run's services. The error is a *[Nothing] where the run has no
// service without a quota.
func From(run record.Run, o Options) (Result, error) {
	if o.Offered == nil {
		o.Offered = shipped
	}
	if o.Stall == 0 {
		o.Stall = service.DefaultStall
	}
	if o.Kernel == (quota.Kernel{}) {
		o.Kernel = quota.DefaultKernel
	}
	r := Result{Options: o}
	reading := overhead.Read(run)
	for _, c := range bases(reading, o) {
		s, err := predict(reading, c, siblings(run, c), o)
		if err != nil {
			return Result{}, fmt.Errorf("predict %s: %w", c.Workload, err)
		}
		r.Services = append(r.Services, s)
	}
	if len(r.Services) == 0 {
		return Result{}, &Nothing{"the run has no service without a quota, or no quota to predict"}
	}
	return r, nil
}

// bases are the conditions without a quota to predict from: those that have siblings
// with one. Without any, they are the baselines, if a prediction is asked for.
func bases(r overhead.Reading, o Options) []record.Condition {
	var beside, baselines []record.Condition
	for _, c := range r.Run.Conditions {
		if c.Setting.CPUs != 0 || len(r.PerBlock(c, service.Demand)) == 0 {
			continue
		}
		if len(siblings(r.Run, c)) > 0 {
			beside = append(beside, c)
		}
		if c.Baseline {
			baselines = append(baselines, c)
		}
	}
	if len(beside) > 0 || len(o.Asked) == 0 && o.Wanted == 0 {
		return beside
	}
	return baselines
}

// shipped is how requests arrive by the shipped workload of a condition's name.
func shipped(c record.Condition) (workload.Offered, error) {
	name, _, _ := strings.Cut(c.Workload, "[")
	w, err := workload.Lookup(name)
	if err != nil {
		return workload.Offered{}, err
	}
	loader, ok := w.(workload.Loader)
	if !ok {
		return workload.Offered{}, fmt.Errorf("%s is not a service: how its requests arrive is unknown", name)
	}
	return loader.Offered(c.Params)
}

// siblings are the conditions that differ from one without a quota by the quota
// alone.
func siblings(run record.Run, base record.Condition) []record.Condition {
	var all []record.Condition
	for _, c := range run.Conditions {
		if c.Setting.CPUs > 0 && c.Workload == base.Workload && c.Platform == base.Platform &&
			maps.Equal(
				c.Params,
				base.Params,
			) && unlimited(c.Setting) == unlimited(base.Setting) && agree(c.Factors, base.Factors) {
			all = append(all, c)
		}
	}
	return all
}

func unlimited(s platform.Setting) platform.Setting {
	s.CPUs, s.CPUPeriod, s.CPUBurst = 0, 0, 0
	return s
}

// agree reports whether no factor that both have differs: a quota is a factor that
// the condition without one lacks.
func agree(a, b map[string]string) bool {
	for name, level := range a {
		if other, both := b[name]; both && other != level {
			return false
		}
	}
	return true
}

// bandwidthOf is a condition's, as the kernel has it.
func bandwidthOf(s platform.Setting) quota.Bandwidth { return quota.Bandwidth(s.Limits().Bandwidth) }

func predict(r overhead.Reading, base record.Condition, limited []record.Condition, o Options) (Service, error) {
	s := Service{
		Name:   base.Workload,
		Base:   base,
		Demand: r.Value(base, service.Demand),
		Free:   r.Value(base, service.P99),
	}
	var err error
	if s.Offered, err = o.Offered(base); err != nil {
		return s, err
	}
	s.Arrival = quota.Arrival{
		Rate:        s.Offered.Rate,
		Poisson:     s.Offered.Arrival == load.Poisson,
		Connections: s.Offered.Connections,
	}
	latencies, err := r.Merged(base, service.Latency)
	if err != nil {
		return s, err
	}
	if s.Known, err = known(r, s, latencies); err != nil {
		return s, err
	}
	if s.Load, err = quota.Load(s.Known, s.Arrival); err != nil {
		return s, err
	}
	loads := requests(r, base)
	options := quota.Options{Requests: min(loads, enough), Seed: uint64(r.Run.Seed), Stall: o.Stall, Kernel: o.Kernel}

	add := func(b quota.Bandwidth, c *record.Condition) error {
		p, err := quota.Predict(s.Known, s.Arrival, b, options)
		if err == nil && p.Overloaded && loads > enough {
			whole := options
			whole.Requests, whole.Reruns = loads, overloadedReruns
			p, err = quota.Predict(s.Known, s.Arrival, b, whole)
		}
		if err != nil {
			return err
		}
		row := Row{Bandwidth: p.Bandwidth, Predicted: p}
		if c != nil {
			row.Measured, row.Found = *c, true
		}
		row.InCliff = math.Abs(float64(row.Bandwidth.Quota)/float64(row.Bandwidth.Period)/s.Load-1) <= Cliff
		compare := func(f quota.Figure, metric string) Comparison {
			return Comparison{f, r.Value(row.Measured, metric)}
		}
		row.P99, row.P999, row.Mean = compare(p.P99, service.P99), compare(p.P999, service.P999),
			compare(p.Mean, service.Mean)
		row.Stalled, row.Short = compare(p.Stalled, service.Stalled),
			compare(p.ThrottledPeriods, service.ThrottledShare)
		s.Rows = append(s.Rows, row)
		return nil
	}
	for i := range limited {
		if err := add(bandwidthOf(limited[i].Setting), &limited[i]); err != nil {
			return s, err
		}
	}
	for _, b := range o.Asked {
		if slices.ContainsFunc(s.Rows, func(row Row) bool { return row.Bandwidth == b }) {
			continue
		}
		if err := add(b, nil); err != nil {
			return s, err
		}
	}
	slices.SortStableFunc(s.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Bandwidth.Period, b.Bandwidth.Period),
			cmp.Compare(a.Bandwidth.Quota, b.Bandwidth.Quota), cmp.Compare(a.Bandwidth.Burst, b.Bandwidth.Burst))
	})
	if o.Wanted > 0 {
		if s.Smallest, err = smallest(s, o.Wanted, options); err != nil {
			return s, err
		}
	}
	return s, nil
}

// known is what the model knows of a service.
func known(r overhead.Reading, s Service, latencies *hdrhistogram.Histogram) (quota.Service, error) {
	micros := func(v float64) time.Duration { return time.Duration(v * float64(time.Microsecond)) }
	k := quota.Service{
		Demand: quota.Demand{Mean: micros(s.Demand.Value)}, Base: latencies, Threads: s.Offered.Threads, CPUs: 1,
	}
	if i := s.Demand.Interval; s.Demand.Known() && i.Low <= s.Demand.Value && s.Demand.Value <= i.High {
		k.Demand.Low, k.Demand.High = micros(max(i.Low, 0)), micros(i.High)
	}
	switch set := s.Base.Setting.CPUSet; {
	case set != "":
		cpus, err := platform.ParseCPUList(set)
		if err != nil {
			return k, err
		}
		k.CPUs = len(cpus)
	case r.Run.Host.CPUs > 0:
		k.CPUs = r.Run.Host.CPUs
	}
	return k, nil
}

// A simulation of enough requests settles the percentiles. More are simulated only
// where latency grows with their number; phases matter little there.
const (
	enough           = quota.DefaultRequests
	overloadedReruns = 3
)

// requests is how many a trial had, within the bounds of a simulation.
func requests(r overhead.Reading, c record.Condition) int {
	trials := r.Trials(c)
	var sum float64
	for _, t := range trials {
		sum += t.Covariates[service.Requests]
	}
	if sum == 0 {
		return enough
	}
	const least, most = 1000, 1_000_000
	return int(min(max(sum/float64(len(trials)), least), most))
}

// smallest finds the quotas that keep a wanted p99 in each period of the rows.
func smallest(s Service, wanted time.Duration, options quota.Options) ([]Smallest, error) {
	var all []Smallest
	for _, period := range s.Periods() {
		for _, saving := range []bool{false, true} {
			one := Smallest{Period: period, Saving: saving}
			burst := time.Duration(0)
			if saving {
				burst = quota.MaxPeriod // cut down to each quota
			}
			var err error
			one.Quota, one.Prediction, err = quota.Smallest(s.Known, s.Arrival, period, burst, wanted, options)
			var unreachable *quota.Unreachable
			if errors.As(err, &unreachable) {
				one.None = unreachable
			} else if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
	}
	return all, nil
}

// Periods are those of the rows, or the kernel's default where there are none.
func (s Service) Periods() []time.Duration {
	var all []time.Duration
	for _, row := range s.Rows {
		if !slices.Contains(all, row.Bandwidth.Period) {
			all = append(all, row.Bandwidth.Period)
		}
	}
	if len(all) == 0 {
		return []time.Duration{quota.DefaultPeriod}
	}
	return all
}

// Sweep gives the rows of a period without a burst, by quota.
func (s Service) Sweep(period time.Duration) []Row {
	var all []Row
	for _, row := range s.Rows {
		if row.Bandwidth.Period == period && row.Bandwidth.Burst == 0 {
			all = append(all, row)
		}
	}
	return all
}

// Edge is where in a period's sweep of measured quotas the cliff is: the first
// quota whose p99 is within [Flat] of that without one, as predicted and as
// measured.
type Edge struct {
	Quotas              []time.Duration
	Predicted, Measured int // positions in Quotas; their number where none is
}

// Kept reports whether the cliff is placed within one step of the sweep.
func (e Edge) Kept() bool { return max(e.Predicted-e.Measured, e.Measured-e.Predicted) <= 1 }

// Edge finds the cliff of a period; ok is false where nothing was measured there.
func (s Service) Edge(period time.Duration) (e Edge, ok bool) {
	free := float64(s.Known.Base.ValueAtQuantile(99))
	var predicted, measured []bool
	for _, row := range s.Sweep(period) {
		if !row.Found || !row.P99.Known() {
			continue
		}
		e.Quotas = append(e.Quotas, row.Bandwidth.Quota)
		predicted = append(predicted, row.P99.Predicted.Value <= (1+Flat)*free)
		measured = append(measured, row.P99.Measured.Value <= (1+Flat)*s.Free.Value)
	}
	first := func(flat []bool) int {
		if i := slices.Index(flat, true); i >= 0 {
			return i
		}
		return len(flat)
	}
	e.Predicted, e.Measured = first(predicted), first(measured)
	return e, len(e.Quotas) > 0
}

// Tally is how many predicted p99s are as accurate as promised, of those outside the
// cliff that were measured.
func (s Service) Tally() (kept, of int) {
	for _, row := range s.Rows {
		if row.Found && !row.InCliff && row.P99.Known() {
			of++
			if row.P99.Kept() {
				kept++
			}
		}
	}
	return kept, of
}
