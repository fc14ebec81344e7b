package report

import (
	"fmt"
	"io"
	"strconv"

	"tare/overhead"
	"tare/stats"
)

// HistoryTerminal writes what changed in a history: in a sentence, the segments of each series,
// and what differs between the runs at each change. leftOut are the runs that are no part of it.
// Of the options it takes the width and the colour.
func HistoryTerminal(w io.Writer, h overhead.History, leftOut []string, opt TerminalOptions) error {
	s := newScreen(opt.Width, opt.Color)
	s.paragraph(bold, HistoryAnswer(h))
	s.blank()
	if n := len(h.Runs); n > 0 {
		s.field("runs", fmt.Sprintf("%d, from %s to %s", n, clean(h.Runs[0].ID), clean(h.Runs[n-1].ID)))
	}
	s.field("series", fmt.Sprintf("%d, judged together: any false change point has a chance of at most %s %%",
		len(h.Series), ratioText(1-h.Level)))
	if limit := h.Threshold.FailAbove; limit > 0 {
		s.field("allowed", ratioText(limit)+" % worse than at the beginning: "+string(h.Threshold.Status))
	}
	s.blank()
	if tables := historyTables(h); len(tables) > 0 {
		s.tables(tables...)
	}
	for _, c := range h.Changes {
		s.blank()
		s.paragraph(bold, "between "+runName(h, c.Before)+" and "+runName(h, c.After))
		for _, i := range c.Series {
			s.hang(plain, "changed:", changeOf(h.Series[i], c)+".")
		}
		s.differ(h, c)
	}
	if len(h.Warnings)+len(leftOut) > 0 {
		s.blank()
	}
	for i, text := range leftOut {
		if i == mostLines {
			s.hang(yellow, "left out:", fmt.Sprintf("and %d more, all in --json", len(leftOut)-mostLines))
			break
		}
		s.hang(yellow, "left out:", clean(text))
	}
	s.warn(h.Warnings)
	return s.flush(w)
}

// mostLines is how many differences, or runs left out, a screen names.
const mostLines = 12

// differ writes what differs between the two runs of a change.
func (s *screen) differ(h overhead.History, c overhead.HistoryChange) {
	if h.Imported {
		return
	}
	for i, d := range c.Differences {
		if i == mostLines {
			s.hang(plain, "differs:", fmt.Sprintf("and %d more: tare compare %s %s",
				len(c.Differences)-mostLines, runName(h, c.Before), runName(h, c.After)))
			break
		}
		s.hang(plain, "differs:", clean(d))
	}
	if len(c.Differences) == 0 {
		s.hang(plain, "differs:", "nothing that the store knows of host, tare, platform, image and setting")
	}
}

// HistoryAnswer is the sentence that stands first: against what the user allows where a
// threshold was set, else the newest change.
func HistoryAnswer(h overhead.History) string {
	if h.Threshold.FailAbove > 0 && len(h.Series) > 0 {
		return historyWithThreshold(h)
	}
	n := len(h.Changes)
	switch {
	case len(h.Series) == 0:
		return "No primary metric is in these runs: nothing can be said of what changed."
	case n == 0 && len(h.Runs) < h.Enough:
		are := "are"
		if len(h.Runs) == 1 {
			are = "is"
		}
		return fmt.Sprintf("No change is found, and %s %s too few: with %d a change at the newest %d could be found.",
			Counted(len(h.Runs), "run"), are, h.Enough, stats.FewestRuns)
	case n == 0:
		return fmt.Sprintf("No change in %d runs.", len(h.Runs))
	}
	newest := h.Changes[n-1]
	return changeOf(h.Series[newest.Series[0]], newest) + " with " + runName(h, newest.After) +
		more(len(newest.Series)-1, "changed with it") + more(n-1, pluralOf(n-1, "earlier change")) + "."
}

func pluralOf(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

func historyWithThreshold(h overhead.History) string {
	var all []outcome
	for _, s := range h.Series {
		why := fmt.Sprintf("%d runs give no interval of the change", len(h.Runs))
		all = append(all, outcome{
			name: seriesName(s), status: s.Status, withheld: s.Withheld, why: why, percent: s.Percent,
			low: s.PercentLow, high: s.PercentHigh, judgedLow: s.PercentLow, judgedHigh: s.PercentHigh,
		})
		if len(s.Segments) < 2 && s.PercentLow > 100*h.Threshold.FailAbove {
			all[len(all)-1].withheld = fmt.Sprintf(
				"the newest %d runs exceed it, but no change point is found", stats.FewestRuns)
		}
	}
	return thresholdAnswer(h.Threshold, all, "")
}

func seriesName(s overhead.Series) string {
	return label(seriesRow(s)) + " on " + clean(s.Workload) + " " + clean(s.Metric)
}

func seriesRow(s overhead.Series) overhead.Row {
	return overhead.Row{Condition: s.Condition, Label: s.Label, Platform: s.Platform}
}

// changeOf says by how much a series changed: "docker got 5.8 % worse on redis get (5.1 to 6.5)".
func changeOf(s overhead.Series, c overhead.HistoryChange) string {
	for _, g := range s.Segments {
		if g.First != c.After {
			continue
		}
		sign := 1.0
		if g.Percent < 0 {
			sign = -1
		}
		if !bounded(g.Percent, g.PercentLow, g.PercentHigh) {
			return seriesName(s) + " changed, without an interval"
		}
		return changeClause(overhead.ComparisonRow{Workload: s.Workload, Condition: s.Condition, Label: s.Label,
			Platform: s.Platform, Metric: s.Metric,
			Percent: g.Percent, PercentLow: g.PercentLow, PercentHigh: g.PercentHigh}, sign)
	}
	return seriesName(s) + " changed"
}

func runName(h overhead.History, run int) string {
	if h.Imported {
		return "repetition " + h.Runs[run].ID
	}
	return clean(h.Runs[run].ID)
}

// historyTables make a table of the segments for each metric of each workload.
func historyTables(h overhead.History) (tables []Table) {
	type key struct {
		workload, metric string
		levels           bool
	}
	at := map[key]int{}
	of := map[key][]overhead.Series{}
	var order []key
	for _, s := range h.Series {
		k := key{s.Workload, s.Metric, s.Against == ""}
		if _, known := at[k]; !known {
			at[k] = len(order)
			order = append(order, k)
		}
		of[k] = append(of[k], s)
	}
	for _, k := range order {
		tables = append(tables, historyTable(h, of[k], k.levels))
	}
	return tables
}

func historyTable(h overhead.History, series []overhead.Series, levels bool) Table {
	m := overhead.MetricReport{Unit: series[0].Unit, HigherIsBetter: series[0].HigherIsBetter}
	for _, s := range series {
		for _, g := range s.Segments {
			m.Rows = append(m.Rows, overhead.Row{Value: stats.Estimate{Value: g.Level}})
		}
	}
	col := newColumn(m)
	name := clean(series[0].Workload) + " " + clean(series[0].Metric)
	t := Table{Title: name + ", change against " + clean(series[0].Against) + " of the same run",
		Columns: []Column{{Head: "condition"}, {Head: "from"}, {Head: "runs", Number: true},
			{Head: "change, %", Number: true}, {Head: levelText(h.Level), Number: true},
			{Head: unitHead(col.unit), Number: true}, {Head: "baseline", Number: true}}}
	if levels {
		t.Title, t.Columns[3] = name+", levels", t.Columns[5]
		t.Columns = t.Columns[:5]
		t.Note = "Nothing is compared within a run, so a change of the host shows as a change of the level."
	}
	for _, s := range series {
		for i, g := range s.Segments {
			cells := []Cell{
				{Text: first(i, label(seriesRow(s)))}, {Text: fromText(h, g.First)}, {Text: strconv.Itoa(g.Runs)},
			}
			e := g.Effect
			if levels {
				e.Value /= col.divisor
				e.Interval.Low, e.Interval.High = e.Interval.Low/col.divisor, e.Interval.High/col.divisor
				cells = append(cells, Cell{Text: fixed(e.Value, decimalsOf(e.Value, e.Interval.Low, e.Interval.High))},
					Cell{Text: boundedSpan(e, plainSpan)})
			} else {
				e = e.PercentMore()
				cells = append(
					cells,
					Cell{Text: signed(e.Value, decimalsOf(e.Value, e.Interval.Low, e.Interval.High))},
					Cell{Text: boundedSpan(e, spanText)},
					Cell{Text: levelOf(g.Level, col)},
					Cell{Text: levelOf(g.BaseLevel, col)},
				)
			}
			t.Rows = append(t.Rows, cells)
		}
	}
	return t
}

func unitHead(unit string) string {
	if unit == "" {
		return "value"
	}
	return unit
}

// levelOf writes a level to three digits.
func levelOf(v float64, c column) string { return fixed(v/c.divisor, significant(v/c.divisor)) }

// boundedSpan is the interval of an estimate; empty where there is none.
func boundedSpan(e stats.Estimate, write func(low, high float64) string) string {
	if !e.Known() {
		return ""
	}
	return write(e.Interval.Low, e.Interval.High)
}

func fromText(h overhead.History, run int) string {
	if h.Imported {
		return h.Runs[run].ID
	}
	return h.Runs[run].Started.Local().Format("2006-01-02")
}
