package report

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"

	"tare/overhead"
	"tare/record"
)

// metricTables is a [Part]: how the conditions of one workload compare by each of its
// metrics, those that carry the verdict first. A screen shows these, and all where all is
// asked for; a page has a plot beside each table and, where there are scripts, one metric
// at a time.
type metricTables struct {
	workload string // empty where the run has no other
	answer   string // empty where the sheet's own answer says it
	facts    []string
	metrics  []metricTable
}

func (p metricTables) heading() string { return p.workload }

// metricTable is the table of one metric: condition, value, change, interval, verdict.
type metricTable struct {
	Table
	name       string // what stands for the metric's title, where that is another
	everything string // the table's note where there is room for all; empty: the same
	doc        string
	primary    bool
	smallest   float64               // effect of interest
	report     overhead.MetricReport // its rows in the table's order
}

// newMetricTables gives the metrics of a group, those that carry the verdict first.
func newMetricTables(run record.Run, rep overhead.Report, g overhead.Group) metricTables {
	var p metricTables
	leading := map[string]bool{}
	for _, m := range g.Primaries() {
		leading[m.Name] = true
	}
	for _, primary := range []bool{true, false} {
		for _, m := range g.Metrics {
			if leading[m.Name] != primary {
				continue
			}
			t := newMetricTable(run, m, rep)
			t.primary = primary
			if text := secondaryText(g); !primary && text != "" {
				t.everything += "\n\n" + text
			}
			p.metrics = append(p.metrics, t)
		}
	}
	return p
}

// newMetricTable makes the table of one metric, worst first; a ladder keeps the
// order of its rungs.
func newMetricTable(run record.Run, m overhead.MetricReport, rep overhead.Report) metricTable {
	if run.Plan.Ladder {
		m.Rows = rungOrder(run, m.Rows)
	} else {
		m.Rows = worstFirst(m.Rows)
	}
	t := metricTable{report: m, doc: metricDoc(run, m.Name), smallest: rep.SmallestEffect}
	col := newColumn(m)
	t.Title = title(m) + ", " + direction(m)
	t.Columns = []Column{
		{Head: "condition"},
		{Head: orElse(clean(col.unit), "value"), Number: true},
		{Head: "change, %", Number: true},
		{Head: levelText(rep.Level), Number: true},
		{Head: "verdict"},
	}
	var absences, notes []string
	overruled := false
	for _, r := range m.Rows {
		name := Cell{Text: label(r)}
		if r.NotRepresentative != "" {
			name.Detail = "not representative"
		}
		figure, span, unit, why := overheadText(r, col, run)
		verdict := Cell{Text: verdictText(r, rep.SmallestEffect), Tone: verdictTone(r.Verdict)}
		switch {
		case figure == "" && !present(r.Value) && !r.Baseline:
			verdict = Cell{Text: noFigure, Tone: Faint}
		case verdictClass(r.Verdict) == "none":
			verdict = Cell{Text: "no verdict", Tone: Faint}
		case r.Overruled() && bounded(r.Percent, r.AdjustedLow, r.AdjustedHigh):
			overruled = true
			_, low, high := natural(m.HigherIsBetter, r.Percent, r.AdjustedLow, r.AdjustedHigh)
			verdict.Detail = spanText(low, high) + " %"
		}
		if unit != "" {
			notes = append(notes, label(r)+": the difference in "+clean(unit)+", for no ratio can be formed.")
			figure += " " + clean(unit)
		}
		if why != "" {
			absences = append(absences, label(r)+": "+why+".")
		}
		if r.Verdict == overhead.Inconclusive && r.Needs != "" && figure != "" {
			notes = append(notes, label(r)+": "+clean(r.Needs)+" would decide.")
		}
		if r.Status != "" {
			notes = append(notes, label(r)+": threshold "+string(r.Status)+".")
		}
		t.Rows = append(t.Rows, []Cell{name, {Text: col.value(r.Value)}, {Text: figure}, {Text: span}, verdict})
	}
	notes = append(absences, notes...)
	if overruled {
		notes = append(notes, fmt.Sprintf("In brackets beside a verdict: the wider interval that decides it. A verdict must hold together with those of all %d comparisons.", m.Comparisons))
	}
	resolved := strings.TrimSpace(floorText(m) + " " + selfText(m))
	note := func(all bool) string {
		return strings.TrimSpace(inCommon(append(notes[:len(notes):len(notes)], roundNotes(m, all)...)) + "\n\n" + resolved)
	}
	t.Note, t.everything = note(false), note(true)
	return t
}

// noFigure is said of a row that has none.
const noFigure = "no figure"

// interim is the table without what is shown only at the end: notes, and verdicts.
func (t metricTable) interim() metricTable {
	last := len(t.Columns) - 1
	t.Note, t.everything, t.Columns[last].Head = "", "", ""
	for i, row := range t.Rows {
		if word := row[last].Text; word != string(overhead.Baseline) && word != noFigure {
			t.Rows[i][last] = Cell{}
		}
	}
	return t
}

// verdictTone is how a verdict is to be taken.
func verdictTone(v overhead.Verdict) Tone {
	switch v {
	case overhead.Worse:
		return Bad
	case overhead.Better, overhead.Equivalent:
		return Good
	case overhead.Inconclusive:
		return Unsure
	}
	return Faint
}

// levelText heads the column of intervals.
func levelText(level float64) string {
	if !(level > 0 && level < 1) {
		return "interval"
	}
	return strconv.FormatFloat(100*level, 'g', 4, 64) + " % interval"
}

// inCommon makes the paragraphs of a note. It says once what several rows have in common:
// "a, b: why." for "a: why." and "b: why.", where the first of them stands.
func inCommon(notes []string) string {
	rows := map[string][]string{}
	var order []string
	for _, n := range notes {
		row, why, ok := strings.Cut(n, ": ")
		if !ok {
			row, why = "", n
		}
		if _, seen := rows[why]; !seen {
			order = append(order, why)
		}
		rows[why] = append(rows[why], row)
	}
	for i, why := range order {
		if rows[why][0] != "" {
			order[i] = strings.Join(rows[why], ", ") + ": " + why
		}
	}
	return strings.Join(order, "\n\n")
}

// metricTables writes the tables of metrics, whose columns stand in the same places.
func (s *screen) metricTables(p metricTables, all bool) {
	if p.answer != "" {
		s.paragraph(bold, p.answer)
	}
	for _, f := range p.facts {
		s.fact(f)
	}
	if p.answer != "" || len(p.facts) > 0 {
		s.blank()
	}
	var tables []Table
	for _, m := range p.metrics {
		if all && m.name == "" {
			m.Title, m.Note = heading(m.report)+", "+direction(m.report), m.everything
		}
		if all || m.primary {
			tables = append(tables, m.Table)
		}
	}
	if len(tables) > 0 {
		s.tables(tables...)
	}
}

// A metricsPage is metricTables as the page shows it.
type metricsPage struct {
	Answer  string
	Facts   []string
	Metrics []metricPage
}

type metricPage struct {
	Of, Value, Remark string // heads: what a row is of, its value, what is said of it

	Name, Exported string // Exported is its name in exports, where that is another
	Direction      string
	Unit           string
	Primary        bool
	Doc            string
	Level          string
	Smallest       string
	Axis           template.HTML
	Rows           []metricRowPage
	Notes          []string
	Block          string // what its values are of: "round"
	Drift          []driftPlot
	Reach          string
	Strips         []strip
	StripAxis      template.HTML
}

type metricRowPage struct {
	Label, Marked string // Marked is why it is not representative
	Value         string
	Overhead      string
	Interval      string
	Method        string // how the interval was found
	Verdict       string
	Decides       string // the interval that decides, where it is another
	Class         string
	Drawing       template.HTML
	Baseline      bool
}

func newMetricsPage(p metricTables) *metricsPage {
	page := &metricsPage{Answer: typeset(p.answer), Facts: p.facts}
	for _, m := range p.metrics {
		page.Metrics = append(page.Metrics, newMetricPage(m))
	}
	return page
}

func newMetricPage(t metricTable) metricPage {
	m := t.report
	col := newColumn(m)
	f := newForest(m, t.smallest)
	p := metricPage{
		Name:      orElse(t.name, title(m)),
		Exported:  exportedName(m),
		Direction: direction(m),
		Unit:      clean(col.unit),
		Primary:   t.primary,
		Doc:       t.doc,
		Level:     t.Columns[3].Head,
		Smallest:  ratioText(t.smallest),
		Axis:      f.axis(),
		Of:        t.Columns[0].Head,
		Value:     orElse(clean(col.unit), capital(t.Columns[1].Head)),
		Remark:    capital(t.Columns[4].Head),
		Block:     "block",
	}
	if m.Rounds {
		p.Block = "round"
	}
	notes := orElse(t.everything, t.Note)
	if len(f.beyond) > 0 {
		notes += "\n\n" + Listed(f.beyond) + ": beyond the plot; the figures are in the table."
	}
	p.Notes = typesetAll(paragraphs(notes))
	for i, r := range m.Rows {
		p.Rows = append(p.Rows, newMetricRowPage(t.Rows[i], r, f))
	}
	var reach float64
	p.Drift, reach = drift(m.Rows)
	p.Reach = fixed(reach, significant(reach)-1)
	p.Strips, p.StripAxis = strips(m.Rows, col.scale)
	return p
}

func newMetricRowPage(cells []Cell, r overhead.Row, f forest) metricRowPage {
	p := metricRowPage{
		Label:    cells[0].Text,
		Marked:   clean(r.NotRepresentative),
		Value:    typeset(cells[1].Text),
		Overhead: typeset(cells[2].Text),
		Interval: typeset(cells[3].Text),
		Verdict:  typeset(cells[4].Text),
		Decides:  typeset(cells[4].Detail),
		Class:    verdictClass(r.Verdict),
		Drawing:  f.row(r),
		Baseline: r.Baseline,
	}
	if p.Verdict == noFigure {
		p.Class = "none"
	}
	if p.Overhead != "" && finite(r.Percent) {
		p.Overhead += "\u00a0%"
	}
	if !r.Baseline && present(r.Ratio) {
		p.Method = fmt.Sprintf("%s, n = %d", orElse(clean(r.Ratio.Method), "method not recorded"), r.Ratio.N)
	}
	return p
}

// exportedName is a metric's name where its title is another.
func exportedName(m overhead.MetricReport) string {
	if name := clean(m.Name); name != title(m) {
		return name
	}
	return ""
}

func metricDoc(run record.Run, name string) string {
	for _, c := range run.Conditions {
		for _, m := range c.Metrics {
			if m.Name == name && m.Doc != "" {
				return clean(m.Doc)
			}
		}
	}
	return ""
}
