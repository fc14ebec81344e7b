package platforms

import (
	"fmt"
	"math"
	"strings"

	"tare/model/size"
	"tare/record"
	"tare/report"
)

// causesPart is the figures of the probe, beside the cost.
func (r reading) causesPart() []report.Part {
	t := report.Table{
		Title:   "Scheduling, throttling and interrupts, with a probe on",
		Columns: []report.Column{{Head: "program"}, {Head: "platform"}, {Head: "times bare metal", Number: true}},
		Note:    "These trials are separate: the probe's own cost is in these figures, and in none of the tables above.",
	}
	var meanings []string
	for _, f := range figures {
		t.Columns = append(t.Columns, report.Column{Head: f.head, Number: true, Optional: f.optional})
		name := strings.TrimSuffix(strings.SplitN(f.head, ",", 2)[0], "/s")
		meanings = append(meanings, strings.ToUpper(name[:1])+name[1:]+": "+f.doc+".")
	}
	t.Note += " " + strings.Join(meanings, " ")
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

// correlationPart correlates the probe's figures with the cost, over all watched conditions.
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
			points = append(points, size.Point{
				Workload: s.workload, CPUs: s.size, HostCPUs: int(number(c, factorHost)), Tasks: 1,
				Log: math.Log(cost.Value), SE: math.Max(se, 1e-6), N: n,
			})
			for i, f := range figures {
				values[i] = append(values[i], r.watchedFigure(c, f.of).Value)
			}
		}
	}
	const least = 5 // below it a rank correlation has few possible values
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
		Title:  "Rank correlation with the cost",
		Note:   "Partial: with the share of the host held constant. A correlation is no proof of a cause.",
		Method: fmt.Sprintf("Over the %d conditions that were watched.", len(points)),
		Columns: []report.Column{
			{Head: "figure"}, {Head: "correlation", Number: true}, {Head: "partial correlation", Number: true},
		},
	}
	for _, c := range found {
		t.Rows = append(
			t.Rows,
			[]report.Cell{{Text: c.Name}, report.Estimated(c.Rank, 1), report.Estimated(c.Given, 1)},
		)
	}
	return []report.Part{t}
}

// explainedPart is how much of the time that vanilla loses is CPU time.
func (r reading) explainedPart() []report.Part {
	t := report.Table{
		Title: "Additional time of a vanilla container over the same one pinned",
		Note: "CPU time: what cold caches after migrations and the accounting cost. " +
			"The rest was spent waiting, for quota or for a CPU.",
		Columns: []report.Column{
			{Head: "program"}, {Head: "additional time, s", Number: true}, {Head: "of it CPU time, s", Number: true},
			{Head: "of it CPU time, %", Number: true}, {Head: "additional migrations", Number: true, Optional: true},
		},
	}
	for _, name := range r.names(ofCauses) {
		for _, e := range r.explain(name) {
			t.Rows = append(t.Rows, []report.Cell{
				{Text: name + " " + sizeOf(e.spot)}, report.Estimated(e.lost, 1), report.Estimated(e.worked, 1),
				report.Estimated(e.part, 100), report.Estimated(e.moves, 1),
			})
		}
	}
	return report.Filled(t)
}

// leftOut is what the other sizes predict of one, and whether the interval holds it.
func leftOut(l size.LeftOut) (predicted, covered report.Cell) {
	if l.Why != nil {
		return report.Absent(), report.Absent()
	}
	predicted = report.Estimated(size.Ratio(l.Predicted), 1)
	covered = report.Cell{Text: "no"}
	if l.Inside {
		covered.Text = "yes"
	}
	return predicted, covered
}

// watchedWeight is what the probe itself took of the watched programs' CPU time.
func (r reading) watchedWeight() []float64 {
	var all []float64
	for _, s := range r.of(ofCauses, "") {
		for _, c := range s.all {
			weight := func(_ record.Condition, cov map[string]float64) float64 { return share(cov, covWeight, covCPU) }
			for _, v := range r.perTrial(c, weight) {
				if v > 0 {
					all = append(all, 100*v)
				}
			}
		}
	}
	return all
}
