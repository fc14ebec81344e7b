package overhead

import (
	"math"

	"tare/record"
	"tare/stats"
	"tare/workload"
)

// Layers divides the cost of one condition among the layers of its container, from rounds
// that had no part in finding the cost. Its comparisons are a family of their own.
type Layers struct {
	Plan      record.LayerPlan
	Condition string // label of the condition that costs something
	Rounds    int
	Metric    workload.Metric
	Whole     Step // the condition against its baseline, again
	Steps     []Step
	// Cause is the step that accounts for most of the cost, among those that are removed
	// from the whole and established; nil where none is.
	Cause *Step
	// Rest is the whole without the cause against the baseline; nil where there is no
	// cause. All tells that it is within the margin, so that the cause is all of the cost.
	Rest *Step
	All  bool
}

// Step is one comparison of two conditions that differ by a layer.
type Step struct {
	Layer         string
	Removed       bool
	Without, With string // labels
	Ratio         stats.Estimate
	// Percent is positive where the layer costs something, with its own interval.
	Percent, Low, High float64
	// AdjustedLow and AdjustedHigh hold together with all steps; Decided tells that they
	// exclude 0.
	AdjustedLow, AdjustedHigh float64
	Decided                   bool
	pairs                     pairs
}

// layersOf divides what a run's plan asks for.
func layersOf(run record.Run, opt Options) []Layers {
	var all []Layers
	for _, l := range layouts(run, opt) {
		plan, ok := run.Plan.Layers[l.workload]
		if !ok {
			continue
		}
		found := Layers{Plan: plan, Rounds: len(l.blocks), Condition: plan.Condition}
		for _, c := range run.Conditions {
			if c.ID == plan.Condition {
				found.Condition = label(c)
			}
		}
		for _, m := range l.metrics {
			if m.Name == plan.Metric {
				found.Metric = m
			}
		}
		if found.Metric.Name == "" {
			continue
		}
		found.judge(l, opt)
		all = append(all, found)
	}
	return all
}

func (f *Layers) judge(l *layout, opt Options) {
	steps := []*Step{f.step(l, record.LayerStep{Without: f.Plan.Bare, With: f.Plan.Whole}, opt)}
	for _, s := range f.Plan.Steps {
		steps = append(steps, f.step(l, s, opt))
	}
	for i, decided := range stats.StepDown(len(steps), 1-opt.Level, func(i int, level float64) bool {
		s := steps[i]
		if len(s.pairs.blocks) < fewestBlocks {
			return false
		}
		at := opt
		at.Level = level
		_, s.AdjustedLow, s.AdjustedHigh = percent(s.pairs.ratio(at), f.Metric.Better)
		return s.AdjustedLow > 0 || s.AdjustedHigh < 0
	}) {
		steps[i].Decided = decided
	}
	f.Whole = *steps[0]
	for _, s := range steps[1:] {
		f.Steps = append(f.Steps, *s)
	}
	for i := range f.Steps {
		s := &f.Steps[i]
		if s.Removed && s.Decided && s.Percent > 0 && (f.Cause == nil || s.Percent > f.Cause.Percent) {
			f.Cause = s
		}
	}
	if f.Cause == nil {
		return
	}
	for _, s := range f.Plan.Steps {
		if s.Removed && s.Layer == f.Cause.Layer {
			f.Rest = f.step(l, record.LayerStep{Without: f.Plan.Bare, With: s.Without}, opt)
		}
	}
	f.All = f.Rest != nil && f.Rest.Low > -100*f.Plan.Margin && f.Rest.High < 100*f.Plan.Margin
}

// step compares two conditions of the group, slice beside slice.
func (f *Layers) step(l *layout, s record.LayerStep, opt Options) *Step {
	step := &Step{Layer: s.Layer, Removed: s.Removed, Percent: math.NaN(), Low: math.NaN(), High: math.NaN()}
	for _, c := range l.conditions {
		switch c.ID {
		case s.Without:
			step.Without = label(c)
		case s.With:
			step.With = label(c)
		}
	}
	base := []place{{s.Without, 0}}
	if l.isBaseline(s.Without) {
		base = append(base, place{s.Without, 1})
	}
	step.pairs = l.pairRounds(f.Metric, base, place{s.With, 0}, l.allTainted())
	step.Ratio = step.pairs.ratio(opt)
	step.Percent, step.Low, step.High = percent(step.Ratio, f.Metric.Better)
	step.AdjustedLow, step.AdjustedHigh = step.Low, step.High
	return step
}
