package overhead

import (
	"fmt"
	"math"
	"slices"

	"tare/record"
	"tare/stats"
	"tare/workload"
)

// Options are what an analysis may decide apart from the run. The zero value
// takes everything from the run's plan.
type Options struct {
	SmallestEffect float64 // of interest: 0.02 is 2 %; 0 is the plan's
	Level          float64 // of intervals; 0 is the plan's
	Seed           int64   // of resampling; 0 is the run's
	Workload       string  // the only one to analyse; empty is all
	// Pilot shows the rounds of the pilot, of which nothing is decided, of a workload that
	// has no other round so far.
	Pilot bool
}

func (o Options) from(run record.Run) Options {
	if o.SmallestEffect == 0 {
		o.SmallestEffect = run.Plan.SmallestEffect
	}
	if o.SmallestEffect == 0 {
		o.SmallestEffect = 0.02
	}
	if o.Level == 0 {
		o.Level = run.Plan.Level
	}
	if o.Level == 0 {
		o.Level = 0.95
	}
	if o.Seed == 0 {
		o.Seed = run.Seed
	}
	return o
}

// Analyse computes the overheads of a run from its trials, whole or in its
// midst.
//
// Trials are paired within blocks, from the last attempt at each, but for a run
// that was measured elsewhere and of which nobody says that its repetitions are
// pairs: two conditions are then two samples, and their ratio is that of the
// geometric means, by Welch. The
// baseline's figure in a block is that of its two executions together.
// Blocks still tainted are left out of Ratio and kept in RatioAll; where every
// block is tainted there is nothing else to show, so they are shown, and the
// verdict is Inconclusive whatever they say. A pair of
// which one side is missing (its trial failed) is dropped, and a warning on
// the estimate counts them.
//
// Verdicts are not those of single comparisons: each holds together with all
// others of its family.
func Analyse(run record.Run, opt Options) Report {
	opt = opt.from(run)
	report := Report{SmallestEffect: opt.SmallestEffect, Level: opt.Level}
	primary, secondary := family{opt: opt}, family{opt: opt}
	all := slices.DeleteFunc(layouts(run, opt), func(l *layout) bool {
		_, explains := run.Plan.Layers[l.workload]
		return explains
	})
	report.Layers = layersOf(run, opt)
	of := make([][][]*comparison, len(all)) // by workload and metric
	for i, l := range all {
		group := Group{Workload: l.workload}
		for i := range l.blocks {
			switch b := &l.blocks[i]; {
			case b.tainted:
				group.Tainted++
			case b.complete:
				group.Blocks++
			}
			if l.blocks[i].repeated {
				group.Repeated++
			}
		}
		if l.rounds {
			group.Rounds, group.Pilot = true, l.pilot
			group.Strips, group.StripsTainted = l.strips()
			group.Effects = l.effects(opt)
		}
		for _, t := range l.trials {
			if t.Error != "" && !(l.rounds && t.Error == record.NotEnded) {
				group.Failed++
			}
		}
		for _, m := range l.metrics {
			metric, comparisons := l.metricReport(m, opt)
			group.Metrics = append(group.Metrics, metric)
			of[i] = append(of[i], comparisons)
		}
		for j := range group.Metrics {
			in := &secondary
			if group.carries(j) {
				in = &primary
			}
			in.members = append(in.members, of[i][j]...)
		}
		report.Groups = append(report.Groups, group)
	}
	primary.judge()
	secondary.judge()
	for i, l := range all {
		group := &report.Groups[i]
		for j := range group.Metrics {
			in, m := secondary, &group.Metrics[j]
			if group.carries(j) {
				in = primary
			}
			m.Comparisons = in.size()
			l.judgeWithTainted(l.metrics[j], m, opt)
			if len(of[i][j]) > 0 {
				m.NoiseFloor = floor(of[i][j], in.level())
			}
		}
		group.Warnings = append(l.warnings, l.cautions(*group, opt)...)
	}
	report.Warnings = Lacks(run)
	report.judgeThreshold(run, all, opt)
	return report
}

func (l *layout) metricReport(m workload.Metric, opt Options) (MetricReport, []*comparison) {
	report := MetricReport{
		Name:           m.Name,
		Unit:           m.Unit,
		Primary:        m.Primary,
		HigherIsBetter: m.Better == workload.Higher,
		Quantile:       m.Quantile,
		Part:           m.Part,
		Figure:         m.Figure,
		Rounds:         l.rounds,
		NoiseFloor:     math.NaN(),
		Rows:           make([]Row, len(l.conditions)),
	}
	var comparisons []*comparison
	disturbed := l.allTainted()
	for i, c := range l.conditions {
		row := &report.Rows[i]
		*row = Row{Condition: c.ID, Label: label(c), Platform: c.Platform, NotRepresentative: c.NotRepresentative}
		var own []figure
		for j := range l.blocks {
			if b := &l.blocks[j]; !b.tainted || disturbed {
				if f, ok := b.figure(c.ID, m); ok {
					own = append(own, f)
				}
			}
		}
		row.Value = level(m, own, opt)
		l.describeLoad(row, m, opt)
		switch {
		case i == l.baseline:
			row.Baseline, row.Verdict = true, Baseline
		case l.baseline < 0:
			row.Verdict, row.Alone = Inconclusive, Inconclusive
			row.Ratio, row.RatioAll, row.Difference = absent(opt), absent(opt), absent(opt)
			row.Adjusted, row.AdjustedDifference = row.Ratio.Interval, row.Difference.Interval
			row.Percent, row.PercentLow, row.PercentHigh = math.NaN(), math.NaN(), math.NaN()
			row.AdjustedLow, row.AdjustedHigh = math.NaN(), math.NaN()
		default:
			p := l.pair(m, c.ID, disturbed)
			row.Ratio, row.Difference = p.ratio(opt), p.difference(opt)
			p.describe(row, opt)
			row.RatioAll = row.Ratio
			if all := l.pair(m, c.ID, true); l.rounds || len(all.blocks) > len(p.blocks) {
				row.RatioAll = all.ratio(opt)
			}
			if l.rounds && row.Ratio.N == 0 && row.RatioAll.N > 0 {
				row.Ratio.Warnings = []string{"each of its strips is tainted"}
			}
			if p.dropped > 0 {
				row.Ratio.Warnings = append(row.Ratio.Warnings,
					fmt.Sprintf("%d of %d blocks dropped: a trial failed or is missing", p.dropped, p.dropped+len(p.blocks)))
			}
			if disturbed {
				row.Ratio.Warnings = append(row.Ratio.Warnings, l.everything()+" is tainted")
			}
			row.Percent, row.PercentLow, row.PercentHigh = percent(row.Ratio, m.Better)
			comparisons = append(comparisons, &comparison{
				row: row, metric: m, pairs: p, sd: p.logSD(), disturbed: disturbed, unjudged: l.why(c.ID, p),
			})
		}
		row.Blocks = l.points(m, c.ID)
	}
	if l.baseline >= 0 {
		if p := l.pairAA(m); len(p.blocks) > 0 {
			aa := p.ratio(opt)
			report.AA = &aa
			if len(l.conditions) == 1 { // nothing else tells the noise
				report.NoiseFloor = stats.DetectableEffect(p.logSD(), len(p.blocks), opt.Level, power)
			}
		}
	}
	return report, comparisons
}

// allTainted says that nothing was measured undisturbed.
func (l *layout) allTainted() bool {
	if l.rounds {
		all, tainted := l.strips()
		return all > 0 && tainted == all
	}
	for i := range l.blocks {
		if !l.blocks[i].tainted {
			return false
		}
	}
	return len(l.blocks) > 0
}

// everything is what is left out where it is tainted.
func (l *layout) everything() string {
	if l.rounds {
		return "every strip"
	}
	return "every block"
}

// points gives a condition's value in each block where it was measured, and
// its ratio where the baseline was too (NaN elsewhere, and where nothing pairs the
// two; 1 for the baseline).
func (l *layout) points(m workload.Metric, condition string) []BlockPoint {
	var points []BlockPoint
	for i := range l.blocks {
		b := &l.blocks[i]
		f, ok := b.figure(condition, m)
		if !ok {
			continue
		}
		point := BlockPoint{Block: b.number, Value: f.value, Ratio: math.NaN(), Tainted: b.tainted}
		if l.baseline >= 0 && !(l.unpaired && !l.isBaseline(condition)) {
			if base, ok := b.figure(l.conditions[l.baseline].ID, m); ok && base.value != 0 {
				point.Ratio = f.value / base.value
			}
		}
		points = append(points, point)
	}
	return points
}

func label(c record.Condition) string {
	if c.Label != "" {
		return c.Label
	}
	return c.ID
}

// absent is the estimate of what was not measured.
func absent(opt Options) stats.Estimate {
	return stats.Absent(opt.Level)
}

// worst is the larger of two figures of which either may be unknown.
func worst(a, b float64) float64 {
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}
