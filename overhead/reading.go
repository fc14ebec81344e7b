package overhead

import (
	"maps"
	"math"
	"slices"

	"tare/record"
	"tare/stats"
)

// Reading is a run with its analysis, by condition and metric: what a study's
// judge and its page read a run by.
type Reading struct {
	Run    record.Run
	Report Report
	rows   map[string]map[string]Row
}

// Read analyses a run.
func Read(run record.Run) Reading { return readAt(run, Options{}.from(run).Level) }

// Together is the run read by intervals of which n hold together with the chance
// that one has by itself: each is of the level 1-alpha/n (Bonferroni). Whatever
// follows from n such intervals holds, be it that all of them say something or that
// any does: a judge, an answer or a list of advice that reads n of them asks for it.
func (r Reading) Together(n int) Reading {
	level := 1 - (1-r.Level())/float64(max(1, n))
	if level == r.Report.Level {
		return r
	}
	return readAt(r.Run, level)
}

// Level is that of a single interval, however many hold together here.
func (r Reading) Level() float64 { return Options{}.from(r.Run).Level }

func readAt(run record.Run, level float64) Reading {
	r := Reading{Run: run, Report: Analyse(run, Options{Level: level}), rows: map[string]map[string]Row{}}
	for _, g := range r.Report.Groups {
		for _, m := range g.Metrics {
			for _, row := range m.Rows {
				if r.rows[row.Condition] == nil {
					r.rows[row.Condition] = map[string]Row{}
				}
				r.rows[row.Condition][m.Name] = row
			}
		}
	}
	return r
}

// Row is a condition's row for a metric; the zero Row where it was not measured.
func (r Reading) Row(c record.Condition, metric string) Row { return r.rows[c.ID][metric] }

// Value is a condition's level of a metric; absent (not a number) where it was
// not measured. Amounts and shares that may be zero have the mean over blocks
// with Student's t: what counts are given, a bootstrap, is wild for as few blocks
// as a study has whose trials take a minute each, and these are no counts.
func (r Reading) Value(c record.Condition, metric string) stats.Estimate {
	row, ok := r.rows[c.ID][metric]
	if !ok || len(row.Blocks) == 0 {
		return stats.Absent(r.Report.Level)
	}
	for _, m := range c.Metrics {
		if m.Name == metric && m.Count {
			return r.Mean(r.PerBlock(c, metric))
		}
	}
	return row.Value
}

// Mean is the mean of values that blocks have, with Student's t.
func (r Reading) Mean(blocks map[int]float64) stats.Estimate {
	return stats.MeanBy(stats.MethodT, InOrder(blocks), r.Report.Level, r.Run.Seed)
}

// InOrder gives values in order of their blocks.
func InOrder(blocks map[int]float64) []float64 {
	values := make([]float64, 0, len(blocks))
	for _, block := range slices.Sorted(maps.Keys(blocks)) {
		values = append(values, blocks[block])
	}
	return values
}

// Difference is b less a, in blocks that both have.
func Difference(a, b map[int]float64) map[int]float64 {
	all := map[int]float64{}
	for block, v := range b {
		if base, ok := a[block]; ok {
			all[block] = v - base
		}
	}
	return all
}

// PerBlock gives a condition's values by block; tainted blocks only where there
// are no others.
func (r Reading) PerBlock(c record.Condition, metric string) map[int]float64 {
	clean, all := map[int]float64{}, map[int]float64{}
	for _, p := range r.rows[c.ID][metric].Blocks {
		if math.IsNaN(p.Value) {
			continue
		}
		all[p.Block] = p.Value
		if !p.Tainted {
			clean[p.Block] = p.Value
		}
	}
	if len(clean) == 0 {
		return all
	}
	return clean
}

// Ratio is b against a, paired by block; where nothing pairs the run's blocks, that of
// two samples.
func (r Reading) Ratio(a, b map[int]float64) stats.Estimate {
	if r.Run.Plan.Unpaired() {
		return stats.UnpairedRatio(InOrder(a), InOrder(b), r.Report.Level)
	}
	var base, treatment []float64
	for _, block := range slices.Sorted(maps.Keys(a)) {
		if v, ok := b[block]; ok && a[block] > 0 && v > 0 {
			base, treatment = append(base, a[block]), append(treatment, v)
		}
	}
	return stats.PairedRatio(base, treatment, r.Report.Level, r.Run.Seed)
}

// Trials gives a condition's trials that count: valid, no warm-up, of the last
// attempt at their block.
func (r Reading) Trials(c record.Condition) []record.Trial {
	last := map[int]int{}
	for _, t := range r.Run.Trials {
		if t.Condition == c.ID {
			last[t.Block] = max(last[t.Block], t.Attempt)
		}
	}
	var of []record.Trial
	for _, t := range r.Run.Trials {
		if t.Condition == c.ID && t.Block > 0 && t.Error == "" && t.Attempt != record.MadeAgain &&
			t.Attempt == last[t.Block] {
			of = append(of, t)
		}
	}
	return of
}
