package lab

import (
	"context"
	"errors"
	"maps"
	"time"

	"tare/platform"
	"tare/record"
)

// explainFrom is the share of the budget after which a design is asked whether what it has
// found is to be explained. The question is asked at a moment that no result chooses.
const explainFrom = 0.6

// phase is a part of a run that has a part of its budget.
type phase struct {
	explaining bool
	whole      bool // nothing is to be explained: the rest of the budget is the design's own
	began      time.Duration
	groups     int // among which the budget is shared
}

// budget is when, after the run began, the phase is over; 0 is never.
func (r *runner) budget() time.Duration {
	budget := r.design.Plan.Budget
	if r.design.Explain == nil || r.phase.explaining || r.phase.whole {
		return budget
	}
	return time.Duration(explainFrom * float64(budget))
}

// measureAll measures the design, and what explains it.
func (r *runner) measureAll(ctx context.Context) error {
	r.phase.groups = len(r.design.Groups)
	if r.phase.explaining { // before the run was interrupted
		r.phase.groups = len(r.run.Plan.Layers)
		for _, g := range r.design.Groups {
			_, explains := r.run.Plan.Layers[g.Workload]
			r.groups[g.Workload].done = !explains
			if explains {
				r.bound(r.groups[g.Workload])
			}
		}
	}
	if r.phase.explaining {
		return r.measureExplanation(ctx)
	}
	if err := r.measure(ctx); err != nil || r.design.Explain == nil {
		return err
	}
	run, err := r.lab.Store.Run(r.run.ID)
	if err != nil {
		return err
	}
	groups, plan, err := r.design.Explain(run)
	if err != nil {
		return err
	}
	if len(groups) == 0 {
		return r.goOn(ctx)
	}
	return r.explain(ctx, groups, plan)
}

// goOn spends the rest of the budget on the design's own question.
func (r *runner) goOn(ctx context.Context) error {
	r.phase = phase{whole: true, groups: len(r.design.Groups)}
	for _, p := range r.groups {
		p.done = false
	}
	return r.measure(ctx)
}

// explain measures further groups with what is left of the budget.
func (r *runner) explain(ctx context.Context, groups []Group, plan record.Plan) error {
	for _, g := range groups {
		r.groups[g.Workload] = &progress{attempt: map[int]int{}, target: plan.Blocks}
		r.bound(r.groups[g.Workload])
	}
	if why := r.unexplainable(ctx, groups); why != "" {
		r.lab.tell(Event{Kind: Warned, Text: "the cost is not explained: " + why})
		for _, g := range groups {
			delete(r.groups, g.Workload)
		}
		return r.goOn(ctx)
	}
	r.phase = phase{explaining: true, began: r.lab.now().Sub(r.began), groups: len(groups)}
	before := len(r.run.Conditions)
	r.design.Plan, r.design.Groups = plan, append(r.design.Groups, groups...)
	r.run.Conditions, r.run.Plan = r.design.conditions(), plan
	if err := r.lab.Store.Extend(r.run.ID, r.run.Conditions[before:], plan); err != nil {
		return err
	}
	return r.measureExplanation(ctx)
}

// unexplainable makes groups ready that are to explain a cost, and says why they cannot;
// empty where they can. Blocks of the time that is left would explain nothing.
func (r *runner) unexplainable(ctx context.Context, groups []Group) string {
	before := r.design.Plan.Blocked
	err := r.prepareGroups(ctx, groups)
	blocked := r.design.Plan.Blocked
	r.design.Plan.Blocked = before
	if err != nil {
		return firstLine(err.Error())
	}
	for _, g := range groups {
		if why, is := blocked[g.Workload]; is {
			return why
		}
	}
	return ""
}

// measureExplanation measures what explains a cost. What fails of it takes nothing from the
// answer that the run has.
func (r *runner) measureExplanation(ctx context.Context) error {
	err := r.measure(ctx)
	var out *OutOfBudget
	if err == nil || ctx.Err() != nil && !errors.As(err, &out) || errors.Is(err, platform.ErrGone) {
		return err
	}
	r.lab.tell(Event{Kind: Warned, Text: "the cost is not explained: " + firstLine(err.Error())})
	return nil
}

// bound gives a group that explains an end where neither a budget nor a number of rounds does.
func (r *runner) bound(p *progress) {
	if r.design.Plan.Budget == 0 && p.target == 0 {
		p.target, p.targetIsLimit = wantedRounds, true
	}
}

// explainedBefore gives the design of a run that was interrupted the groups that explained
// what it had found.
func explainedBefore(d *Design, run record.Run) (bool, error) {
	if len(run.Plan.Layers) == 0 || d.Explain == nil {
		return false, nil
	}
	groups, _, err := d.Explain(run)
	if err != nil {
		return false, err
	}
	d.Groups = append(d.Groups, groups...)
	d.Plan.Layers = maps.Clone(run.Plan.Layers)
	return true, nil
}
