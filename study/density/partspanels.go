package density

import (
	"fmt"
	"math"
	"slices"

	"tare/report"
	"tare/stats"
)

// panels are S3's four: throughput, latency, latency on a logarithmic axis, and
// percentiles, each by the number of neighbours.
func (r reading) panels(base arm) []report.Part {
	arms := slices.Concat([]arm{base}, r.others(base))
	if base = r.lead(base); !arms[0].measured() {
		arms = arms[1:]
	}
	falls, rises := r.cliffMarks(arms, r.throughputCliff, "throughput falls"), r.cliffMarks(arms, r.tailCliff, "p99 rises")
	x := r.neighbours(arms)
	const brackets = "In brackets is the memory asked for over the box's."

	throughput := report.Chart{Title: r.panel("Throughput", base), Note: brackets + " Upright lines are where throughput begins to fall, with their intervals.", X: x, Y: report.Axis{Label: "transactions", Unit: "per second"}, Marks: falls}
	linear := report.Chart{Title: r.panel("Latency", base), Note: brackets + " The greatest and the mean, each the geometric mean of the sweeps' own.", X: x, Y: report.Axis{Label: "latency", Unit: "ms"}, Marks: rises}
	log := linear
	log.Title, log.Y.Log = r.panel("Latency, on a logarithmic axis", base), true
	log.Note = brackets + " As above, and the least."
	quantiles := report.Chart{Title: r.panel("Percentiles of latency", base), Note: brackets + " Of all sweeps' requests merged; where a run has several policies, of the first: the p99 of all is below.", X: x, Y: report.Axis{Label: "latency", Unit: "ms", Log: true}, Marks: r.cliffMarks(arms[:1], r.tailCliff, "p99 rises")}
	tails := report.Chart{Title: r.panel("The p99 by policy", base), Note: brackets, X: x, Y: report.Axis{Label: "p99", Unit: "ms", Log: true}, Marks: rises}
	for _, a := range arms {
		throughput.Series = append(throughput.Series, series(a, a.policy, "", 1, func(n int) stats.Estimate { return r.throughput(a, n) }))
		greatest := series(a, a.policy+", greatest", a.policy, perMilli, func(n int) stats.Estimate { return r.moment(a, n, open, greatestOf) })
		greatest.Dashed = true
		mean := series(a, a.policy+", mean", a.policy, perMilli, func(n int) stats.Estimate { return r.moment(a, n, open, meanOf) })
		linear.Series = append(linear.Series, greatest, mean)
		log.Series = append(log.Series, greatest, mean)
		tails.Series = append(tails.Series, series(a, a.policy, "", perMilli, func(n int) stats.Estimate { return r.quantile(a, n, open, 0.99) }))
	}
	log.Series = append(log.Series, series(base, base.policy+", least", "least", perMilli, func(n int) stats.Estimate { return r.moment(base, n, open, leastOf) }))
	for _, p := range slices.Backward(percentiles) {
		quantiles.Series = append(quantiles.Series, series(base, p.name, "", perMilli, func(n int) stats.Estimate { return r.quantile(base, n, open, p.q) }))
	}
	parts := []report.Part{throughput, linear, log, quantiles}
	if len(arms) > 1 {
		parts = append(parts, tails)
	}
	return parts
}

// panel titles a chart, with its group and order where the run has several.
func (r reading) panel(text string, base arm) string {
	if len(r.bases()) > 1 {
		text += ": " + base.group + ", " + base.order
	}
	return text
}

// series is a line of an arm. Points from where a sweep ended on are of fewer sweeps, and
// hollow.
func series(a arm, name, group string, scale float64, of func(n int) stats.Estimate) report.Series {
	s := report.Series{Name: name, Group: group}
	last := a.last()
	for _, n := range a.numbers {
		e := of(n)
		p := report.Point{X: float64(n), Y: e.Value * scale, Past: n > last}
		if e.Known() {
			p.Low, p.High = e.Interval.Low*scale, e.Interval.High*scale
		}
		s.Points = append(s.Points, p)
	}
	return s
}

// cliffMarks are upright lines where cliffs are.
func (r reading) cliffMarks(arms []arm, of func(arm) cliff, what string) []report.Mark {
	var marks []report.Mark
	for _, a := range arms {
		c := of(a)
		if !c.found() {
			continue
		}
		m := report.Mark{X: c.At.Value, Label: fmt.Sprintf("%s at %.2f times", what, c.overcommit.Value), Group: a.policy}
		if len(arms) > 1 {
			m.Label = a.policy + ": " + m.Label
		}
		if c.At.Known() {
			m.Low, m.High = c.At.Interval.Low, c.At.Interval.High
		}
		marks = append(marks, m)
	}
	return marks
}

// neighbours is the horizontal axis, labelled by the number and by the memory that as
// many ask for.
func (r reading) neighbours(arms []arm) report.Axis {
	axis := report.Axis{Label: "idle neighbours"}
	of := arms[0]
	for _, a := range arms {
		if a.greatest() > of.greatest() {
			of = a
		}
	}
	const labels = 5
	for i := range labels {
		at := float64(of.first()) + float64(i)/(labels-1)*float64(of.greatest()-of.first())
		nearest := of.first()
		for _, n := range of.numbers {
			if math.Abs(float64(n)-at) < math.Abs(float64(nearest)-at) {
				nearest = n
			}
		}
		if !slices.Contains(axis.Ticks, float64(nearest)) {
			axis.Ticks = append(axis.Ticks, float64(nearest))
			axis.Labels = append(axis.Labels, fmt.Sprintf("%d (%.1f)", nearest, r.overcommit(of, nearest).Value))
		}
	}
	return axis
}
