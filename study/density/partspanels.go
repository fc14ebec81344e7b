package density

import (
	"fmt"
	"math"
	"slices"

	"tare/report"
	"tare/stats"
)

// panels are throughput and percentiles of latency by number of neighbours: two of the four that
// S3 (published study of density) has. Where there are several policies, their p99s are a third.
func (r reading) panels(base arm) []report.Part {
	arms := r.drawn(base)
	lead := r.lead(base)
	x := r.neighbours(arms)
	throughput := report.Chart{
		Title: r.panel("Throughput", lead), X: x, Y: report.Axis{Label: "throughput", Unit: "requests/s"},
		Note:  r.shows(arms, "throughput", r.throughputCliff, fall),
		Marks: r.cliffMarks(arms, r.throughputCliff, "throughput falls"),
	}
	quantiles := report.Chart{
		Title: r.panel("Percentiles of latency", lead), X: x, Y: report.Axis{Label: "latency", Unit: "ms", Log: true},
		Method: "Percentiles are over the requests of all sweeps, merged.",
		Marks:  r.cliffMarks(arms[:1], r.tailCliff, "p99 rises"),
	}
	tails := report.Chart{
		Title: r.panel("p99 latency, by policy", lead), X: x, Y: report.Axis{Label: "p99", Unit: "ms", Log: true},
		Note:  r.shows(arms, "the p99", r.tailCliff, p99Rises),
		Marks: r.cliffMarks(arms, r.tailCliff, "p99 rises"),
	}
	for _, a := range arms {
		throughput.Series = append(
			throughput.Series,
			series(a, a.policy, "", 1, func(n int) stats.Estimate { return r.throughput(a, n) }),
		)
		tails.Series = append(
			tails.Series,
			series(a, a.policy, "", perMilli, func(n int) stats.Estimate { return r.quantile(a, n, open, 0.99) }),
		)
	}
	for _, p := range slices.Backward(percentiles) {
		quantiles.Series = append(
			quantiles.Series,
			series(lead, p.name, "", perMilli, func(n int) stats.Estimate { return r.quantile(lead, n, open, p.q) }),
		)
	}
	if len(arms) == 1 {
		quantiles.Note = r.shows(arms, "the p99", r.tailCliff, p99Rises)
		return []report.Part{throughput, quantiles}
	}
	quantiles.Note = "Percentiles are those of " + lead.policy + "."
	return []report.Part{throughput, quantiles, tails}
}

// latencyPanels are the other two of S3: mean and greatest latency, on both kinds of axis.
func (r reading) latencyPanels(base arm) []report.Part {
	arms, lead := r.drawn(base), r.lead(base)
	linear := report.Chart{
		Title: r.panel("Mean and greatest latency", lead), X: r.neighbours(arms), Y: report.Axis{Label: "latency", Unit: "ms"},
		Method: "Mean, greatest and least latency are geometric means over sweeps.",
		Marks:  r.cliffMarks(arms, r.tailCliff, "p99 rises"),
	}
	log := linear
	log.Title, log.Y.Log = r.panel("Mean and greatest latency, on a logarithmic axis", lead), true
	for _, a := range arms {
		greatest := series(
			a,
			a.policy+", greatest",
			a.policy,
			perMilli,
			func(n int) stats.Estimate { return r.moment(a, n, open, greatestOf) },
		)
		greatest.Dashed = true
		mean := series(
			a,
			a.policy+", mean",
			a.policy,
			perMilli,
			func(n int) stats.Estimate { return r.moment(a, n, open, meanOf) },
		)
		linear.Series = append(linear.Series, greatest, mean)
		log.Series = append(log.Series, greatest, mean)
	}
	log.Series = append(
		log.Series,
		series(
			lead,
			lead.policy+", least",
			"least",
			perMilli,
			func(n int) stats.Estimate { return r.moment(lead, n, open, leastOf) },
		),
	)
	return []report.Part{report.Long{Part: linear}, log} // a screen shows the same figures for both
}

// drawn are the arms of a chart: the base, if it was measured, and what is compared with it.
func (r reading) drawn(base arm) []arm {
	if !base.measured() {
		return r.others(base)
	}
	return slices.Concat([]arm{base}, r.others(base))
}

// shows says in a sentence what the first line of a chart does. Upright lines mark the others.
func (r reading) shows(arms []arm, figure string, of func(arm) cliff, change func(cliff) string) string {
	lead, on := arms[0], ""
	if len(arms) > 1 {
		on = " on " + lead.policy
	}
	text := "No place was found where " + figure + " changes"
	switch c := of(lead); {
	case c.found():
		text = fmt.Sprintf("Beyond %s, %s", r.upTo(lead, c), change(c))
	case len(lead.numbers) < 2, len(lead.sweeps) < fewestForInterval, r.worse(lead) != "":
		text = "Where " + figure + " begins to change is unknown"
	}
	return text + on + "."
}

func p99Rises(c cliff) string { return "the p99 " + rise(c) }

// panel titles a chart, with its group and order where the run has several.
func (r reading) panel(text string, base arm) string {
	if len(r.bases()) > 1 {
		text += ": " + base.group + ", " + base.order
	}
	return text
}

// series is a line of an arm. Points beyond the end of a sweep rest on fewer sweeps, and are
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

// cliffMarks are upright lines where figures begin to change.
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

// neighbours is the horizontal axis, labelled by the number and by the memory demand there.
func (r reading) neighbours(arms []arm) report.Axis {
	axis := report.Axis{Label: "idle neighbours (times the memory)"}
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
