package report

import (
	"math"
	"sort"

	"tare/overhead"
	"tare/record"
	"tare/stats"
)

// A Rung is one condition of a ladder against the one before it: what the
// layer that it adds costs.
type Rung struct {
	Row    overhead.Row
	Before overhead.Row
	// Ratio to the rung before, paired within the blocks that both yielded.
	Ratio stats.Estimate
	// Percent is positive where the added layer costs something, as
	// [overhead.Row.Percent]; NaN where it is unknown, with Reason.
	Percent, PercentLow, PercentHigh float64
	Reason                           string
	// AdjustedLow and AdjustedHigh are the interval at the level at which the rung
	// is decided among all rungs of the run, which are a family of their own.
	AdjustedLow, AdjustedHigh float64
}

// Ladder compares each rung with the one before it, in the order of the run's
// conditions, for each of the metrics that are judged together. The first rung
// stands alone and is not returned.
func Ladder(run record.Run, metrics []overhead.MetricReport, level float64) [][]Rung {
	all := make([][]Rung, len(metrics))
	type place struct{ metric, rung int }
	var family []place
	for i, m := range metrics {
		rows := rungOrder(run, m.Rows)
		for j := 1; j < len(rows); j++ {
			rung := step(run, m, rows[j-1], rows[j], level)
			rung.AdjustedLow, rung.AdjustedHigh = rung.PercentLow, rung.PercentHigh
			if rung.Reason == "" {
				family = append(family, place{i, j})
			}
			all[i] = append(all[i], rung)
		}
	}
	stats.StepDown(len(family), 1-level, func(i int, level float64) bool {
		at := family[i]
		r := &all[at.metric][at.rung-1]
		adjusted := step(run, metrics[at.metric], r.Before, r.Row, level)
		r.AdjustedLow, r.AdjustedHigh = adjusted.PercentLow, adjusted.PercentHigh
		return r.AdjustedLow > 0 || r.AdjustedHigh < 0
	})
	return all
}

func step(run record.Run, m overhead.MetricReport, before, row overhead.Row, level float64) Rung {
	rung := Rung{Row: row, Before: before, Percent: math.NaN(), PercentLow: math.NaN(), PercentHigh: math.NaN()}
	if isQuantile(run, row.Condition, m.Name) {
		rung.Reason = "percentiles of blocks are not averaged"
		return rung
	}
	values := map[int]float64{}
	for _, b := range before.Blocks {
		if !b.Tainted {
			values[b.Block] = b.Value
		}
	}
	var base, treatment []float64
	for _, b := range row.Blocks {
		if v, ok := values[b.Block]; ok && !b.Tainted {
			base, treatment = append(base, v), append(treatment, b.Value)
		}
	}
	if len(base) == 0 {
		rung.Reason = "no block holds both rungs"
		return rung
	}
	rung.Ratio = stats.PairedRatio(base, treatment, level, run.Seed)
	e := rung.Ratio
	rung.Percent, rung.PercentLow, rung.PercentHigh = 100*(e.Value-1), 100*(e.Interval.Low-1), 100*(e.Interval.High-1)
	if m.HigherIsBetter {
		rung.Percent, rung.PercentLow, rung.PercentHigh = -rung.Percent, -rung.PercentHigh, -rung.PercentLow
	}
	if !bounded(rung.Percent, rung.PercentLow, rung.PercentHigh) {
		rung.Reason = "too few blocks"
		if len(e.Warnings) > 0 {
			rung.Reason = clean(e.Warnings[0])
		}
	}
	return rung
}

// rungOrder gives rows in the order in which the run lists its conditions.
func rungOrder(run record.Run, rows []overhead.Row) []overhead.Row {
	position := make(map[string]int, len(run.Conditions))
	for i, c := range run.Conditions {
		position[c.ID] = i
	}
	ordered := append([]overhead.Row(nil), rows...)
	sort.SliceStable(ordered, func(i, j int) bool {
		return position[ordered[i].Condition] < position[ordered[j].Condition]
	})
	return ordered
}

func isQuantile(run record.Run, condition, metric string) bool {
	for _, c := range run.Conditions {
		if c.ID != condition {
			continue
		}
		for _, m := range c.Metrics {
			if m.Name == metric {
				return m.Quantile != 0
			}
		}
	}
	return false
}

// ladderTable shows what each rung changes.
func ladderTable(rungs []Rung, of string, m overhead.MetricReport, level float64) Table {
	t := Table{
		Title: of + title(m) + ", each rung against the one before",
		Columns: []Column{
			{Head: "rung"},
			{Head: "change, %", Number: true},
			{Head: levelText(level), Number: true},
			{Head: "against", Optional: true},
		},
	}
	var notes []string
	for _, r := range rungs {
		figure, span := changeCells(natural(m.HigherIsBetter, r.Percent, r.PercentLow, r.PercentHigh))
		if span.Text == "" {
			figure = Cell{}
			notes = append(notes, label(r.Row)+": no figure: "+r.Reason+".")
		}
		t.Rows = append(t.Rows, []Cell{{Text: label(r.Row)}, figure, span, {Text: label(r.Before)}})
	}
	t.Note = inCommon(notes)
	return t
}
