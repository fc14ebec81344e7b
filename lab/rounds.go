package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tare/overhead"
	"tare/platform"
	"tare/record"
	"tare/stats"
	"tare/workload"
)

// chooseDesign settles whether a group is measured by rounds: where the plan asks for them,
// and each of its conditions can be sliced. What cannot be is measured by blocks, and the
// plan says why. A run that is resumed keeps its design.
func (r *runner) chooseDesign(ctx context.Context, g *Group) error {
	p := r.groups[g.Workload]
	p.rounds = false
	if !r.design.Plan.InRounds(g.Workload) {
		return nil
	}
	executions, why := Sliceable(ctx, *g, func(name string) platform.Platform { return r.platforms[name] })
	if why != "" && p.warm {
		return fmt.Errorf("run %s cannot be resumed: %s was measured in rounds, and now %s", r.run.ID, g.Workload, why)
	}
	if why != "" {
		r.block(g.Workload, why)
		return nil
	}
	p.rounds, p.executions = true, executions
	if executions {
		return nil
	}
	for i := range g.Conditions {
		c := &g.Conditions[i]
		c.Metrics = c.Program.(workload.Sliced).SliceMetrics(c.Params)
	}
	return nil
}

// Sliceable says why a group cannot be measured by rounds; empty where it can, and then
// whether a slice is an execution. Only a pilot finds out whether the program still works
// after it was frozen.
func Sliceable(
	ctx context.Context,
	g Group,
	platforms func(name string) platform.Platform,
) (executions bool, why string) {
	var drives []workload.Drive
	for _, c := range g.Conditions {
		if c.Procedure != nil || c.Watch != nil || c.Around != nil {
			return false, "its study has trials of its own"
		}
		program, err := c.Program.Program(c.Params)
		if err != nil {
			return false, firstLine(err.Error())
		}
		sliced, ok := c.Program.(workload.Sliced)
		if !program.Service && (!ok || c.Setting.Network == platform.NetworkNone) {
			executions = true // it runs to its end, and nobody asks it anything
			continue
		}
		if !ok {
			return false, fmt.Sprintf("the load of %s cannot be cut into slices", c.Program.Name())
		}
		own, err := sliced.Drives(c.Params)
		if err != nil {
			return false, firstLine(err.Error())
		}
		if drives == nil {
			drives = own
		}
		if !slices.Equal(own, drives) {
			return false, fmt.Sprintf("the conditions of %s are loaded in different ways", c.Program.Name())
		}
		freezer, ok := platforms(c.Platform).(platform.Freezer)
		if !ok {
			return false, fmt.Sprintf("%s cannot freeze a program", c.Platform)
		}
		if err := freezer.Freezes(ctx, c.Setting); err != nil {
			return false, firstLine(err.Error())
		}
		if !workload.Places(c.Program) {
			return false, fmt.Sprintf("%s has a port of its own, so that no two can run side by side on one network", c.Program.Name())
		}
	}
	return executions, ""
}

// block has a group measured by blocks.
func (r *runner) block(group, why string) {
	blocked := maps.Clone(r.design.Plan.Blocked)
	if blocked == nil {
		blocked = map[string]string{}
	}
	blocked[group] = why
	r.design.Plan.Blocked = blocked
	r.lab.tell(Event{Kind: Warned, Group: group, Text: fmt.Sprintf("%s is measured in blocks: %s", group, why)})
}

// advance runs a group's pilot, or its next round.
func (r *runner) advance(ctx context.Context, g Group, p *progress) error {
	if r.waits(p) {
		return nil
	}
	if p.warm {
		return r.completeRound(ctx, g, p)
	}
	r.lab.tell(Event{Kind: Started, Group: g.Workload, Rounds: true, Text: "pilot", Left: r.left()})
	err := r.pilotOf(ctx, g, p)
	var cannot *cannotSlice
	if ctx.Err() == nil && errors.As(err, &cannot) {
		if _, explains := r.design.Plan.Layers[g.Workload]; explains {
			return cannot // blocks of what is left of the time would explain nothing
		}
		return r.fallBack(g, p, cannot.Why)
	}
	if err != nil {
		return fmt.Errorf("%s, pilot: %w", g.Workload, err)
	}
	p.warm, p.piloted = true, p.spent
	r.interim(g.Workload)
	return nil
}

// waits tells that a group has had more of the budget than another that goes on.
func (r *runner) waits(p *progress) bool {
	for _, o := range r.groups {
		if o != p && o.rounds && !o.done && o.spent < p.spent {
			return true
		}
	}
	return false
}

// fallBack has a group measured by blocks whose pilot has found that it cannot be sliced.
func (r *runner) fallBack(g Group, p *progress, why string) error {
	p.target /= r.turns(g)
	p.rounds, p.inPairs, p.spent = false, false, 0
	r.block(g.Workload, why)
	for i := range g.Conditions {
		c := &g.Conditions[i]
		c.Metrics = c.Program.Metrics(c.Params)
		if err := r.lab.Store.SetMetrics(r.run.ID, c.ID, c.Metrics); err != nil {
			return err
		}
	}
	r.run.Plan = r.design.Plan
	return r.lab.Store.SetPlan(r.run.ID, r.run.Plan)
}

// mostRounds bounds a group that has neither a budget nor a number of rounds, and whose
// intervals do not become as narrow as was asked for.
const mostRounds = 200

// enoughRounds is the stop rule for a group: the number of rounds that was asked for, the
// budget, or the wanted precision. It looks at no verdict.
func (r *runner) enoughRounds(g Group, p *progress) bool {
	plan, single := r.design.Plan, 1
	if p.executions && plan.Rounds[g.Workload].Strips == 1 {
		single = leastStrips // what bounds rounds holds so many of one strip
	}
	target := p.target
	if p.targetIsLimit {
		target *= single
	}
	if target > 0 && p.blocks >= target {
		return true
	}
	if plan.Budget > 0 && p.blocks > 0 && r.outOfTime(r.costOf(g, p)) {
		return true
	}
	if plan.Budget == 0 && p.blocks >= mostRounds*single {
		return true
	}
	if plan.Precision == 0 || p.blocks < stats.StopFrom || p.blocks%single != 0 {
		return false
	}
	run, err := r.lab.Store.Run(r.run.ID)
	return err == nil && overhead.HalfWidth(run, overhead.Options{Workload: g.Workload}) <= plan.Precision
}

// costOf is how long a group's next round will take.
func (r *runner) costOf(g Group, p *progress) time.Duration {
	plan := r.design.Plan.Rounds[g.Workload]
	if p.executions {
		return plan.CostOfStrip * time.Duration(min(max(1, plan.Strips), leastStrips))
	}
	var controls time.Duration
	if hasControls(p.blocks + 1) {
		if drives, err := drivesOf(g); err == nil {
			controls = time.Duration(len(controlled(drives))) * controlTime(plan)
		}
	}
	if p.blocks > 0 && p.piloted > 0 {
		return (p.spent-p.piloted)/time.Duration(p.blocks) + controls
	}
	return p.spent/time.Duration(max(1, p.blocks+plan.Pilot)) + controls
}

// recoverRounds takes up a group that was measured by rounds. Its instances are gone: a
// round that was cut short stands as it is, and the next one follows.
func (r *runner) recoverRounds(g Group, p *progress) bool {
	if !r.run.Plan.InRounds(g.Workload) {
		return false
	}
	var plan record.RoundPlan
	if plan, p.warm = r.run.Plan.Rounds[g.Workload]; plan.InPairs {
		r.pairUp(g)
	}
	var trials []record.Trial
	for _, t := range r.run.Trials {
		if t.Workload != g.Workload {
			continue
		}
		trials = append(trials, t)
		if len(t.Slices) > 0 { // one that was cut short before is made again
			p.blocks = max(p.blocks, t.Block)
		}
	}
	p.spent = covered(trials)
	return true
}

// covered is the time in which some of the trials ran.
func covered(trials []record.Trial) (sum time.Duration) {
	slices.SortFunc(trials, func(a, b record.Trial) int { return a.Started.Compare(b.Started) })
	var until time.Time
	for _, t := range trials {
		end := endOf(t)
		if t.Started.After(until) {
			until = t.Started
		}
		if end.After(until) {
			sum += end.Sub(until)
			until = end
		}
	}
	return sum
}
