package diagnose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/container"
	"tare/kernel/cgroup"
	"tare/lab"
	"tare/overhead"
	"tare/platform"
	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/study/kit"
	"tare/study/weigh"
	"tare/workload"
)

// quotaChange is a quota as a change of settings; the zero one is none.
func quotaChange(to cgroup.Bandwidth) map[string]string {
	change := map[string]string{"cpus": "", "cpu-period": "", "cpu-burst": ""}
	if to.Quota > 0 {
		change["cpus"] = strconv.FormatFloat(to.CPUs(), 'g', -1, 64)
		change["cpu-period"] = to.Period.String()
	}
	if to.Burst > 0 {
		change["cpu-burst"] = to.Burst.String()
	}
	return change
}

// changed is a setting with a remedy's change.
func (r Remedy) changed(s platform.Setting) (platform.Setting, error) {
	for _, key := range platform.KeyNames() {
		switch value, ok := r.Change[key]; {
		case ok && value == "":
			s.Clear(key)
		case ok:
			if err := s.Set(key, value); err != nil {
				return s, err
			}
		}
	}
	return s.Normal(), nil
}

// ContainerOf is the container that a finding's id begins with; empty where it is no id.
func ContainerOf(id string) string {
	id, _, _ = strings.Cut(id, ":") // a neighbour's name
	if at := strings.LastIndex(id, "/"); at > 0 {
		return id[:at]
	}
	return ""
}

// Promise is a finding with the setting that is to end it.
type Promise struct {
	Finding Finding
	Remedy  Remedy
}

// PromiseOf finds a finding by its id, and the first of its settings that a copy can be given.
func (r *Result) PromiseOf(id string) (Promise, error) {
	at := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.ID == id })
	if at < 0 {
		var found []string
		for _, f := range r.Findings {
			found = append(found, f.ID)
		}
		return Promise{}, fmt.Errorf("%s was not found within %s, so there is nothing to verify; found: %s",
			id, short(r.Span), cmp.Or(strings.Join(found, ", "), "nothing"))
	}
	f := r.Findings[at]
	for _, remedy := range f.Set {
		if len(remedy.Change) > 0 {
			return Promise{f, remedy}, nil
		}
	}
	return Promise{}, fmt.Errorf("%s proposes no setting that a copy can be given: a quota, a burst, shares, a memory limit and seccomp can be verified", id)
}

// Lost is the metric that a verification compares: see [Cost].
const Lost = "lost"

// VerifyOptions are what a verification needs besides the promise.
type VerifyOptions struct {
	Container container.Container
	Load      weigh.CopyLoad
	Blocks    int
	Span      time.Duration // of each observation
	Seed      int64
	Host      kit.Host
}

// Verify designs the comparison of a copy with the current setting and one with the proposed,
// which are observed in turn as [Run] observes the container.
func (p Promise) Verify(ctx context.Context, o VerifyOptions) (lab.Design, error) {
	copied := &observed{kind: p.Finding.Kind, span: o.Span}
	o.Load.For, o.Load.Beside = o.Span, copied.observe
	made, err := weigh.CopyOf(ctx, o.Container, o.Load, o.Host)
	if err != nil {
		return lab.Design{}, err
	}
	proposed, err := p.Remedy.changed(made.Base)
	if err != nil {
		return lab.Design{}, err
	}
	if proposed == made.Base {
		return lab.Design{}, fmt.Errorf("%s has the proposed setting already: diagnose it again", o.Container.Name)
	}
	d, err := weigh.Design(weigh.Options{
		Subjects: []weigh.Subject{made.Subject}, Platforms: []string{made.Platform}, Base: made.Base,
		Also: []platform.Setting{proposed}, Baseline: made.Platform, Seed: o.Seed, Host: o.Host,
		Plan: record.Plan{Blocks: o.Blocks, SmallestEffect: weigh.DefaultSmallestEffect, Level: weigh.DefaultLevel},
	})
	if err != nil {
		return d, err
	}
	made.Mark(&d)
	if len(o.Load.Client) == 0 && o.Load.Replay == nil {
		d.Plan.Notes = append(d.Plan.Notes, "the load is unknown: the copy does its own work alone; --replay FILE or a client after -- loads it")
	}
	for i := range d.Groups {
		d.Groups[i].Once = true
		for j := range d.Groups[i].Conditions {
			c := &d.Groups[i].Conditions[j]
			c.Watch, c.Takes = copied.watch, o.Span+takesBeside
			c.Metrics = append(slices.Clone(c.Metrics), workload.Metric{
				Name: Lost, Unit: "s/s", Better: workload.Lower, Count: true, Doc: "time that its work lost in each second",
			})
		}
	}
	return d, nil
}

// takesBeside is about what the launch and the end of a copy take.
const takesBeside = 4 * time.Second

// observed is the copy that runs: one at a time does.
type observed struct {
	kind  Kind
	span  time.Duration
	copy  container.Container
	bench lab.Bench
}

// watch keeps which copy is to be observed once it is ready.
func (o *observed) watch(_ context.Context, b lab.Bench, inst platform.Instance) (func(context.Context) error, error) {
	pids, err := inst.Processes()
	if err != nil || len(pids) == 0 {
		return nil, errors.Join(err, errors.New("the copy ended as it began"))
	}
	layout, err := cgroup.Host()
	if err != nil {
		return nil, err
	}
	in, _, err := layout.Of(pids[0])
	if err != nil {
		return nil, err
	}
	place, ok := in.For("cpu")
	if !ok {
		return nil, errors.New("no control group of the copy has the cpu controller")
	}
	finder := container.Open(container.Options{Docker: []string{}, Containerd: []string{}})
	if o.copy, ok, err = finder.Group(place.Path); err == nil && !ok {
		err = fmt.Errorf("nothing runs in the copy's control group %s", place.Path)
	}
	o.bench = b
	return func(context.Context) error { return nil }, err
}

// observe diagnoses the copy, and records what it loses.
func (o *observed) observe(ctx context.Context) error {
	r, err := Run(ctx, []container.Container{o.copy}, true, o.span)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var lost float64
	for _, f := range r.Findings {
		if f.Kind == o.kind {
			lost += f.Cost.Rate
		}
	}
	o.bench.Record(Lost, lost)
	return nil
}

// Outcome is whether a promise held.
type Outcome string

// The outcomes.
const (
	Held     Outcome = "held"
	Broken   Outcome = "not held"
	Open     Outcome = "inconclusive"
	NotShown Outcome = "not shown" // the copy lost next to nothing before, so that nothing could be saved
)

// keptShare is the share of the loss that has to be saved: the accuracy of a cost is a quarter.
const keptShare = 0.75

// leastShown is the loss of a copy below which it does not show the finding.
const leastShown = 0.01

// Verification is what came of it.
type Verification struct {
	Promise  Promise
	Outcome  Outcome
	Current  stats.Estimate // time lost in each second
	Proposed stats.Estimate
	Saved    stats.Estimate // within blocks
	run      record.Run
}

// Verified reads a run of a verification's design.
func (p Promise) Verified(run record.Run) Verification {
	v := Verification{Promise: p, run: run}
	baseline := ""
	for _, c := range run.Conditions {
		if c.Baseline {
			baseline = c.ID
		}
	}
	current, proposed := map[int]float64{}, map[int]float64{}
	for _, t := range run.Trials {
		for _, s := range t.Samples {
			switch {
			case t.Block == 0 || t.Error != "" || s.Metric != Lost:
			case t.Condition == baseline:
				current[t.Block] = s.Value
			default:
				proposed[t.Block] = s.Value
			}
		}
	}
	var was, is, saved, enough []float64
	for block := range len(run.Trials) + 1 {
		before, ok := current[block]
		after, both := proposed[block]
		if ok && both {
			was, is = append(was, before), append(is, after)
			saved, enough = append(saved, before-after), append(enough, before-after-keptShare*before)
		}
	}
	mean := func(values []float64) stats.Estimate {
		return stats.MeanBy(stats.MethodT, values, run.Plan.Level, run.Seed)
	}
	v.Current, v.Proposed, v.Saved = mean(was), mean(is), mean(saved)
	switch margin := mean(enough); {
	case len(was) > 0 && v.Current.Value < leastShown:
		v.Outcome = NotShown
	case margin.DiffersFrom(0) && margin.Value > 0:
		v.Outcome = Held
	case margin.DiffersFrom(0):
		v.Outcome = Broken
	default:
		v.Outcome = Open
	}
	return v
}

// Answer is the verification in a sentence or two.
func (v Verification) Answer() string {
	f := v.Promise.Finding
	promise := fmt.Sprintf("%s: %s", f.ID, v.Promise.Remedy.Says)
	switch v.Outcome {
	case NotShown:
		return promise + ". Not shown: the copy loses next to nothing under this load."
	case Held:
		return promise + ". The promise held: it ends at least three quarters of what the copy loses."
	case Broken:
		return promise + ". The promise did not hold: it ends less than three quarters of what the copy loses."
	}
	return promise + ". Inconclusive: more blocks (--blocks) would narrow the interval."
}

// Sheet is the page of a verification.
func (v Verification) Sheet(on record.Host) report.Sheet {
	s := report.Sheet{
		Title: "tare diagnose --verify", Answer: v.Answer(),
		Facts: []string{
			fmt.Sprintf("finding: %s loses %s", v.Promise.Finding.Container, v.Promise.Finding.Cost),
			fmt.Sprintf("blocks: %d, each with both settings in a drawn order, seed %d", v.Saved.N, v.run.Seed),
			report.HostFact(on),
		},
		Next: []string{"tare show " + v.run.ID},
	}
	for _, n := range v.run.Plan.Notes {
		s.Banners = append(s.Banners, "note: "+n)
	}
	t := report.Table{
		Title:   "Time that the copy's work lost, in s/s",
		Note:    "Promised: of the current loss nothing is left. It holds where three quarters or more are saved.",
		Columns: []report.Column{{Head: "setting"}, {Head: "lost, s/s", Number: true}, {Head: "95 % interval", Number: true}},
	}
	for _, row := range []struct {
		says string
		of   stats.Estimate
	}{{"current", v.Current}, {"proposed", v.Proposed}, {"saved", v.Saved}} {
		t.Rows = append(t.Rows, []report.Cell{
			{Text: row.says}, report.Measured(row.of.Value), {Text: intervalOf(row.of)},
		})
	}
	s.Parts = append(s.Parts, t)
	return s
}

func intervalOf(e stats.Estimate) string {
	if !e.Known() {
		return "–"
	}
	return fmt.Sprintf("%s to %s", report.Rounded(e.Interval.Low, 2), report.Rounded(e.Interval.High, 2))
}

// VerifySchema names the layout of what `tare diagnose --verify --json` writes.
const VerifySchema = "tare-verify/1"

// VerifyDocument is a verification as JSON.
type VerifyDocument struct {
	Schema   string                    `json:"schema"`
	Host     record.Host               `json:"host"`
	Run      string                    `json:"run"`
	Finding  Finding                   `json:"finding"`
	Setting  Remedy                    `json:"setting"`
	Outcome  Outcome                   `json:"outcome"`
	Current  overhead.DocumentEstimate `json:"current"`
	Proposed overhead.DocumentEstimate `json:"proposed"`
	Saved    overhead.DocumentEstimate `json:"saved"`
	Notes    []string                  `json:"notes,omitempty"`
}

// Document makes it.
func (v Verification) Document(on record.Host) VerifyDocument {
	number := func(e stats.Estimate) overhead.DocumentEstimate {
		return overhead.DocumentEstimate{
			Estimate: overhead.Number(e.Value),
			Low:      overhead.Number(e.Interval.Low), High: overhead.Number(e.Interval.High),
			N: e.N, Method: e.Method, Warnings: append([]string{}, e.Warnings...),
		}
	}
	return VerifyDocument{
		Schema: VerifySchema, Host: on, Run: v.run.ID, Finding: v.Promise.Finding, Setting: v.Promise.Remedy,
		Outcome: v.Outcome, Current: number(v.Current), Proposed: number(v.Proposed), Saved: number(v.Saved),
		Notes: v.run.Plan.Notes,
	}
}
