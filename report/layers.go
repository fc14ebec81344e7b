package report

import (
	"fmt"
	"strings"

	"tare/overhead"
)

// layersAnswer says what of a workload's dearest condition costs what it costs, as an end
// of the sentence that names the cost; empty where nobody has asked.
func layersAnswer(rep overhead.Report, workload string) string {
	for _, f := range rep.Layers {
		if f.Plan.Of == workload {
			return "; " + layerClause(f)
		}
	}
	return ""
}

func layerClause(f overhead.Layers) string {
	margin := fixed(100*f.Plan.Margin, 1)
	c := f.Cause
	if s := dearestAdded(f); c == nil && s != nil {
		return fmt.Sprintf(
			"no layer that can be removed is the cause; %s, added to %s, costs %s %% (%s)",
			s.Layer,
			clean(s.Without),
			percentText(s.Percent, s.AdjustedLow, s.AdjustedHigh),
			plainSpan(s.AdjustedLow, s.AdjustedHigh),
		)
	}
	if c == nil {
		return fmt.Sprintf("no single layer of %s could be shown to be the cause in %s", clean(f.Condition), Counted(f.Rounds, "round"))
	}
	size := percentText(c.Percent, c.AdjustedLow, c.AdjustedHigh) + " % (" + plainSpan(c.AdjustedLow, c.AdjustedHigh) + ")"
	if f.All {
		return fmt.Sprintf("%s is all of that: it costs %s, and without it %s is within %s %% of bare metal", c.Layer, size, clean(f.Condition), margin)
	}
	return fmt.Sprintf("of that, %s takes %s", c.Layer, size)
}

// dearestAdded is the layer that costs most where it is added, of those that are
// established; nil where none is.
func dearestAdded(f overhead.Layers) (most *overhead.Step) {
	for i := range f.Steps {
		if s := &f.Steps[i]; !s.Removed && s.Decided && s.Percent > 0 && (most == nil || s.Percent > most.Percent) {
			most = s
		}
	}
	return most
}

// layersTables are those of a workload's costs that were divided.
func layersTables(rep overhead.Report, of, workload string) []Part {
	var tables []Part
	for _, f := range rep.Layers {
		if f.Plan.Of == workload {
			tables = append(tables, layersTable(f, of, rep.Level))
		}
	}
	return tables
}

// layersMetric is the title of the metric that is divided.
func layersMetric(f overhead.Layers) string {
	m := f.Metric
	return title(
		overhead.MetricReport{Name: m.Name, Unit: m.Unit, Quantile: m.Quantile, Part: m.Part, Figure: m.Figure},
	)
}

// layersTable shows each step of a cost, with its interval.
func layersTable(f overhead.Layers, of string, level float64) Table {
	t := Table{Title: of + layersMetric(f) + ", by layer, on " + Counted(f.Rounds, "round") + " of their own",
		Columns: []Column{{Head: "step"}, {Head: "it costs, %", Number: true}, {Head: levelText(level), Number: true}, {}}}
	row := func(name string, s overhead.Step) {
		figure, span := changeCells(s.Percent, s.Low, s.High)
		if span.Text == "" {
			figure = Cell{}
		}
		decided := Cell{}
		if s.Decided {
			decided.Text = "established"
		}
		t.Rows = append(t.Rows, []Cell{{Text: name}, figure, span, decided})
	}
	row("all of "+clean(f.Condition), f.Whole)
	for _, removed := range []bool{true, false} {
		for _, s := range f.Steps {
			switch {
			case s.Removed != removed:
			case removed:
				row(s.Layer+", removed from "+clean(s.With), s)
			default:
				row(s.Layer+", added to "+clean(s.Without), s)
			}
		}
	}
	if f.Rest != nil {
		rest := *f.Rest
		rest.Decided = false // that it costs nothing is no cost
		row("what is left without "+f.Cause.Layer, rest)
	}
	if len(f.Plan.Absent) > 0 {
		t.Note = "Not looked at: " + strings.Join(f.Plan.Absent, "; ") + "."
	}
	return t
}
