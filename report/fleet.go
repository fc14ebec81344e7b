package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tare/overhead"
)

// mostNodes is how many nodes a screen shows one by one.
const mostNodes = 20

// What rows of a forest are, besides nodes. [verdictShape] has their marks.
const (
	oddNode   overhead.Verdict = "odd"
	allNodes  overhead.Verdict = "pooled"
	otherNode overhead.Verdict = "predicted"
)

// FleetSheet is the page of runs of one design on several nodes: what a condition costs over all
// of them, on another node like them, and on each.
func FleetSheet(f overhead.Fleet) Sheet {
	s := Sheet{Answer: fleetAnswer(f), Runs: true}
	rows := leadingRows(f)
	var workloads []string
	for _, r := range rows {
		if name := clean(r.Workload); !slices.Contains(workloads, name) {
			workloads = append(workloads, name)
		}
	}
	s.Title = "tare show: " + strings.Join(workloads, ", ") + " over " + Counted(len(f.Nodes), "node")
	if len(rows) > 1 {
		s.Together = "Each interval holds by itself. What differs, explains or is odd is adjusted for all rows (Holm)."
	}
	if n := len(f.Nodes); n > 0 {
		s.Facts = append(s.Facts, fmt.Sprintf("nodes: %d, %s to %s", n, clean(f.Nodes[0].Name), clean(f.Nodes[n-1].Name)))
	}
	for _, text := range firstLines(f.LeftOut) {
		s.Banners = append(s.Banners, "left out: "+text)
	}
	for _, of := range byMetric(rows) {
		var nodes Part = nodeTables(f, of)
		if len(f.Nodes) > mostNodes {
			nodes = Long{nodes}
		}
		t := fleetTable(f, of)
		head := Chapter{Title: t.Title}
		t.Title = ""
		s.Parts = append(s.Parts, head, t, nodes)
	}
	others := slices.DeleteFunc(slices.Clone(f.Rows), func(r overhead.FleetRow) bool { return isLeading(r, rows) })
	if len(others) > 0 {
		s.Parts = append(s.Parts, Long{Chapter{Title: "Other metrics"}})
	}
	for _, of := range byMetric(others) {
		s.Parts = append(s.Parts, Long{fleetTable(f, of)})
	}
	if len(f.Warnings) > 0 {
		s.Parts = append(s.Parts, warnings(firstLines(f.Warnings)))
	}
	s.Foot = []Part{theNodes(f), fleetGuide()}
	return s
}

// firstLines are no more texts than a screen has room for, and how many are left.
func firstLines(texts []string) []string {
	if len(texts) <= mostLines {
		return texts
	}
	return append(slices.Clone(texts[:mostLines]), fmt.Sprintf("and %d more", len(texts)-mostLines))
}

// leadingRows are the rows that carry a run's verdict, or all where none does.
func leadingRows(f overhead.Fleet) []overhead.FleetRow {
	rows := slices.DeleteFunc(slices.Clone(f.Rows), func(r overhead.FleetRow) bool { return !r.Primary })
	if len(rows) == 0 {
		return f.Rows
	}
	return rows
}

func isLeading(r overhead.FleetRow, leading []overhead.FleetRow) bool {
	return slices.ContainsFunc(leading, func(l overhead.FleetRow) bool {
		return l.Condition == r.Condition && l.Metric == r.Metric
	})
}

// byMetric gives the rows of each metric of each workload, the worst first.
func byMetric(rows []overhead.FleetRow) (all [][]overhead.FleetRow) {
	type key struct{ workload, metric string }
	at := map[key]int{}
	for _, r := range rows {
		k := key{r.Workload, r.Metric}
		i, known := at[k]
		if !known {
			i = len(all)
			at[k] = i
			all = append(all, nil)
		}
		all[i] = append(all[i], r)
	}
	for _, of := range all {
		slices.SortStableFunc(of, func(a, b overhead.FleetRow) int { return worseFirst(a.Percent, b.Percent) })
	}
	return all
}

// overheadRow is what is shown of a row as of any other.
func overheadRow(r overhead.FleetRow) overhead.Row {
	return overhead.Row{Condition: r.Condition, Label: r.Label, Platform: r.Platform, Value: r.Value,
		Percent: r.Percent, PercentLow: r.PercentLow, PercentHigh: r.PercentHigh, Ratio: r.Effect}
}

func fleetMetric(r overhead.FleetRow) string { return clean(r.Workload) + " " + clean(r.Metric) }

// fleetAnswer is the sentence that stands first: the condition that is worst over all nodes, and
// the nodes that are odd.
func fleetAnswer(f overhead.Fleet) string {
	rows := slices.DeleteFunc(slices.Clone(leadingRows(f)), func(r overhead.FleetRow) bool {
		return !bounded(r.Percent, r.PercentLow, r.PercentHigh)
	})
	slices.SortStableFunc(rows, func(a, b overhead.FleetRow) int { return worseFirst(a.Percent, b.Percent) })
	nodes := Counted(len(f.Nodes), "node")
	if len(rows) == 0 {
		why := "no metric is in all runs"
		for _, r := range leadingRows(f) {
			if len(r.Model.Warnings) > 0 {
				why = r.Model.Warnings[0]
				break
			}
		}
		return "No effect over " + nodes + " is known: " + clean(why) + "."
	}
	var worse, better []overhead.FleetRow
	for _, r := range rows {
		switch {
		case r.PercentLow > 0:
			worse = append(worse, r)
		case r.PercentHigh < 0:
			better = append(better, r)
		}
	}
	var text string
	switch {
	case len(worse) > 0:
		text = fleetClause(worse[0], 1) + more(len(worse)-1, pluralOf(len(worse)-1, "comparison")+" worse too")
	case len(better) > 0:
		text = fleetClause(better[len(better)-1], -1) + more(len(better)-1, pluralOf(len(better)-1, "comparison")+" better too")
	default:
		text = "Over " + nodes + " nothing is worse or better than its baseline"
	}
	if odd := oddNodes(f); len(odd) > 0 {
		text += "; " + Listed(odd) + verb(len(odd), " is odd", " are odd")
	}
	return text + "."
}

// fleetClause writes "docker is 14.9 % worse than bare on redis get over 12 nodes (10.2 to 19.4),
// and 3 to 26 % worse on another node".
func fleetClause(r overhead.FleetRow, sign float64) string {
	v, low, high, direction := r.Percent, r.PercentLow, r.PercentHigh, "worse"
	if sign < 0 {
		v, low, high, direction = -v, -high, -low, "better"
	}
	text := fmt.Sprintf("%s is %s %% %s than %s on %s over %s (%s)", label(overheadRow(r)), percentText(v, low, high), direction,
		clean(r.Against), fleetMetric(r), Counted(len(r.Nodes), "node"), plainSpan(low, high))
	if bounded(r.New, r.NewLow, r.NewHigh) {
		text += ", and " + worseText(r.NewLow, r.NewHigh) + " on another node"
	}
	return text
}

// oddNodes are the names of the nodes that are odd in what carries a verdict.
func oddNodes(f overhead.Fleet) (odd []string) {
	for _, r := range leadingRows(f) {
		for _, n := range r.Nodes {
			if name := clean(f.Nodes[n.Node].Name); n.Odd && !slices.Contains(odd, name) {
				odd = append(odd, name)
			}
		}
	}
	if len(odd) > named+1 {
		odd = append(odd[:named], fmt.Sprintf("%d more", len(odd)-named))
	}
	return odd
}

// fleetTable is the table of a metric over all nodes, a row a condition.
func fleetTable(f overhead.Fleet, rows []overhead.FleetRow) Table {
	m := overhead.MetricReport{Unit: rows[0].Unit, HigherIsBetter: rows[0].HigherIsBetter}
	levels := false
	for _, r := range rows {
		m.Rows = append(m.Rows, overheadRow(r))
		levels = levels || present(r.Value)
	}
	col := newColumn(m)
	t := Table{
		Title: fleetMetric(rows[0]) + ", change against " + clean(rows[0].Against) + ", " + direction(m),
		Columns: []Column{
			{Head: "condition"}, {Head: "nodes", Number: true}, {Head: "change, %", Number: true},
			{Head: levelText(f.Level), Number: true}, {Head: "another node", Number: true}, {Head: "nodes differ"},
		},
	}
	if levels {
		t.Columns = slices.Insert(t.Columns, 2,
			Column{Head: unitHead(col.unit), Number: true}, Column{Head: "baseline", Number: true})
	}
	var notes []string
	for _, r := range rows {
		name := label(overheadRow(r))
		cells := []Cell{{Text: name}, {Text: fmt.Sprint(len(r.Nodes))}}
		if levels {
			cells = append(cells, Cell{Text: col.level(r.Value)}, Cell{Text: col.level(r.BaseValue)})
		}
		var figure, span, another string
		if finite(r.Percent) {
			figure, span = col.percent(r.Percent, r.PercentLow, r.PercentHigh)
		}
		if bounded(r.New, r.NewLow, r.NewHigh) {
			_, low, high := natural(r.HigherIsBetter, r.New, r.NewLow, r.NewHigh)
			another = spanText(low, high)
		}
		differ := Cell{Text: "not shown", Tone: Faint}
		switch {
		case r.Differs:
			differ = Cell{Text: "yes", Tone: Unsure}
		case !r.Model.Mean.Known():
			differ.Text = noFigure
		}
		t.Rows = append(t.Rows, append(cells, Cell{Text: figure}, Cell{Text: span}, Cell{Text: another}, differ))
		for _, text := range f.Sentences(r) {
			notes = append(notes, name+": "+clean(text))
		}
	}
	t.Note = inCommon(notes)
	if levels {
		t.Note += "\n\nA percentile is that of the histograms of all nodes merged, in which each request counts once."
	}
	return t
}

// nodeTables are the effects on each node, with a plot on a page: a table a condition.
func nodeTables(f overhead.Fleet, rows []overhead.FleetRow) metricTables {
	var p metricTables
	for _, r := range rows {
		p.metrics = append(p.metrics, nodeTable(f, r))
	}
	return p
}

func nodeTable(f overhead.Fleet, of overhead.FleetRow) metricTable {
	t := metricTable{
		name: label(overheadRow(of)), smallest: f.SmallestEffect, primary: true,
		report: overhead.MetricReport{HigherIsBetter: of.HigherIsBetter},
	}
	t.Title = t.name + " by node"
	t.Columns = []Column{
		{Head: "node"}, {Head: "standard errors away", Number: true}, {Head: "change, %", Number: true},
		{Head: levelText(f.Level), Number: true}, {Head: "remark"},
	}
	nodes := slices.Clone(of.Nodes)
	slices.SortStableFunc(nodes, func(a, b overhead.NodeEffect) int { return worseFirst(a.Percent, b.Percent) })
	var away []string
	add := func(r overhead.Row, residual string) {
		t.report.Rows, away = append(t.report.Rows, r), append(away, residual)
	}
	for _, n := range nodes {
		r := overhead.Row{Label: f.Nodes[n.Node].Name, Ratio: n.Effect,
			Percent: n.Percent, PercentLow: n.PercentLow, PercentHigh: n.PercentHigh}
		if n.Odd {
			r.Verdict = oddNode
		}
		residual := ""
		if finite(n.Residual) {
			residual = fixed(math.Abs(n.Residual), 1)
		}
		add(r, residual)
	}
	if finite(of.Percent) {
		r := overheadRow(of)
		r.Label, r.Value, r.Verdict = "all nodes", overhead.Row{}.Value, allNodes
		add(r, "")
	}
	if bounded(of.New, of.NewLow, of.NewHigh) {
		add(overhead.Row{Label: "another node", Verdict: otherNode,
			Percent: of.New, PercentLow: of.NewLow, PercentHigh: of.NewHigh}, "")
	}
	col := newColumn(t.report)
	for i, r := range t.report.Rows {
		figure, span := col.percent(r.Percent, r.PercentLow, r.PercentHigh)
		remark := Cell{Text: string(r.Verdict)}
		switch {
		case r.Verdict == oddNode:
			remark.Tone = Unsure
		case r.Verdict == allNodes && of.Quantile != 0:
			remark.Text = "merged"
		}
		t.Rows = append(t.Rows, []Cell{{Text: label(r)}, {Text: away[i]}, {Text: figure}, {Text: span}, remark})
	}
	return t
}

// theNodes lists the nodes, for a page.
func theNodes(f overhead.Fleet) Table {
	t := Table{Title: "Nodes", Columns: []Column{
		{Head: "node"}, {Head: "run"}, {Head: "kernel"}, {Head: "CPU"}, {Head: "CPUs", Number: true},
	}}
	for _, n := range f.Nodes {
		t.Rows = append(t.Rows, []Cell{
			{Text: n.Name}, {Text: n.Run}, {Text: n.Host.Kernel},
			{Text: n.Host.CPUModel}, {Text: fmt.Sprint(n.Host.CPUs)},
		})
	}
	return t
}

// fleetGuide says how to read the page.
func fleetGuide() Part {
	return Prose{"How to read this", "Each node gives an effect with an interval over its own blocks. " +
		"Nodes are taken as a sample of all that there could be: a random-effects model pools their effects. " +
		"Its variance between nodes is the REML estimate. The interval of the mean is that of Hartung and Knapp.\n\n" +
		"Another node: the interval in which the true effect of another node like these lies.\n\n" +
		"Standard errors away: how far a node lies from the mean of all others, in standard errors. " +
		"A node is odd where chance gives no node of any row such a distance, at 5 %.\n\n" +
		"docs/statistics.md has the formulas, and how often the intervals contain the truth."}
}
