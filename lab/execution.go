package lab

import (
	"cmp"
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
}

// pilotOfExecutions runs the first two strips: one in which caches are cold, and one that
// tells how long a strip takes.
func (r *runner) pilotOfExecutions(ctx context.Context, g Group, p *progress) error {
	began := r.lab.now()
	draw := draws(r.design.Seed, g.Workload, 0)
	r.strips = strips{}
	var took time.Duration
	for strip := 1; strip <= 2; strip++ {
		start := r.lab.now()
		if err := r.executeStrip(ctx, g, 0, strip, draw); err != nil {
			return err
		}
		r.provisional(g.Workload)
		took = r.lab.now().Sub(start)
	}
	// Launches are a strip's own. So strips share nothing, and each is a round by itself.
	if share := r.shareOf(); share > 0 {
		if spent := r.lab.now().Sub(began); share-spent < leastRounds*took {
			r.tooShort(g, spent+leastRounds*took)
		}
	}
	return r.settleOn(g.Workload, record.RoundPlan{Pilot: 1, CostOfStrip: took, Strips: 1})
}

// executeRound executes a round's strips: one, but in runs that were begun by an older tare.
func (r *runner) executeRound(ctx context.Context, g Group, round int, plan record.RoundPlan) error {
	draw := draws(r.design.Seed, g.Workload, round)
	r.strips = strips{}
	for strip := 1; strip <= plan.Strips; strip++ {
		if err := r.executeStrip(ctx, g, round, strip, draw); err != nil {
			return err
		}
		r.provisional(g.Workload)
		if r.outOfTime(plan.CostOfStrip) {
			break // what is left of the round would exceed the budget
		}
	}
	return nil
}

// executeStrip executes every condition once, in an order that is drawn. What fails is
// kept with its cause; in the pilot, round 0, it is an error.
func (r *runner) executeStrip(ctx context.Context, g Group, round, strip int, draw *rand.Rand) (err error) {
	seats := r.seats(g, nil, draw)
	order := draw.Perm(len(seats))
	all := make([]*execution, len(seats))
	for i, s := range seats {
		all[i] = &execution{seat: s}
	}
	defer func() {
		for _, e := range all {
			err = errors.Join(err, e.remove(ctx))
		}
	}()
	for position, e := range all {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e.result = record.Trial{
			Condition:  e.condition.ID,
			Workload:   e.condition.Workload,
			Block:      round,
			Attempt:    1,
			Position:   position,
			Replicate:  e.replicate,
			Started:    r.lab.now(),
			Covariates: map[string]float64{"padding_bytes": float64(e.padding)},
		}
		e.dropped = r.create(ctx, e)
	}
	watch := r.observer()
	watch.meet(ctx, r.platforms)
	if err := watch.begin(ctx); err != nil {
		return err
	}
	began := r.lab.now()
	position := 0
	for _, i := range order {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e := all[i]
		c := e.condition
		r.lab.tell(
			Event{
				Kind:      Started,
				Group:     g.Workload,
				Condition: c.ID,
				Label:     c.Label,
				Block:     round,
				Rounds:    true,
				Left:      r.left(),
			},
		)
		if e.dropped == nil {
			e.dropped = r.perform(ctx, e, strip, position)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if e.dropped != nil {
			// It may run still, beside the others.
			if err := e.remove(ctx); err != nil {
				return err
			}
			continue
		}
		position++
		r.strips.previous = c.ID
	}
	watch.meet(ctx, r.platforms)
	beside, err := watch.end(ctx)
	if err != nil {
		return err
	}
	taint := r.taintOfStrip(&beside, r.lab.now().Sub(began), seats)
	for _, e := range all {
		c := e.condition
		e.result.Taint = taint
		for i := range e.result.Slices {
			slice := &e.result.Slices[i]
			slice.Steal, slice.Foreign, slice.Taint = beside.Steal, beside.Foreign, taint
		}
		if beside.Elapsed > 0 {
			e.result.Covariates["tare_cpu_share"] = beside.Self.Seconds() / beside.Elapsed.Seconds()
		}
		if e.dropped != nil {
			e.result.Error = firstLine(e.dropped.Error())
			e.result.Samples, e.result.Slices, e.result.Histograms = nil, nil, nil
		}
		if _, err := r.lab.Store.AddTrial(r.run.ID, e.result); err != nil {
			return err
		}
		r.lab.tell(
			Event{
				Kind:      Ended,
				Group:     g.Workload,
				Condition: c.ID,
				Label:     c.Label,
				Block:     round,
				Rounds:    true,
				Text:      e.result.Error,
			},
		)
	}
	for _, e := range all {
		if e.dropped != nil && (round == 0 || errors.Is(e.dropped, platform.ErrGone)) {
			return fmt.Errorf("%s: %w", e.condition.ID, e.dropped)
		}
	}
	return r.countFailures(seats)
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
	if e.created == nil {
		if e.inst, err = p.Launch(ctx, e.spec); err != nil {
			e.inst = nil
			return fmt.Errorf("launch on %s: %w", c.Platform, err)
		}
		r.booted(p, c, &e.result)
	} else {
		e.trial.started = e.began
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
		return e.trial.err.WithLastLine(causeOf(ctx, err))
	}
	if e.trial.invalid != nil {
		return e.trial.invalid
	}
	e.result.Elapsed = r.lab.now().Sub(e.began)
	if own := e.result.Covariates["launch_s"] - e.trial.before.Seconds(); own > 0 {
		// A short program may have ended before its platform says that it runs.
		e.result.Covariates["launch_s"] = min(own, cmp.Or(e.trial.lasted.Seconds(), own))
	} else { // nothing stood between
		delete(e.result.Covariates, "launch_s")
	}
	e.result.Samples = e.trial.samples
	cpu := time.Duration(-1)
	if usage, err := e.inst.Usage(); err == nil {
		cpu = usage.CPU
	}
	e.result.Slices = []record.Slice{
		{
			Strip:    strip,
			Position: position,
			Previous: r.strips.previous,
			Started:  e.began,
			Window:   max(1, cmp.Or(e.trial.lasted, e.result.Elapsed)),
			Amount:   1,
			CPU:      cpu,
			Worked:   1,
			Load:     -1,
		},
	}
	return encodeHistograms(&e.result, e.trial.histograms)
}

// remove removes what is left of an execution. It may be called again.
func (e *execution) remove(ctx context.Context) error {
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
