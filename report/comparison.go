package report

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"tare/overhead"
	"tare/stats"
)

// ComparisonTerminal writes a new run against an old one: what got worse first,
// then a line a condition for each primary metric. Of the options it takes the
// width, the colour, the commands and the path.
func ComparisonTerminal(w io.Writer, c overhead.Comparison, opt TerminalOptions) error {
	s := newScreen(opt.Width, opt.Color)
	s.paragraph(bold, ComparisonAnswer(c))
	s.blank()
	s.field("old", clean(c.Old))
	s.field("new", clean(c.New))
	drift := ratioText(c.Drift) + " %"
	s.field("drift", drift+": the host may have changed by that much between the runs. Each interval is widened by it at both ends before it is judged.")
	if limit := c.Threshold.FailAbove; limit > 0 {
		text := ratioText(limit) + " % worse"
		if c.Threshold.Status != "" {
			text += ": " + string(c.Threshold.Status)
		}
		s.field("allowed", text)
		if limit < c.Drift {
			s.hang(yellow, "note:", "The threshold of "+ratioText(limit)+" % is less than the "+drift+" allowed for drift: only a clear improvement can pass. "+
				"Weigh both versions in one run instead, where no drift lies between them.")
		}
	}
	s.blank()
	s.tables(comparisonTables(c)...)
	if overheads := overheadTables(c); len(overheads) > 0 {
		s.blank()
		s.tables(overheads...)
	}
	for i, text := range c.Missing {
		if i == named && len(c.Missing) > named+1 {
			s.hang(yellow, "missing:", "and "+strconv.Itoa(len(c.Missing)-named)+" more")
			break
		}
		s.hang(yellow, "missing:", clean(text))
	}
	s.warn(c.Warnings)
	if len(opt.Next) > 0 {
		s.blank()
	}
	for i, command := range opt.Next {
		s.copyable(first(i, "next"), clean(command))
	}
	return s.flush(w)
}

// ComparisonAnswer is the sentence that stands first in a comparison: judged
// against what the user allows where a threshold was set, and against no change
// where none was.
func ComparisonAnswer(c overhead.Comparison) string {
	rows := judgedWorstFirst(c)
	switch {
	case c.Unjudged != "":
		return "No verdict: " + clean(c.Unjudged) + "."
	case len(rows) == 0:
		return "No primary metric is in both runs: nothing can be said of what changed."
	case c.Threshold.FailAbove > 0:
		return comparedWithThreshold(c, rows)
	}
	var worse, better []overhead.ComparisonRow
	for _, r := range rows {
		switch r.Verdict {
		case overhead.Worse:
			worse = append(worse, r)
		case overhead.Better:
			better = append(better, r)
		}
	}
	drift := ratioText(c.Drift) + " %"
	var clauses []string
	if len(worse) > 0 {
		clauses = append(clauses, changeClause(worse[0], 1)+more(len(worse)-1, "got worse too"))
	}
	if n := len(better); n > 0 {
		clauses = append(clauses, changeClause(better[n-1], -1)+more(n-1, "got better too"))
	}
	if len(clauses) == 0 {
		return "Whether anything got worse or better is inconclusive: no change is clear of the " + drift + " allowed for drift."
	}
	return strings.Join(clauses, "; ") + ". Drift of " + drift + " does not explain it."
}

func comparedWithThreshold(c overhead.Comparison, rows []overhead.ComparisonRow) string {
	if c.Threshold.Status == overhead.Undecided && len(c.Missing) > 0 {
		return "Whether anything is worse by more than the " + ratioText(c.Threshold.FailAbove) + " % allowed is inconclusive: " +
			clean(c.Missing[0]) + more(len(c.Missing)-1, "missing too") + "."
	}
	var all []outcome
	for _, r := range rows {
		all = append(all, outcome{
			name:       label(asRow(r)) + " on " + clean(r.Workload) + " " + clean(r.Metric),
			status:     r.Status,
			percent:    r.Percent,
			low:        r.PercentLow,
			high:       r.PercentHigh,
			judgedLow:  r.DriftLow,
			judgedHigh: r.DriftHigh,
			why:        comparisonReason(r),
			withheld:   r.Withheld,
		})
	}
	return thresholdAnswer(c.Threshold, all, ratioText(c.Drift)+" % allowed for drift")
}

// changeClause writes "docker got 7.9 % worse on redis get (6.5 to 9.3)", and
// with sign -1 by how much it got better.
func changeClause(r overhead.ComparisonRow, sign float64) string {
	v, low, high, direction := r.Percent, r.PercentLow, r.PercentHigh, "worse"
	if sign < 0 {
		v, low, high, direction = -v, -high, -low, "better"
	}
	return label(asRow(r)) + " got " + percentText(v, low, high) + " % " + direction + " on " + clean(r.Workload) + " " +
		clean(r.Metric) + " (" + plainSpan(low, high) + ")"
}

func more(n int, what string) string {
	if n <= 0 {
		return ""
	}
	return " (" + strconv.Itoa(n) + " more " + what + ")"
}

// judgedWorstFirst gives the rows that make the outcome.
func judgedWorstFirst(c overhead.Comparison) []overhead.ComparisonRow {
	rows := slices.DeleteFunc(slices.Clone(c.Rows), func(r overhead.ComparisonRow) bool { return !r.Judged })
	slices.SortStableFunc(rows, func(a, b overhead.ComparisonRow) int { return worseFirst(a.Percent, b.Percent) })
	return rows
}

// asRow gives the part of a comparison's row that is shown as any other row.
func asRow(r overhead.ComparisonRow) overhead.Row {
	return overhead.Row{Condition: r.Condition, Label: r.Label, Platform: r.Platform, Value: r.NewValue,
		Percent: r.Percent, PercentLow: r.PercentLow, PercentHigh: r.PercentHigh}
}

// comparisonTables makes a table for each primary metric of each workload, or
// for every metric where none is primary.
func comparisonTables(c overhead.Comparison) []Table {
	rows := judgedWorstFirst(c)
	if len(rows) == 0 {
		rows = c.Rows
	}
	return comparedTables(rows, func(rows []overhead.ComparisonRow) Table { return comparisonTable(rows, c) })
}

// overheadTables show what became of the overheads, which the drift of the host
// does not reach.
func overheadTables(c overhead.Comparison) []Table {
	rows := slices.DeleteFunc(judgedWorstFirst(c), func(r overhead.ComparisonRow) bool {
		return !bounded(r.OverheadPercent, r.OverheadLow, r.OverheadHigh)
	})
	return comparedTables(rows, func(rows []overhead.ComparisonRow) Table {
		t := Table{Title: clean(rows[0].Workload) + " " + clean(rows[0].Metric) + ", change against the own run's baseline",
			Columns: []Column{{Head: "condition"}, {Head: "change", Number: true}, {Head: levelText(c.Level), Number: true}}}
		for _, r := range rows {
			v, low, high := natural(r.HigherIsBetter, r.OverheadPercent, r.OverheadLow, r.OverheadHigh)
			d := decimalsOf(v, low, high)
			t.Rows = append(
				t.Rows,
				[]Cell{{Text: label(asRow(r))}, {Text: signed(v, d) + " %"}, {Text: spanText(low, high)}},
			)
		}
		t.Note = "Drift of the host cancels in these. They decide nothing here: a program that got slower everywhere shows no change."
		return t
	})
}

// comparedTables makes a table of the rows of each metric of each workload.
func comparedTables(all []overhead.ComparisonRow, make func([]overhead.ComparisonRow) Table) (tables []Table) {
	type key struct{ workload, metric string }
	var order []key
	rows := map[key][]overhead.ComparisonRow{}
	for _, r := range all {
		k := key{r.Workload, r.Metric}
		if rows[k] == nil {
			order = append(order, k)
		}
		rows[k] = append(rows[k], r)
	}
	for _, k := range order {
		tables = append(tables, make(rows[k]))
	}
	return tables
}

func comparisonTable(rows []overhead.ComparisonRow, c overhead.Comparison) Table {
	m := overhead.MetricReport{Unit: rows[0].Unit, HigherIsBetter: rows[0].HigherIsBetter}
	for _, r := range rows {
		m.Rows = append(m.Rows, asRow(r))
	}
	col := newColumn(m)
	t := Table{
		Title: withUnit(clean(rows[0].Workload)+" "+clean(rows[0].Metric), col.unit),
		Columns: []Column{
			{Head: "condition"},
			{Head: "old", Number: true},
			{Head: "new", Number: true},
			{Head: "change", Number: true},
			{Head: levelText(c.Level), Number: true},
			{Head: "with drift", Number: true},
			{Head: "verdict"},
		},
	}
	var notes []string
	for _, r := range rows {
		name, word, tone := label(asRow(r)), string(r.Verdict), verdictTone(r.Verdict)
		if r.Status != "" {
			word, tone = string(r.Status), statusTone[r.Status]
		}
		figure, span, widened := "", "", ""
		switch {
		case !finite(r.Percent):
			word = "no figure"
			notes = append(notes, name+": no figure: "+comparisonReason(r)+".")
		case !bounded(r.Percent, r.PercentLow, r.PercentHigh):
			figure, _ = col.percent(r.Percent, r.PercentLow, r.PercentHigh)
			notes = append(notes, name+": no interval: "+comparisonReason(r)+".")
		default:
			figure, span = col.percent(r.Percent, r.PercentLow, r.PercentHigh)
			_, low, high := natural(m.HigherIsBetter, r.Percent, r.DriftLow, r.DriftHigh)
			widened = spanText(low, high)
			if r.Status == overhead.Undecided && r.DriftLow > 100*c.Threshold.FailAbove {
				notes = append(notes, name+": exceeds by itself, but not surely as one of several rows (Holm).")
			}
			if r.Withheld != "" {
				notes = append(notes, name+": "+clean(r.Withheld)+".")
			}
		}
		if figure != "" {
			figure += " %"
		}
		t.Rows = append(
			t.Rows,
			[]Cell{
				{Text: name},
				{Text: col.level(r.OldValue)},
				{Text: col.level(r.NewValue)},
				{Text: figure},
				{Text: span},
				{Text: widened},
				{Text: word, Tone: tone},
			},
		)
	}
	t.Note = inCommon(notes)
	return t
}

// comparisonReason tells why a row has no figure or no interval.
func comparisonReason(r overhead.ComparisonRow) string {
	for _, e := range []stats.Estimate{r.Change, r.OldValue, r.NewValue} {
		if len(e.Warnings) > 0 {
			return clean(e.Warnings[0])
		}
	}
	return "one of the runs has too few blocks of it"
}
