package cpu

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/kernel/cgroup"
	"tare/lab"
	"tare/platform"
	"tare/record"
	"tare/study/kit"
	"tare/study/latency/service"
	"tare/workload"
)

// Options are what the user asked for.
type Options struct {
	// Services are measured one after another, each in groups of its own; they
	// are Loaders.
	Services    []workload.Subject
	Experiments []string
	Platform    string // of the containers; canonical name
	// Base holds for every condition: the service's CPU among others.
	Base    platform.Setting
	Quotas  []time.Duration // in the first of Periods
	Periods []time.Duration
	// Further are those of Quotas whose shares are granted in the further periods, and
	// with a burst; nil is all.
	Further []time.Duration
	// Rate is the open loop's, in requests per second.
	Rate float64
	// Stall is the latency above which a request counts as stalled.
	Stall time.Duration
	// Neighbours are the service's quotas beside a neighbour, in the first of Periods.
	Neighbours []time.Duration
	Matrix     int // the neighbour's matrices have so many rows and columns
	// Slice and Tick are the kernel's, as far as they are known.
	Slice, Tick time.Duration

	Plan record.Plan
	Seed int64
	Host kit.Host
}

// granted is a quota with its period and burst; the zero value is no limit.
type granted struct{ quota, period, burst time.Duration }

func (g granted) set(s platform.Setting) platform.Setting {
	if g.quota == 0 {
		return s
	}
	s.CPUs = float64(g.quota) / float64(g.period)
	s.CPUPeriod, s.CPUBurst = g.period, g.burst
	return s
}

func (g granted) label() string {
	if g.quota == 0 {
		return "no quota"
	}
	text := fmt.Sprintf("%s/%s", g.quota, g.period)
	if g.burst > 0 {
		text += " +" + g.burst.String()
	}
	return text
}

func (g granted) factors() map[string]string {
	f := map[string]string{}
	if g.quota > 0 {
		f[factorQuota], f[factorPeriod] = g.quota.String(), g.period.String()
		if g.burst > 0 {
			f[factorBurst] = g.burst.String()
		}
	}
	return f
}

// Design makes the design. Usage errors are *kit.Usage; a platform that the host
// lacks is a *platform.Missing.
func Design(o Options) (lab.Design, error) {
	d := lab.Design{Study: service.Study, Seed: o.Seed, Plan: o.Plan}
	if err := o.check(); err != nil {
		return d, err
	}
	if len(o.Quotas) == 0 &&
		slices.ContainsFunc(o.Experiments, func(e string) bool { return e == Quota || e == Open || e == Burst }) {
		return d, kit.Usagef("--quota max: a service is always measured without a quota: name another to compare with it")
	}
	if _, err := o.Host.FindFor(o.Platform, o.Base); err != nil {
		return d, err
	}
	for _, s := range o.Services {
		groups, notes, err := o.service(s)
		if err != nil {
			return d, err
		}
		d.Groups = append(d.Groups, groups...)
		d.Plan.Notes = append(d.Plan.Notes, notes...)
	}
	if len(d.Groups) == 0 {
		return d, kit.Usagef("nothing to measure: set --experiment to some of %s", strings.Join(Experiments, ", "))
	}
	if err := d.Validate(); err != nil {
		return d, &kit.Usage{Text: err.Error() + ": name each quota, period and service once"}
	}
	return d, nil
}

// check refuses what cannot be measured.
func (o Options) check() error {
	for _, e := range o.Experiments {
		if !slices.Contains(Experiments, e) {
			return kit.Usagef("--experiment %s: want some of %s", e, strings.Join(Experiments, ", "))
		}
	}
	if len(o.Periods) == 0 {
		return kit.Usagef("--period: want at least one")
	}
	for _, of := range []struct {
		flag            string
		times           []time.Duration
		least, greatest time.Duration
	}{
		{"--quota", o.Quotas, cgroup.LeastQuota, cgroup.GreatestQuota},
		{"--period", o.Periods, cgroup.LeastPeriod, cgroup.GreatestPeriod},
		{"--neighbour-quota", o.Neighbours, cgroup.LeastQuota, cgroup.GreatestQuota},
	} {
		for _, d := range of.times {
			if d < of.least || d > of.greatest || d%time.Microsecond != 0 {
				return kit.Usagef("%s %s: want %s to %s in whole microseconds, the kernel's bounds", of.flag, d, of.least, of.greatest)
			}
		}
	}
	for _, p := range o.Periods[1:] {
		for _, q := range o.further() {
			share := scaled(q, o.Periods[0], p)
			if !o.leftOut(share) && (share < cgroup.LeastQuota || share > cgroup.GreatestQuota) {
				return kit.Usagef("--period %s: the share of --quota %s is %s there, and the kernel accepts %s to %s: set another period or quota",
					p, q, share, cgroup.LeastQuota, cgroup.GreatestQuota)
			}
		}
	}
	for _, q := range o.Neighbours {
		if rest := o.Periods[0] - q; rest < cgroup.LeastQuota {
			return kit.Usagef("--neighbour-quota %s leaves %s of a period of %s to the neighbour, which requires at least %s: set a smaller one",
				q, rest, o.Periods[0], cgroup.LeastQuota)
		}
	}
	if n := o.Base.Network; n == platform.NetworkNone {
		return kit.Usagef("--network none: no client can reach the service: set another network")
	}
	if !(o.Rate >= 1 && o.Rate <= 1e6) {
		return kit.Usagef("--rate %g: want 1 to 1e6 requests a second", o.Rate)
	}
	if why := o.Base.Contradiction(o.Host.CPUs); why != "" {
		return kit.Usagef("%s", why)
	}
	return nil
}

// service lists a service's groups.
func (o Options) service(s workload.Subject) (groups []lab.Group, notes []string, err error) {
	loader, ok := s.Workload.(workload.Loader)
	if !ok {
		return nil, nil, kit.Usagef("tare cannot load %s after its start: choose a service that `tare workloads` lists", s.Workload.Name())
	}
	for _, e := range o.Experiments {
		b := builder{Options: o, subject: s, loader: loader, experiment: e}
		if e == Open || e == Burst {
			if b.subject, ok = opened(s, o.Rate); !ok {
				notes = append(notes, fmt.Sprintf("%s has no open loop: experiment %s is left out", s.Workload.Name(), e))
				continue
			}
		}
		if b.params, err = workload.Resolve(s.Workload, b.subject.Params); err != nil {
			return nil, nil, &kit.Usage{Text: err.Error()}
		}
		b.name = nameOf(b.subject, e)
		var g lab.Group
		switch e {
		case Shares:
			g = b.shares()
		case Quota, Open:
			g = b.sweep()
		case Burst:
			var note string
			if g, note = b.burst(); note != "" {
				notes = append(notes, note)
				continue
			}
		case Neighbour:
			g = b.neighbour()
		}
		groups = append(groups, g)
	}
	return groups, notes, nil
}

// Looped is a service in a closed loop ("closed"), or in an open one at a rate;
// false where it has no such parameter.
func Looped(s workload.Subject, loop string) (workload.Subject, bool) {
	if loop != "closed" {
		rate, err := strconv.ParseFloat(loop, 64)
		if err != nil {
			return s, false
		}
		s.Params = maps.Clone(s.Params)
		delete(s.Params, "rate")
		return opened(s, rate)
	}
	return s.With("rate", loop)
}

// opened is a service whose requests come on a schedule of their own. A client
// that knows closed loops alone gives way to tare's.
func opened(s workload.Subject, rate float64) (workload.Subject, bool) {
	if s.Params["rate"] != "" && s.Params["rate"] != "closed" {
		return s, true // asked for
	}
	s.Params = maps.Clone(s.Params)
	s, ok := s.With("rate", fmt.Sprint(rate))
	if !ok {
		return s, false
	}
	s, _ = s.With("arrival", "poisson")
	if _, set := s.Params["client"]; set {
		s, _ = s.With("client", "go")
	}
	return s, true
}

// nameOf is a group's name: the service with what was set of it, and the experiment.
func nameOf(s workload.Subject, experiment string) string {
	parts := []string{experiment}
	for _, k := range slices.Sorted(maps.Keys(s.Params)) {
		if k != "duration" && k != "count" {
			parts = append(parts, k+"="+s.Params[k])
		}
	}
	return s.Workload.Name() + "[" + strings.Join(parts, ",") + "]"
}

// builder makes one group.
type builder struct {
	Options
	subject    workload.Subject
	loader     workload.Loader
	params     workload.Params
	experiment string
	name       string
}

func (b builder) condition(on, label string, s platform.Setting, factors map[string]string, baseline bool,
	p lab.Procedure, metrics []workload.Metric) lab.Condition {
	all := map[string]string{FactorExperiment: b.experiment}
	maps.Copy(all, factors)
	if baseline {
		for name, d := range map[string]time.Duration{FactorSlice: b.Slice, FactorTick: b.Tick, FactorStall: b.Stall} {
			if d > 0 {
				all[name] = d.String()
			}
		}
	}
	return lab.Condition{
		Condition: record.Condition{
			ID: b.name + "@" + strings.ReplaceAll(label, " ", "-"), Label: label, Workload: b.name, Params: b.params,
			Platform: on, Setting: s, Factors: all, Baseline: baseline, Metrics: metrics,
		},
		Program: b.subject.Workload, Source: b.subject.Image(), Procedure: p, Limit: trialLimit,
		Takes: assumedAround + span(b.params), Warms: assumedAround,
	}
}

// trialLimit bounds a trial: a service that is throttled to a hundredth answers
// slowly, and a million requests of S4's take minutes.
const trialLimit = 2 * time.Hour

func (b builder) trial() service.Trial {
	return service.Trial{Workload: b.loader, Stall: b.Stall, Begin: core{b.Base.CPUSet}.watch}
}

// shares is S4.1: bare metal against a container that has shares alone.
func (b builder) shares() lab.Group {
	g := lab.Group{Workload: b.name}
	g.Conditions = append(g.Conditions, b.condition("bare", "bare", b.Base, nil, true, b.trial().Run, metrics(false)))
	s := b.Base
	s.CPUShares = 512 // a weight of its own: the default would set nothing
	g.Conditions = append(
		g.Conditions,
		b.condition(b.Platform, b.Platform+" shares", s, nil, false, b.trial().Run, metrics(false)),
	)
	return g
}

// sweep is S4.2: quotas against none.
func (b builder) sweep() lab.Group {
	g := lab.Group{Workload: b.name}
	levels := []granted{{}}
	for _, w := range b.Bandwidths() {
		if b.experiment == Open && w.Period != b.Periods[0] {
			continue // the closed loop shows what a period does
		}
		levels = append(levels, granted{quota: w.Quota, period: w.Period})
	}
	for i, l := range levels {
		g.Conditions = append(
			g.Conditions,
			b.condition(b.Platform, l.label(), l.set(b.Base), l.factors(), i == 0, b.trial().Run, metrics(false)),
		)
	}
	return g
}

// burst has quotas with and without a burst, where the kernel and a platform
// support it.
func (b builder) burst() (lab.Group, string) {
	g := lab.Group{Workload: b.name}
	first := granted{quota: b.Periods[0] / 2, period: b.Periods[0], burst: b.Periods[0] / 2}
	on := ""
	var why error
	for _, name := range []string{b.Platform, "oci:runc", "cgroup"} {
		if _, err := b.Host.FindFor(name, first.set(b.Base)); err != nil {
			why = err
			continue
		}
		on = name
		break
	}
	if on == "" {
		return g, fmt.Sprintf("experiment burst is left out: %v", why)
	}
	levels := []granted{{}}
	for _, q := range b.further() {
		if q < b.Periods[0] {
			levels = append(
				levels,
				granted{quota: q, period: b.Periods[0]},
				granted{quota: q, period: b.Periods[0], burst: q},
			)
		}
	}
	for i, l := range levels {
		g.Conditions = append(
			g.Conditions,
			b.condition(on, l.label(), l.set(b.Base), l.factors(), i == 0, b.trial().Run, metrics(false)),
		)
	}
	return g, ""
}

// neighbour is S4.3, and the other ways of sharing a core. Its findings are
// pairs of conditions (with the other and alone), each read by the study.
func (b builder) neighbour() lab.Group {
	g := lab.Group{Workload: b.name, Once: true}
	add := func(label string, s platform.Setting, factors map[string]string, p lab.Procedure, m []workload.Metric) {
		g.Conditions = append(g.Conditions, b.condition(b.Platform, label, s, factors, len(g.Conditions) == 0, p, m))
	}
	factors := func(by, beside string, l granted) map[string]string {
		f := l.factors()
		f[factorGranted], f[factorBeside] = by, beside
		return f
	}
	beside := func(by string, of platform.Setting) lab.Procedure {
		t := b.trial()
		n := &neighbour{setting: of, size: b.Matrix, realTime: by == byRealTime}
		t.Beside, t.Begin = n.start, n.watching(t.Begin)
		return t.Run
	}
	alone := func(of platform.Setting) lab.Procedure { return (&neighbour{setting: of, size: b.Matrix}).alone }
	add("alone", b.Base, factors(byShares, besideNothing, granted{}), b.trial().Run, metrics(false))
	add("matrix alone", b.Base, factors(byShares, aloneMatrix, granted{}), alone(b.Base), matrixMetrics())
	add("shared by shares", b.Base, factors(byShares, besideMatrix, granted{}), beside(byShares, b.Base), metrics(true))
	add("service in real time", b.Base, factors(byRealTime, besideMatrix, granted{}), beside(byRealTime, b.Base), metrics(true))
	for _, q := range b.Neighbours {
		own, rest := granted{quota: q, period: b.Periods[0]}, granted{quota: b.Periods[0] - q, period: b.Periods[0]}
		add(own.label()+" alone", own.set(b.Base), factors(byQuota, besideNothing, own), b.trial().Run, metrics(false))
		add(
			own.label()+" shared",
			own.set(b.Base),
			factors(byQuota, besideMatrix, own),
			beside(byQuota, rest.set(b.Base)),
			metrics(true),
		)
		add(
			own.label()+" matrix alone",
			rest.set(b.Base),
			factors(byQuota, aloneMatrix, own),
			alone(rest.set(b.Base)),
			matrixMetrics(),
		)
	}
	return g
}

// Factors by which a prediction's run says what was asked of it.
const (
	FactorAsked  = "asked"  // the bandwidths to predict, as [Bandwidth.String] writes them, by commas
	FactorWanted = "wanted" // the p99 to keep: "5ms"; empty where none was asked for
	FactorStall  = "stall"  // the threshold of a stalled request
	// What a model must know of the kernel that was measured.
	FactorSlice = "slice" // of bandwidth, that a CPU takes at a time
	FactorTick  = "tick"
)

// Bandwidth is a quota in a period, with what may be saved up.
type Bandwidth struct{ Quota, Period, Burst time.Duration }

// String writes a bandwidth as conditions are labelled: "1.5ms/10ms +1ms".
func (b Bandwidth) String() string { return granted{b.Quota, b.Period, b.Burst}.label() }

// ParseBandwidth reads what String writes.
func ParseBandwidth(text string) (b Bandwidth, err error) {
	quota, rest, ok := strings.Cut(text, "/")
	period, burst, saved := strings.Cut(rest, " +")
	if !ok {
		return b, fmt.Errorf("bandwidth %q: want QUOTA/PERIOD, such as 1.5ms/10ms", text)
	}
	if b.Quota, err = time.ParseDuration(quota); err != nil {
		return b, fmt.Errorf("bandwidth %q: %w", text, err)
	}
	if b.Period, err = time.ParseDuration(period); err != nil {
		return b, fmt.Errorf("bandwidth %q: %w", text, err)
	}
	if saved {
		if b.Burst, err = time.ParseDuration(burst); err != nil {
			return b, fmt.Errorf("bandwidth %q: %w", text, err)
		}
	}
	return b, nil
}

// further are the quotas whose shares are granted in further periods.
func (o Options) further() []time.Duration {
	if o.Further == nil {
		return o.Quotas
	}
	return o.Further
}

// leftOut reports whether a share in a further period is one that nobody named, and less than the kernel
// accepts: short periods have no small shares.
func (o Options) leftOut(share time.Duration) bool {
	return o.Further != nil && share < cgroup.LeastQuota
}

// scaled is a quota's share of one period, in another; at most the longest time there is.
func scaled(quota, of, period time.Duration) time.Duration {
	share := float64(quota) / float64(of) * float64(period)
	if share >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(share).Round(time.Microsecond)
}

// Bandwidths are those that the options come to: each quota in the first period,
// and shares of them in the others.
func (o Options) Bandwidths() []Bandwidth {
	var all []Bandwidth
	for i, p := range o.Periods {
		quotas := o.Quotas
		if i > 0 {
			quotas = o.further()
		}
		for _, q := range quotas {
			if i > 0 {
				q = scaled(q, o.Periods[0], p)
			}
			if i > 0 && o.leftOut(q) {
				continue
			}
			all = append(all, Bandwidth{Quota: q, Period: p})
		}
	}
	return all
}

// Unlimited makes the design of a prediction: each service without any quota, in
// a closed loop unless its parameters have a rate. What is to be predicted is
// noted with the conditions; validate measures it too.
func Unlimited(o Options, asked []Bandwidth, wanted time.Duration, validate bool) (lab.Design, error) {
	d := lab.Design{Study: service.Study, Seed: o.Seed, Plan: o.Plan}
	o.Neighbours = nil
	if err := o.check(); err != nil {
		return d, err
	}
	if len(asked) == 0 && wanted == 0 {
		return d, kit.Usagef("--quota max: a service is always measured without a quota: name another to predict, or a --p99")
	}
	for _, s := range o.Services {
		b := builder{Options: o, subject: s, experiment: Quota}
		if rate := s.Params["rate"]; rate != "" && rate != "closed" {
			b.experiment = Open
		}
		var ok bool
		if b.loader, ok = s.Workload.(workload.Loader); !ok {
			return d, kit.Usagef("tare cannot load %s after its start: choose a service that `tare workloads` lists", s.Workload.Name())
		}
		var err error
		if b.params, err = workload.Resolve(s.Workload, s.Params); err != nil {
			return d, &kit.Usage{Text: err.Error()}
		}
		b.name = nameOf(s, b.experiment)
		levels := []granted{{}}
		if validate {
			for _, a := range asked {
				levels = append(levels, granted{a.Quota, a.Period, a.Burst})
			}
		}
		var texts []string
		for _, a := range asked {
			texts = append(texts, a.String())
		}
		g := lab.Group{Workload: b.name, Once: !validate}
		for i, l := range levels {
			on := b.Platform
			if _, err := b.Host.FindFor(on, l.set(b.Base)); err != nil {
				return d, err
			}
			c := b.condition(on, l.label(), l.set(b.Base), l.factors(), i == 0, b.trial().Run, metrics(false))
			if i == 0 {
				c.Factors[FactorAsked] = strings.Join(texts, ",")
				if wanted > 0 {
					c.Factors[FactorWanted] = wanted.String()
				}
			}
			g.Conditions = append(g.Conditions, c)
		}
		d.Groups = append(d.Groups, g)
	}
	if err := d.Validate(); err != nil {
		return d, &kit.Usage{Text: err.Error() + ": name each quota, period and service once"}
	}
	return d, nil
}
