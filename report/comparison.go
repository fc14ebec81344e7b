package report

import (
	"fmt"
	"io"
	"sort"
	"strconv"

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
	s.field("compared", basisText(c))
	if c.FailAbove != nil {
		s.field("allowed", ratioText(*c.FailAbove)+" % worse: "+statusText(c.Status))
	}
	s.blank()
	s.tables(comparisonTables(c))
	for _, text := range c.Warnings {
		s.hang(yellow, "warning:", clean(text))
	}
	if len(opt.Next) > 0 || opt.Report != "" {
		s.blank()
	}
	for i, command := range opt.Next {
		s.copyable(first(i, "next"), clean(command))
	}
	if opt.Report != "" {
		s.copyable("report", clean(opt.Report))
	}
	return s.flush(w)
}

// ComparisonAnswer is the sentence that stands first in a comparison: judged
// against what the user allows where a threshold was set, and against the
// smallest effect of interest where none was.
func ComparisonAnswer(c overhead.Comparison) string {
	rows := judgedWorstFirst(c)
	if len(rows) == 0 {
		return "No primary metric is in both runs: nothing can be said of what changed."
	}
	if c.FailAbove != nil {
		return thresholdAnswer(c, rows)
	}
	var worse, better, undecided []overhead.ComparisonRow
	for _, r := range rows {
		switch {
		case !finite(r.Percent):
			undecided = append(undecided, r)
		case r.Verdict == overhead.Worse:
			worse = append(worse, r)
		case r.Verdict == overhead.Better:
			better = append(better, r)
		case r.Verdict != overhead.Equivalent:
			undecided = append(undecided, r)
		}
	}
	var text string
	switch {
	case len(worse) > 0:
		text = changeClause(worse[0], "worse") + more(len(worse)-1, "got worse too")
	case len(undecided) > 0:
		text = fmt.Sprintf("Nothing surely got worse, but %d of %d changes are undecided", len(undecided), len(rows))
		if len(rows) == 1 {
			text = "Whether anything got worse is undecided"
		}
	default:
		text = "Nothing got worse by " + ratioText(c.SmallestEffect) + " % or more"
	}
	if len(better) > 0 {
		text += "; " + changeClause(better[len(better)-1], "better") + more(len(better)-1, "got better too")
	}
	return text + "."
}

func thresholdAnswer(c overhead.Comparison, rows []overhead.ComparisonRow) string {
	allowed := ratioText(*c.FailAbove) + " %"
	of := func(status overhead.Status) (found []overhead.ComparisonRow) {
		for _, r := range rows {
			if r.Status == status {
				found = append(found, r)
			}
		}
		return found
	}
	switch exceeded, undecided := of(overhead.Exceeded), of(overhead.Undecided); {
	case len(exceeded) > 0:
		return changeClause(exceeded[0], "worse") + more(len(exceeded)-1, "did so too") + ": more than the " + allowed + " allowed."
	case len(undecided) > 0:
		r := undecided[0]
		text := "Whether " + comparedName(r) + " got worse by more than the " + allowed + " allowed is undecided"
		if bounded(r.Percent, r.PercentLow, r.PercentHigh) {
			text += " (" + spanText(r.PercentLow, r.PercentHigh) + " %)"
		} else {
			text += " (" + comparisonReason(r) + ")"
		}
		return text + more(len(undecided)-1, "are undecided too") + "."
	}
	r := rows[0]
	return "Nothing got worse by more than the " + allowed + " allowed: at most " + comparedName(r) + ", " +
		spanText(r.PercentLow, r.PercentHigh) + " %."
}

// changeClause writes "docker got 7.9 % worse on redis get (6.5 to 9.3)".
func changeClause(r overhead.ComparisonRow, direction string) string {
	v, low, high := r.Percent, r.PercentLow, r.PercentHigh
	if direction == "better" {
		v, low, high = -v, -high, -low
	}
	text := label(asRow(r)) + " got " + percentText(v, low, high) + " % " + direction + " on " + clean(r.Workload) + " " + clean(r.Metric)
	if bounded(v, low, high) {
		return text + " (" + plainSpan(low, high) + ")"
	}
	return text + " (no interval)"
}

func comparedName(r overhead.ComparisonRow) string {
	return label(asRow(r)) + " on " + clean(r.Workload) + " " + clean(r.Metric)
}

func more(n int, what string) string {
	if n <= 0 {
		return ""
	}
	return " (" + strconv.Itoa(n) + " more " + what + ")"
}

// judgedWorstFirst gives the rows that make the outcome.
func judgedWorstFirst(c overhead.Comparison) []overhead.ComparisonRow {
	var rows []overhead.ComparisonRow
	for _, r := range c.Rows {
		if r.Judged {
			rows = append(rows, r)
		}
	}
	sort.SliceStable(rows, func(i, j int) bool {
		a, b := rows[i], rows[j]
		if finite(a.Percent) != finite(b.Percent) {
			return finite(a.Percent)
		}
		return a.Percent > b.Percent
	})
	return rows
}

func basisText(c overhead.Comparison) string {
	overheads, values := false, false
	for _, r := range c.Rows {
		if r.Judged {
			overheads = overheads || r.Basis == overhead.ByOverhead
			values = values || r.Basis == overhead.ByValue
		}
	}
	switch {
	case overheads && values:
		return "overheads, each against its own run's baseline; where warned, values"
	case overheads:
		return "overheads, each against its own run's baseline: what slows both alike cancels"
	case values:
		return "values as measured: all that changed on the host is in them"
	}
	return "nothing"
}

func statusText(s overhead.Status) string {
	switch s {
	case overhead.Passed:
		return "kept"
	case overhead.Exceeded:
		return "exceeded"
	}
	return "undecided"
}

// asRow gives the part of a comparison's row that is shown as any other row.
func asRow(r overhead.ComparisonRow) overhead.Row {
	return overhead.Row{Condition: r.Condition, Label: r.Label, Platform: r.Platform, Value: r.NewValue,
		Percent: r.Percent, PercentLow: r.PercentLow, PercentHigh: r.PercentHigh, Verdict: r.Verdict}
}

// comparisonTables makes a table for each primary metric of each workload, or
// for every metric where none is primary.
func comparisonTables(c overhead.Comparison) []table {
	primary := false
	for _, r := range c.Rows {
		primary = primary || r.Primary
	}
	type key struct{ workload, metric string }
	var order []key
	rows := map[key][]overhead.ComparisonRow{}
	for _, r := range c.Rows {
		if primary && !r.Primary {
			continue
		}
		k := key{r.Workload, r.Metric}
		if rows[k] == nil {
			order = append(order, k)
		}
		rows[k] = append(rows[k], r)
	}
	tables := make([]table, 0, len(order))
	for _, k := range order {
		tables = append(tables, comparisonTable(rows[k], c.Level))
	}
	return tables
}

func comparisonTable(rows []overhead.ComparisonRow, level float64) table {
	m := overhead.MetricReport{Unit: rows[0].Unit, HigherIsBetter: rows[0].HigherIsBetter}
	for _, r := range rows {
		m.Rows = append(m.Rows, asRow(r))
	}
	col := newColumn(m)
	unit := clean(col.unit)
	t := table{head: []string{clean(rows[0].Workload) + " " + clean(rows[0].Metric) + ", " + unit, "old", "new", "worse", levelText(level), "verdict"}}
	sort.SliceStable(rows, func(i, j int) bool {
		a, b := rows[i], rows[j]
		if a.Baseline != b.Baseline {
			return b.Baseline
		}
		if finite(a.Percent) != finite(b.Percent) {
			return finite(a.Percent)
		}
		return a.Percent > b.Percent
	})
	for _, r := range rows {
		name, word := label(asRow(r)), string(r.Verdict)
		cells := []string{name, col.value(r.OldValue), col.value(r.NewValue), "", "", clean(word)}
		if !finite(r.Percent) {
			cells[5] = "no figure"
			t.notes = append(t.notes, name+": no figure: "+comparisonReason(r)+".")
		} else {
			figure, span := col.percent(r.Percent, r.PercentLow, r.PercentHigh)
			cells[3], cells[4] = figure+" %", span
			if span == "" {
				t.notes = append(t.notes, name+": no interval: "+comparisonReason(r)+".")
			}
		}
		if r.Baseline && r.Basis == overhead.ByValue && !r.Judged {
			cells[0] += " (baseline)"
		}
		t.rows = append(t.rows, tableRow{cells, r.Verdict})
	}
	return t
}

// comparisonReason tells why a row has no figure or no interval.
func comparisonReason(r overhead.ComparisonRow) string {
	change := r.Value
	if r.Basis == overhead.ByOverhead {
		change = r.Overhead
	}
	for _, e := range []stats.Estimate{change, r.OldOverhead, r.NewOverhead, r.OldValue, r.NewValue} {
		if len(e.Warnings) > 0 {
			return clean(e.Warnings[0])
		}
	}
	return "one of the runs has too few blocks of it"
}
