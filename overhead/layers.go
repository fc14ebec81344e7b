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
	// AdjustedLow and AdjustedHigh hold together with all steps, and with what the whole
	// costs without each layer. Decided tells that they exclude 0; of what is left, that they
	// lie within the margin.
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
	whole := f.step(l, record.LayerStep{Without: f.Plan.Bare, With: f.Plan.Whole}, opt)
	family := []*Step{whole}
	rests := map[string]*Step{} // by layer: what the whole costs without it
	for _, s := range f.Plan.Steps {
		family = append(family, f.step(l, s, opt))
		if s.Removed {
			rests[s.Layer] = f.step(l, record.LayerStep{Without: f.Plan.Bare, With: s.Without}, opt)
		}
	}
	differing := len(family)
	for _, s := range f.Plan.Steps {
		if s.Removed {
			family = append(family, rests[s.Layer])
		}
	}
	margin := 100 * f.Plan.Margin
	for i, decided := range stats.StepDown(len(family), 1-opt.Level, func(i int, level float64) bool {
		s := family[i]
		if len(s.pairs.blocks) < fewestBlocks {
			return false
		}
		at := opt
		at.Level = level
		_, s.AdjustedLow, s.AdjustedHigh = percent(s.pairs.ratio(at), f.Metric.Better)
		if i < differing {
			return s.AdjustedLow > 0 || s.AdjustedHigh < 0
		}
		return s.AdjustedLow > -margin && s.AdjustedHigh < margin // it costs nothing
	}) {
		family[i].Decided = decided
	}
	f.Whole = *whole
	for _, s := range family[1:differing] {
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
	f.Rest = rests[f.Cause.Layer]
	f.All = f.Rest.Decided
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
