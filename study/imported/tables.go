package imported

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tare/overhead"
	"tare/report"
	"tare/stats"
)

// Up to mostTables cells have a table each. More cells have tables over cells, and one of the
// worst.
const (
	mostTables = 4
	mostWorst  = 20
	mostCells  = 60
)

// overview is what a reader must know first: few cells whole, and of many their verdicts and
// the worst.
func overview(r overhead.Reading) []report.Part {
	if len(r.Report.Groups) <= mostTables {
		var all []report.Part
		for _, g := range r.Report.Groups {
			all = append(all, cellTable(r, g))
		}
		return all
	}
	if len(outcomes(r)) == 0 {
		return nil
	}
	return []report.Part{counts(r), worst(r)}
}

const howRead = "Each change has its own 95 % interval. Verdicts hold for all comparisons of the run together (Holm)."

// cellTable is one cell whole: conditions and metrics, the worst first.
func cellTable(r overhead.Reading, g overhead.Group) report.Table {
	t := report.Table{
		Title: g.Workload, Method: method(r),
		Columns: []report.Column{
			{Head: "condition"}, {Head: "metric"}, {Head: "value", Number: true}, {Head: "change, %", Number: true},
			{Head: "verdict"}, {Head: "n", Number: true, Optional: true}, {Head: "would decide", Optional: true},
		},
	}
	alone := overhead.Reading{Run: r.Run, Report: overhead.Report{Groups: []overhead.Group{g}}}
	add := func(m overhead.MetricReport, row overhead.Row, n int, change, verdict, needs report.Cell) {
		scale, unit := scaled(alone, m.Name, m.Unit)
		name := m.Name
		if unit != name { // which a unit may name
			name += ", " + unit
		}
		t.Rows = append(t.Rows, []report.Cell{
			{Text: row.Label}, {Text: name}, report.Measured(row.Value.Value * scale),
			change, verdict, {Text: fmt.Sprint(n)}, needs,
		})
	}
	for _, m := range g.Metrics {
		for _, row := range m.Rows {
			if row.Baseline {
				add(m, row, row.Value.N, report.Cell{Text: "baseline", Tone: report.Faint}, report.Cell{}, report.Cell{})
			}
		}
	}
	shown := map[string]bool{}
	for _, o := range outcomes(alone) {
		shown[o.row.Condition+"\x00"+o.metric.Name] = true
		add(o.metric, o.row, max(o.row.Ratio.N, o.row.Difference.N), changed(o.metric, o.row),
			verdict(o.row.Verdict), report.Cell{Text: o.row.Needs})
	}
	for _, m := range g.Metrics { // what has no baseline beside it
		for _, row := range m.Rows {
			if !row.Baseline && !shown[row.Condition+"\x00"+m.Name] && row.Value.N > 0 {
				add(m, row, row.Value.N, report.Absent(), report.Cell{}, report.Cell{Text: row.Needs})
			}
		}
	}
	return t
}

// counts is the spread of changes over cells, and the number of each verdict, by condition
// and metric.
func counts(r overhead.Reading) report.Table {
	t := report.Table{
		Title: "Changes and verdicts over all cells",
		Note:  "Median, least and greatest change describe the spread over cells. They are no estimate of one effect.",
		Columns: []report.Column{
			{Head: "condition"}, {Head: "metric"}, {Head: "median change, %", Number: true},
			{Head: "least, %", Number: true, Optional: true}, {Head: "greatest, %", Number: true, Optional: true},
		},
	}
	for _, v := range verdicts {
		t.Columns = append(t.Columns, report.Column{Head: string(v), Number: true})
	}
	type key struct {
		label, metric  string
		higherIsBetter bool
	}
	var order []key
	percents := map[key][]float64{}
	count := map[key]map[overhead.Verdict]int{}
	for _, g := range r.Report.Groups {
		for _, m := range g.Metrics {
			for _, row := range m.Rows {
				if !compared(row) {
					continue
				}
				k := key{row.Label, m.Name, m.HigherIsBetter}
				if count[k] == nil {
					count[k] = map[overhead.Verdict]int{}
					order = append(order, k)
				}
				if !math.IsNaN(row.Percent) {
					percents[k] = append(percents[k], row.Percent)
				}
				count[k][row.Verdict]++
			}
		}
	}
	slices.SortStableFunc(order, func(a, b key) int { return -compare(median(percents[a]), median(percents[b])) })
	for _, k := range order {
		p := percents[k]
		if k.higherIsBetter {
			for i := range p {
				p[i] = -p[i]
			}
		}
		row := []report.Cell{{Text: k.label}, {Text: k.metric}, report.Absent(), report.Absent(), report.Absent()}
		if len(p) > 0 {
			row[2], row[3], row[4] = tenth(median(p)), tenth(slices.Min(p)), tenth(slices.Max(p))
		}
		for _, v := range verdicts {
			row = append(row, report.Cell{Text: fmt.Sprint(count[k][v])})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// worst are the comparisons that a reader must know of first.
func worst(r overhead.Reading) report.Table {
	all := outcomes(r)
	t := report.Table{
		Title: "Comparisons, the worst first", Method: method(r),
		Columns: []report.Column{
			{Head: "cell"}, {Head: "condition"}, {Head: "metric"}, {Head: "change, %", Number: true},
			{Head: "verdict"}, {Head: "n", Number: true, Optional: true}, {Head: "would decide", Optional: true},
		},
	}
	for _, o := range all[:min(len(all), mostWorst)] {
		t.Rows = append(t.Rows, []report.Cell{
			{Text: o.group.Workload}, {Text: o.row.Label}, {Text: o.metric.Name},
			changed(o.metric, o.row), verdict(o.row.Verdict),
			{Text: fmt.Sprint(max(o.row.Ratio.N, o.row.Difference.N))}, {Text: o.row.Needs},
		})
	}
	if rest := len(all) - mostWorst; rest > 0 {
		t.Note = fmt.Sprintf("%d more comparisons are not shown; tare export %s --format json has all of them.", rest, r.Run.ID)
	}
	return t
}

// cellByCell are tables over many cells, one a metric: a column for each condition.
func cellByCell(r overhead.Reading) []report.Part {
	if len(r.Report.Groups) <= mostTables {
		return nil // each has its own
	}
	if len(r.Report.Groups) > mostCells {
		return []report.Part{report.Prose{
			Title: "Comparisons by cell",
			Text: fmt.Sprintf("%d cells are more than a page shows; tare export %s --format json has all of them.",
				len(r.Report.Groups), r.Run.ID),
		}}
	}
	var labels, metrics []string
	unit := map[string]string{}
	for _, g := range r.Report.Groups {
		for _, m := range g.Metrics {
			if !slices.Contains(metrics, m.Name) {
				metrics = append(metrics, m.Name)
			}
			unit[m.Name] = m.Unit
			for _, row := range m.Rows {
				if !row.Baseline && !slices.Contains(labels, row.Label) {
					labels = append(labels, row.Label)
				}
			}
		}
	}
	head := cellHead(r)
	var all []report.Part
	for _, name := range metrics {
		scale, in := scaled(r, name, unit[name])
		t := report.Table{
			Title: "Change of " + name + ", by cell", Method: howRead,
			Columns: []report.Column{{Head: head}, {Head: "baseline, " + in, Number: true}},
		}
		for _, l := range labels {
			t.Columns = append(t.Columns, report.Column{Head: l + ", change %", Number: true})
		}
		for _, g := range r.Report.Groups {
			i := slices.IndexFunc(g.Metrics, func(m overhead.MetricReport) bool { return m.Name == name })
			if i < 0 {
				continue
			}
			cell := g.Workload
			if head != "cell" {
				cell = cellName(g.Workload)
			}
			row := []report.Cell{{Text: cell}, report.Absent()}
			for range labels {
				row = append(row, report.Absent())
			}
			for _, is := range g.Metrics[i].Rows {
				if is.Baseline {
					row[1] = report.Measured(is.Value.Value * scale)
				} else if at := slices.Index(labels, is.Label); at >= 0 && compared(is) {
					row[2+at] = change(g.Metrics[i], is)
				}
			}
			t.Rows = append(t.Rows, row)
		}
		all = append(all, t)
	}
	return all
}

// compared means that a row is a comparison with the baseline: by a ratio or, where the
// baseline is zero, by a difference.
func compared(row overhead.Row) bool {
	return !row.Baseline && (!math.IsNaN(row.Percent) || row.Difference.Known())
}

// changed is a row's change in percent, with its interval. Of zero nothing is a percentage:
// the change is then in the metric's unit.
func changed(m overhead.MetricReport, row overhead.Row) report.Cell {
	if !math.IsNaN(row.Percent) {
		return report.Estimated(percent(m, row), 1)
	}
	c := report.Estimated(row.Difference, 1)
	c.Text += " " + m.Unit
	return c
}

// change is a row's change with its verdict.
func change(m overhead.MetricReport, row overhead.Row) report.Cell {
	c := changed(m, row)
	if c.Detail != "" {
		c.Detail += ", "
	}
	c.Detail += string(row.Verdict)
	c.Tone = verdict(row.Verdict).Tone
	return c
}

// cellName is a cell's levels alone, as "1000000, 2" of "stream[elements=1000000,processes=2]";
// cellHead names their factors.
func cellName(workload string) string {
	return strings.Join(inCell(workload, func(_, level string) string { return level }), ", ")
}

func cellHead(r overhead.Reading) string {
	head := ""
	for _, g := range r.Report.Groups {
		is := strings.Join(inCell(g.Workload, func(factor, _ string) string { return factor }), ", ")
		if head != "" && is != head {
			return "cell"
		}
		head = is
	}
	return head
}

// inCell gives a word for each factor of a cell, or the cell's whole name where it has no
// factors.
func inCell(workload string, word func(factor, level string) string) []string {
	_, list, ok := strings.Cut(strings.TrimSuffix(workload, "]"), "[")
	if !ok {
		return []string{workload}
	}
	var words []string
	for more := true; more; {
		var factor, level string
		factor, list, ok = upTo(list, '=')
		level, list, more = upTo(list, ',')
		if !ok {
			return []string{workload}
		}
		words = append(words, word(factor, level))
	}
	return words
}

// upTo cuts a list after its first word, which may be in quotes; false where no separator
// follows it.
func upTo(list string, separator byte) (word, rest string, found bool) {
	if quoted, err := strconv.QuotedPrefix(list); err == nil {
		if word, err = strconv.Unquote(quoted); err == nil {
			rest = list[len(quoted):]
			return word, strings.TrimPrefix(rest, string(separator)), strings.HasPrefix(rest, string(separator))
		}
	}
	return strings.Cut(list, string(separator))
}

// method says how effects were computed.
func method(r overhead.Reading) string {
	if r.Run.Plan.Unpaired() {
		return howRead + " Conditions are compared as two samples: the ratio of the geometric means, by Welch."
	}
	return howRead + " Repetitions are compared as pairs (--paired)."
}

// percent is a row's change against the baseline, in percent.
func percent(m overhead.MetricReport, row overhead.Row) stats.Estimate {
	e := stats.Estimate{
		Value: row.Percent, N: row.Ratio.N,
		Interval: stats.Interval{Low: row.PercentLow, High: row.PercentHigh, Level: row.Ratio.Interval.Level},
	}
	if m.HigherIsBetter {
		e.Value, e.Interval.Low, e.Interval.High = -e.Value, -e.Interval.High, -e.Interval.Low
	}
	return e
}

// adjusted is a row's overhead with the interval at which its verdict holds among all
// others.
func adjusted(row overhead.Row) stats.Estimate {
	return stats.Estimate{
		Value: row.Percent, N: row.Ratio.N,
		Interval: stats.Interval{Low: row.AdjustedLow, High: row.AdjustedHigh, Level: row.Adjusted.Level},
	}
}

// prefixed is a unit of bytes in which a value has few digits, and the factor to it;
// other units stay as they are.
func prefixed(v float64, unit string) (scale float64, in string) {
	if unit == "B/s" {
		for _, p := range []struct {
			letter string
			size   float64
		}{{"G", 1e9}, {"M", 1e6}, {"k", 1e3}} {
			if v >= p.size {
				return 1 / p.size, p.letter + unit
			}
		}
	}
	return 1, unit
}

// scaled is the unit in which all values of a metric are shown.
func scaled(r overhead.Reading, metric, unit string) (scale float64, in string) {
	most := 0.0
	for _, g := range r.Report.Groups {
		for _, m := range g.Metrics {
			for _, row := range m.Rows {
				if m.Name == metric && row.Value.Value > most {
					most = row.Value.Value
				}
			}
		}
	}
	return prefixed(most, unit)
}

func tenth(v float64) report.Cell { return report.Cell{Text: fmt.Sprintf("%.1f", v)} }

// median is that of values; not a number where there is none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// verdict is a verdict's word, in its tone.
func verdict(v overhead.Verdict) report.Cell {
	c := report.Cell{Text: string(v)}
	switch v {
	case overhead.Worse:
		c.Tone = report.Bad
	case overhead.Better, overhead.Equivalent:
		c.Tone = report.Good
	case overhead.Inconclusive:
		c.Tone = report.Faint
	}
	return c
}
