package platforms

import (
	"fmt"
	"math"
	"strings"

	"tare/model/size"
	"tare/record"
	"tare/report"
)

// causesPart is what was watched, beside what was lost.
func (r reading) causesPart() []report.Part {
	t := report.Table{
		Title:   "Where the time goes",
		Columns: []report.Column{{Head: "program"}, {Head: "where"}, {Head: "x bare", Number: true}},
	}
	var said []string
	for _, f := range figures {
		t.Columns = append(t.Columns, report.Column{Head: f.head, Number: true, Optional: f.head == figures[0].head})
		said = append(said, strings.TrimSuffix(strings.SplitN(f.head, ",", 2)[0], "/s")+": "+f.doc)
	}
	t.Note = "With the probe on, whose own cost is in all of these figures and in none of the tables above. " + strings.Join(said, "; ") + "."
	for _, s := range r.of(ofCauses, "") {
		for _, c := range s.all {
			row := []report.Cell{{Text: s.workload + " " + sizeOf(s)}, {Text: c.Label}, {Text: "1"}}
			if c.ID != s.base.ID {
				row[2] = report.Estimated(r.cost(s, c), 1)
			}
			for _, f := range figures {
				e := r.watchedFigure(c, f.of)
				cell := report.Estimated(e, f.scale)
				if e.Value == 0 && math.IsNaN(e.Interval.Low) {
					cell = report.Cell{Text: "0"}
				}
				row = append(row, cell)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return report.Filled(t)
}

// correlationPart says which figures go with the cost, over all watched conditions.
func (r reading) correlationPart() []report.Part {
	var points []size.Point
	values := make([][]float64, len(figures))
	for _, s := range r.of(ofCauses, "") {
		for _, c := range s.others() {
			cost := r.cost(s, c)
			se, n := r.logs(s, c)
			if !(cost.Value > 0) || n < 2 || !(se > 0) {
				continue
			}
			points = append(points, size.Point{Workload: s.workload, CPUs: s.size, HostCPUs: int(number(c, factorHost)), Tasks: 1, Log: math.Log(cost.Value), SE: math.Max(se, 1e-6), N: n})
			for i, f := range figures {
				values[i] = append(values[i], r.watchedFigure(c, f.of).Value)
			}
		}
	}
	const least = 5 // below which a rank correlation can take few values at all
	if len(points) < least {
		return nil
	}
	var covariates []size.Covariate
	for i, f := range figures {
		covariates = append(covariates, size.Covariate{Name: f.head, Values: values[i]})
	}
	found, err := size.Correlate(points, covariates, r.Report.Level)
	if err != nil {
		return nil
	}
	t := report.Table{
		Title:   "What goes with the cost",
		Note:    fmt.Sprintf("Rank correlation with the cost over %d watched conditions, and that which is left once their share of the host is taken into account. It shows what goes together, and no cause.", len(points)),
		Columns: []report.Column{{Head: "figure"}, {Head: "correlation", Number: true}, {Head: "at the same share", Number: true}},
	}
	for _, c := range found {
		t.Rows = append(t.Rows, []report.Cell{{Text: c.Name}, report.Estimated(c.Rank, 1), report.Estimated(c.Given, 1)})
	}
	return []report.Part{t}
}

// explainedPart is how much of what vanilla loses is CPU time.
func (r reading) explainedPart() []report.Part {
	t := report.Table{
		Title:   "What a vanilla container loses against the same one pinned",
		Note:    "Lost: of its time. In CPU time: the part of that in which it ran, which holds cold caches after a move and the accounting; the rest was waited for.",
		Columns: []report.Column{{Head: "program"}, {Head: "lost, s", Number: true}, {Head: "in CPU time, s", Number: true}, {Head: "that is, %", Number: true}, {Head: "moves more", Number: true, Optional: true}},
	}
	for _, name := range r.names(ofCauses) {
		for _, e := range r.explain(name) {
			t.Rows = append(t.Rows, []report.Cell{{Text: name + " " + sizeOf(e.spot)}, report.Estimated(e.lost, 1), report.Estimated(e.worked, 1), report.Estimated(e.part, 100), report.Estimated(e.moves, 1)})
		}
	}
	return report.Filled(t)
}

// leftOut is what the other sizes predict of one.
func leftOut(l size.LeftOut) (predicted, held report.Cell) {
	if l.Why != nil {
		return report.Absent(), report.Cell{Text: "not predicted", Tone: report.Faint}
	}
	predicted = report.Estimated(size.Ratio(l.Predicted), 1)
	held = report.Cell{Text: "no"}
	if l.Inside {
		held.Text = "yes"
	}
	return predicted, held
}

// watchedWeight is what the probe itself took of the watched programs' CPU time.
func (r reading) watchedWeight() []float64 {
	var all []float64
	for _, s := range r.of(ofCauses, "") {
		for _, c := range s.all {
			for _, v := range r.perTrial(c, func(_ record.Condition, cov map[string]float64) float64 { return share(cov, covWeight, covCPU) }) {
				if v > 0 {
					all = append(all, 100*v)
				}
			}
		}
	}
	return all
}
