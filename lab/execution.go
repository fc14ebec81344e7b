package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"tare/platform"
	"tare/record"
)

// A program that runs to its end is its own slice: each strip launches every condition
// once. Where the platform can, all are created ahead, and only what lies between a
// start and an end is timed.

// execution is one launch of a program that runs to its end.
type execution struct {
	*seat
	created platform.Created // nil where the platform cannot create ahead
	spec    platform.Spec
	tells   *observer
}

// pilotOfExecutions runs the first two strips: one in which caches are cold, and one that
// tells how long a strip takes.
func (r *runner) pilotOfExecutions(ctx context.Context, g Group, p *progress) error {
	began := r.lab.now()
	draw := draws(r.design.Seed, g.Workload, 0)
	var took time.Duration
	for strip := 1; strip <= 2; strip++ {
		start := r.lab.now()
		failed, err := r.executeStrip(ctx, g, 0, strip, draw)
		if err != nil {
			return err
		}
		if failed != nil {
			return failed
		}
		r.provisional(g.Workload)
		took = r.lab.now().Sub(start)
	}
	plan := record.RoundPlan{Pilot: 1, CostOfStrip: took, Strips: leastStrips}
	if share := r.shareOf(); share > 0 {
		left := share - r.lab.now().Sub(began)
		// A launch is a strip's own, so that rounds cost nothing besides.
		fit := int(left / max(1, took))
		plan.Strips = min(max(fit/wantedRounds, min(leastStrips, fit/leastRounds), 1), maxStrips)
	}
	return r.settleOn(g.Workload, plan)
}

// executeRound executes a round's strips.
func (r *runner) executeRound(ctx context.Context, g Group, round int, plan record.RoundPlan) error {
	draw := draws(r.design.Seed, g.Workload, round)
	for strip := 1; strip <= plan.Strips; strip++ {
		failed, err := r.executeStrip(ctx, g, round, strip, draw)
		if err != nil {
			return err
		}
		if failed != nil {
			return failed
		}
		r.provisional(g.Workload)
		if r.outOfTime(plan.CostOfStrip) && strip < plan.Strips {
			break // what is left of the round would exceed the budget
		}
	}
	return nil
}

// executeStrip executes every condition once, in an order that is drawn. failed is a
// condition that has failed too often to go on.
func (r *runner) executeStrip(ctx context.Context, g Group, round, strip int, draw *rand.Rand) (failed, err error) {
	seats := r.seats(g, nil, draw)
	all := make([]*execution, len(seats))
	for i, s := range seats {
		all[i] = &execution{seat: s}
	}
	defer func() {
		for _, e := range all {
			err = errors.Join(err, r.remove(ctx, e))
		}
	}()
	for position, e := range all {
		e.result = record.Trial{Condition: e.condition.ID, Workload: e.condition.Workload, Block: round, Attempt: 1, Position: position, Replicate: e.replicate,
			Started: r.lab.now(), Covariates: map[string]float64{"padding_bytes": float64(e.padding)}}
		if e.dropped = r.create(ctx, e); e.dropped != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	order := draw.Perm(len(all))
	watch := r.observer()
	watch.meet(ctx, r.platforms)
	if err := watch.begin(ctx); err != nil {
		return nil, err
	}
	began := r.lab.now()
	for position, i := range order {
		e := all[i]
		label := Event{Group: g.Workload, Condition: e.condition.ID, Label: e.condition.Label, Block: round, Rounds: true, Left: r.left()}
		label.Kind = Started
		r.lab.tell(label)
		if e.dropped == nil {
			e.dropped = r.perform(ctx, e, strip, position)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	watch.meet(ctx, r.platforms)
	beside, err := watch.end(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		c := e.condition
		taint := r.lab.judge(overTicks(beside, r.lab.now().Sub(began), r.run.Host.CPUs), 0, c.Setting.Memory != 0)
		e.result.Taint = taint
		for i := range e.result.Slices {
			e.result.Slices[i].Steal, e.result.Slices[i].Foreign, e.result.Slices[i].Taint = beside.Steal, beside.Foreign, taint
		}
		if beside.Elapsed > 0 {
			e.result.Covariates["tare_cpu_share"] = beside.Self.Seconds() / beside.Elapsed.Seconds()
		}
		if e.dropped != nil {
			e.result.Error = firstLine(e.dropped.Error())
			e.result.Samples, e.result.Slices = nil, nil
		}
		if _, err := r.lab.Store.AddTrial(r.run.ID, e.result); err != nil {
			return nil, err
		}
		r.lab.tell(Event{Kind: Ended, Group: g.Workload, Condition: c.ID, Label: c.Label, Block: round, Rounds: true, Text: e.result.Error})
		if e.dropped == nil {
			r.failures[c.ID] = 0
			continue
		}
		if errors.Is(e.dropped, platform.ErrGone) || round == 0 {
			return fmt.Errorf("%s: %w", c.ID, e.dropped), nil
		}
		if r.failures[c.ID]++; r.failures[c.ID] >= maxFailures {
			return fmt.Errorf("%s failed %d times in a row: %w", c.ID, maxFailures, e.dropped), nil
		}
	}
	return nil, nil
}

// create lays an execution out, as far as the platform can ahead of its start.
func (r *runner) create(ctx context.Context, e *execution) (err error) {
	if e.spec, err = r.spec(e.seat); err != nil {
		return err
	}
	creator, ok := r.platforms[e.condition.Platform].(platform.Creator)
	if !ok {
		return nil
	}
	if e.created, err = creator.Create(ctx, e.spec); err != nil {
		e.created = nil
		return fmt.Errorf("create on %s: %w", e.condition.Platform, err)
	}
	return nil
}

// perform starts an execution and has its workload follow it to its end.
func (r *runner) perform(ctx context.Context, e *execution, strip, position int) (err error) {
	c := e.condition
	limit := r.limit(c)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not finished after %v (--trial-limit)", limit))
	defer cancel()
	p := r.platforms[c.Platform]
	e.began = r.lab.now()
	e.trial.started = e.began
	if e.created == nil {
		if e.inst, err = p.Launch(ctx, e.spec); err != nil {
			e.inst = nil
			return fmt.Errorf("launch on %s: %w", c.Platform, err)
		}
		r.booted(p, c, &e.result)
	} else {
		if err := e.created.Start(ctx); err != nil {
			return fmt.Errorf("start on %s: %w", c.Platform, err)
		}
		if e.inst, err = e.created.Instance(ctx); err != nil {
			e.inst = nil
			return fmt.Errorf("start on %s: %w", c.Platform, err)
		}
	}
	e.result.Covariates["launch_s"] = r.lab.now().Sub(e.began).Seconds()
	e.trial.inst = e.inst
	if err := r.checkInForce(c, e.inst); err != nil {
		return err
	}
	if err := c.Program.Drive(ctx, e.trial); err != nil {
		return withOutput(causeOf(ctx, err), e.trial)
	}
	if e.trial.invalid != nil {
		return e.trial.invalid
	}
	e.result.Elapsed = r.lab.now().Sub(e.began)
	e.result.Samples = e.trial.samples
	cpu := time.Duration(-1)
	if usage, err := e.inst.Usage(); err == nil {
		cpu = usage.CPU
	}
	e.result.Slices = []record.Slice{{Strip: strip, Position: position, Started: e.began, Window: max(1, e.result.Elapsed), Amount: 1, CPU: cpu, Worked: 1, Load: -1}}
	return encodeHistograms(&e.result, e.trial.histograms)
}

// remove removes what is left of an execution.
func (r *runner) remove(ctx context.Context, e *execution) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	switch {
	case e.inst != nil:
		return e.inst.Stop(ctx)
	case e.created != nil:
		return e.created.Stop(ctx)
	}
	return nil
}
