package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"tare/overhead"
	"tare/record"
	"tare/stats"
	"tare/workload"
)

// title is a metric as headings say it: "CPU time per GET". Metrics that are no figures of
// slices are called by their names, but for those of any program that ends.
func title(m overhead.MetricReport) string {
	operation, half := workload.Operation(m.Name, m.Part)
	of := ""
	if operation != "" && operation != workload.OneRequest {
		of = " of " + operation
	}
	switch {
	case m.Figure == workload.FigureRate && m.Unit == "requests/s":
		return clean("throughput" + of)
	case m.Figure == workload.FigureCPU && operation != "":
		return clean("CPU time per " + operation)
	case m.Figure == workload.FigureCPU:
		return "CPU time"
	case m.Figure == workload.FigureLatency && half:
		of += " at half of the saturated rate"
		fallthrough
	case m.Figure == workload.FigureLatency:
		return clean("p" + strconv.FormatFloat(100*m.Quantile, 'g', -1, 64) + " latency" + of)
	case m.Name == "wall" && m.Unit == "s":
		return "time from launch to end"
	case m.Name == "cpu" && m.Unit == "s":
		return "CPU time"
	}
	return clean(m.Name)
}

// heading is a metric's title with the name that exports have, where that is another.
func heading(m overhead.MetricReport) string {
	if name := exportedName(m); name != "" {
		return title(m) + " (" + name + ")"
	}
	return title(m)
}

// minor tells whether an effect is real, and smaller than is of interest.
func minor(r overhead.Row) bool { return r.Verdict == overhead.Equivalent && r.Differs }

// verdictText is the word for a row's verdict; smallest is the smallest effect of interest.
func verdictText(r overhead.Row, smallest float64) string {
	if !minor(r) {
		return clean(string(r.Verdict))
	}
	way := overhead.Better
	if r.Percent > 0 {
		way = overhead.Worse
	}
	return string(way) + ", within " + ratioText(smallest) + " %"
}

// unitOf is what a group is counted by: "round".
func unitOf(g overhead.Group) string {
	if g.Rounds {
		return "round"
	}
	return "block"
}

// roundsText says what the effects of a group of rounds rest on.
func roundsText(run record.Run, g overhead.Group) string {
	compared := comparedBlocks(g)
	text := strconv.Itoa(compared)
	if compared > 0 {
		per, about := g.Strips/compared, ""
		if g.Strips%compared != 0 {
			about = "about "
		}
		what := Counted(per, "strip") + " each"
		if plan, ok := run.Plan.Rounds[g.Workload]; ok && plan.Slice == 0 {
			what = Counted(per, "execution") + " of each condition"
		}
		text += ", of " + about + what
	}
	if g.Strips > 0 {
		text += fmt.Sprintf("; %d of %d strips left out as disturbed", g.StripsTainted, g.Strips)
		if g.StripsTainted == g.Strips {
			text = strings.Replace(text, "left out as disturbed", "were disturbed and decide nothing", 1)
		}
	}
	if g.Failed > 0 {
		text += ", " + Counted(g.Failed, "launch") + " failed"
	}
	return text
}

// changed is a ratio as a change in percent.
func changed(e stats.Estimate) (v, low, high float64) {
	return 100 * (e.Value - 1), 100 * (e.Interval.Low - 1), 100 * (e.Interval.High - 1)
}

// changeText writes a change with its interval: "+1.9 % (+1.2 to +2.6)".
func changeText(v, low, high float64) string {
	if !bounded(v, low, high) {
		return signed(v, significant(v)) + " %"
	}
	return signed(v, decimalsOf(v, low, high)) + " % (" + spanText(low, high) + ")"
}

// roundNotes say below a table of rounds what its headline leaves out: totals beside typical
// effects, or typical effects beside totals, and stalls.
func roundNotes(m overhead.MetricReport, all bool) []string {
	var others, notes []string
	opening, of := "Totals, stalls included: ", func(r overhead.Row) stats.Estimate { return r.Total }
	if m.ByTotals() {
		opening, of = "Typical slices, stalls left out: ", func(r overhead.Row) stats.Estimate { return r.Typical }
	}
	for _, r := range worstFirst(m.Rows) {
		if e := of(r); !r.Baseline && e.N > 0 && finite(e.Value) {
			others = append(others, label(r)+" "+changeText(changed(e)))
		}
		if text := stallsText(r, m.HigherIsBetter, all); text != "" {
			notes = append(notes, label(r)+": "+text)
		}
	}
	if len(others) > 0 {
		notes = append([]string{opening + strings.Join(others, ", ") + "."}, notes...)
	}
	return notes
}

// fewestRounds are those below which nothing is established.
const fewestRounds = 5

// stallsText says by how much stalls change a row's total, where that is established; with
// all, how much of it is not excluded.
func stallsText(r overhead.Row, higherIsBetter, all bool) string {
	if r.Stalls.N < fewestRounds || !r.Stalls.Known() {
		return ""
	}
	text := ""
	v, low, high := changed(r.Stalls)
	if higherIsBetter {
		v, low, high = -v, -high, -low
	}
	switch {
	case low > 0:
		text = "stalls add " + percentText(v, low, high) + " % (" + plainSpan(low, high) + "): the total exceeds the typical."
	case high < 0:
		text = "fewer stalls take away " + percentText(-v, -high, -low) + " % (" + plainSpan(-high, -low) + "): the total is below the typical."
	}
	if all && finite(r.StallsNotExcluded) {
		not := 100 * r.StallsNotExcluded
		if text != "" {
			text = strings.TrimSuffix(text, ".") + "; "
		}
		text += "up to " + fixed(not, clamp(significant(not)-1, 0, 3)) + " % by stalls is not excluded."
	}
	return text
}

// changeCells are a change in percent and its interval; the interval's cell is empty where
// there is none, and both where there is no figure.
func changeCells(v, low, high float64) (figure, span Cell) {
	switch {
	case bounded(v, low, high):
		return Cell{Text: signed(v, decimalsOf(v, low, high))}, Cell{Text: spanText(low, high)}
	case finite(v):
		return Cell{Text: signed(v, significant(v))}, Cell{}
	}
	return Cell{}, Cell{}
}

// effectsTable shows what moves metrics within rounds.
func effectsTable(g overhead.Group, of string, level float64) Table {
	t := Table{Title: of + "Effects within rounds, of no condition",
		Columns: []Column{{Head: "effect"}, {Head: "metric"}, {Head: "change, %", Number: true}, {Head: levelText(level), Number: true}, {}}}
	names := map[string]string{}
	for _, m := range g.Metrics {
		names[m.Name] = title(m)
	}
	var notes []string
	seen := map[overhead.EffectName]bool{}
	for _, e := range g.Effects {
		figure, span := changeCells(changed(e.Ratio))
		counts := Cell{}
		if e.Counts {
			counts = Cell{Text: "counts", Tone: Unsure}
		}
		if !seen[e.Name] {
			seen[e.Name] = true
			notes = append(notes, string(e.Name)+": "+e.Name.Meaning()+".")
		}
		t.Rows = append(
			t.Rows,
			[]Cell{{Text: string(e.Name)}, {Text: orElse(names[e.Metric], e.Metric)}, figure, span, counts},
		)
	}
	t.Note = inCommon(notes)
	return t
}

// loadTables show the load generator's own CPU time for an operation.
func loadTables(g overhead.Group, of string, level float64) []Table {
	var all []Table
	for _, m := range g.Metrics {
		t := Table{
			Title: of + "Load generator, " + title(m),
			Columns: []Column{
				{Head: "condition"},
				{Head: "µs", Number: true},
				{Head: "change, %", Number: true},
				{Head: levelText(level), Number: true},
				{},
			},
		}
		for _, r := range m.Rows {
			if r.LoadLevel.N == 0 {
				continue
			}
			cells := []Cell{{Text: label(r)}, Measured(r.LoadLevel.Value)}
			switch {
			case r.Baseline:
				cells = append(cells, Cell{}, Cell{}, Cell{Text: "baseline", Tone: Faint})
			case r.Load.N > 0:
				figure, span := changeCells(changed(r.Load))
				cells = append(cells, figure, span)
			}
			t.Rows = append(t.Rows, cells)
		}
		if len(t.Rows) > 0 {
			all = append(all, t)
		}
	}
	return all
}

// Live is what a run that goes on knows of a condition by its primary metrics.
type Live struct {
	Condition string
	Text      string  // "redis docker: get -1.9 % ±0.6, get-cpu +2.4 % ±0.3 after 5 rounds"
	HalfWidth float64 // the widest of its intervals, in percent
}

// LiveRows give, for each condition of a group of which all primary metrics have an interval,
// what is known of it so far. There are no verdicts: what stops at one is biased.
func LiveRows(g overhead.Group) []Live {
	var rows []Live
	at := map[string]int{}
	missing := map[string]bool{}
	for _, m := range g.Primaries() {
		for _, r := range m.Rows {
			if r.Baseline {
				continue
			}
			if !bounded(r.Percent, r.PercentLow, r.PercentHigh) || r.Ratio.N < 3 {
				missing[r.Condition] = true
				continue
			}
			i, known := at[r.Condition]
			if !known {
				i, at[r.Condition] = len(rows), len(rows)
				rows = append(rows, Live{Condition: r.Condition, Text: clean(g.Workload) + " " + label(r) + ":"})
			} else {
				rows[i].Text += ","
			}
			half := (r.PercentHigh - r.PercentLow) / 2
			change, _, _ := natural(m.HigherIsBetter, r.Percent, 0, 0)
			digits := clamp(decimals(r.PercentLow, r.PercentHigh), 0, 3)
			rows[i].Text += fmt.Sprintf(" %s %s %% ±%s", clean(m.Name), signed(change, digits), fixed(half, digits))
			rows[i].HalfWidth = math.Max(rows[i].HalfWidth, half)
		}
	}
	var known []Live
	for _, row := range rows {
		if !missing[row.Condition] {
			row.Text += " after " + Counted(comparedBlocks(g), unitOf(g))
			known = append(known, row)
		}
	}
	return known
}
