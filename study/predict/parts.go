package predict

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tare/model/quota"
	"tare/report"
	"tare/study/kit"
)

// Answer is the headline.
func (r Result) Answer() string {
	var sentences []string
	for _, s := range r.Services {
		subject := s.title()
		if prediction := s.prediction(); prediction != "" {
			sentences = append(sentences, prediction)
			subject = "it"
		}
		sentences = append(sentences, fmt.Sprintf("Without a quota, %s uses %s %% of a CPU, %s µs per request.",
			subject, report.Rounded(100*s.Load, 3), report.Rounded(s.Demand.Value, 3)))
	}
	return strings.Join(sentences, " ")
}

// prediction is a service's answer: the smallest quota where a p99 is wanted, else how
// accurate the model was.
func (s Service) prediction() string {
	for _, m := range s.Smallest {
		if m.Saving {
			continue
		}
		if m.None != nil {
			return "For " + s.title() + ", " + m.None.Error() + "."
		}
		return fmt.Sprintf("A quota of %s per %s should keep the p99 of %s at %s or less.", m.Quota, m.Period, s.title(), micros(m.Prediction.P99.High))
	}
	kept, of := s.Tally()
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %d of %d p99s away from the demand were predicted to within %.0f %% or %d µs.",
		s.title(), kept, of, 100*Relative, Absolute.Microseconds())
}

// title is a service with how its requests arrive.
func (s Service) title() string {
	name, _, _ := strings.Cut(s.Name, "[")
	if a := s.Arrival; a.Rate > 0 {
		arrivals := "evenly spaced"
		if a.Poisson {
			arrivals = "Poisson arrivals"
		}
		return fmt.Sprintf("%s (open loop, %g requests/s, %s)", name, a.Rate, arrivals)
	}
	if n := s.Arrival.Connections; n > 1 {
		return fmt.Sprintf("%s (closed loop, %d connections)", name, n)
	}
	return name + " (closed loop)"
}

// Parts are the charts and tables of a prediction, for a study's page.
func (r Result) Parts() []report.Part {
	var all []report.Part
	for _, s := range r.Services {
		if len(s.Rows) > 0 {
			all = append(all, s.chart(), s.table())
		}
		if t, ok := s.edges(); ok {
			all = append(all, t)
		}
		if t, ok := s.wanted(r.Options.Wanted); ok {
			all = append(all, t)
		}
	}
	return all
}

// table sets the predicted figures beside the measured ones.
func (s Service) table() report.Table {
	t := report.Table{
		Title: s.title() + ": predicted latency by CPU quota",
		Note: fmt.Sprintf("Ranges beside predictions are those of several simulations. Right: within %.0f %% or %d µs of the measured p99. "+
			"Near demand: the quota is within %.0f %% of the demand, where no prediction is promised.",
			100*Relative, Absolute.Microseconds(), 100*Cliff),
		Method: fmt.Sprintf("Predicted from the condition without a quota alone: %s µs of CPU time per request, %s %% of a CPU, p99 %s. "+
			"The simulations differ by the phases of the timers, and cover the demand's interval. "+
			"Stalled: requests above the stall threshold. Throttled: periods in which the quota ran out. "+
			"The model knows no garbage collection, no other work that comes in runs, and no other programs on the CPU.",
			report.Said(s.Demand, 1), report.Rounded(100*s.Load, 3), micros(s.Free.Value)),
		Columns: []report.Column{{Head: "quota/period"}, {Head: "predicted p99, µs", Number: true}},
	}
	found := slices.ContainsFunc(s.Rows, func(r Row) bool { return r.Found })
	if found {
		t.Columns = append(t.Columns, report.Column{Head: "measured p99, µs", Number: true},
			report.Column{Head: "error, %", Number: true}, report.Column{Head: "prediction"})
	}
	for _, head := range []string{"p99.9, µs", "mean, µs", "stalled, per million", "periods throttled, %"} {
		t.Columns = append(t.Columns, report.Column{Head: "predicted " + head, Number: true, Optional: true})
		if found {
			t.Columns = append(t.Columns, report.Column{Head: "measured " + head, Number: true, Optional: true})
		}
	}
	for _, row := range s.Rows {
		cells := []report.Cell{{Text: label(row.Bandwidth)}, figure(row.P99.Predicted)}
		if row.Predicted.Overloaded {
			cells[1].Detail += ", overloaded"
		}
		if found {
			cells = append(cells, report.Estimated(row.P99.Measured, 1), off(row.P99), row.verdict())
		}
		for _, c := range []Comparison{row.P999, row.Mean, row.Stalled, row.Short} {
			cells = append(cells, figure(c.Predicted))
			if found {
				cells = append(cells, report.Estimated(c.Measured, 1))
			}
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// verdict says whether a row's prediction was right.
func (r Row) verdict() report.Cell {
	switch {
	case !r.P99.Known():
		return report.Absent()
	case r.InCliff:
		return report.Cell{Text: "near demand", Tone: report.Faint}
	case r.P99.Kept():
		return report.Cell{Text: "right", Tone: report.Good}
	}
	return report.Cell{Text: "wrong", Tone: report.Bad}
}

func figure(f quota.Figure) report.Cell {
	c := report.Measured(f.Value)
	if f.Low != f.High {
		c.Detail = report.Measured(f.Low).Text + " to " + report.Measured(f.High).Text
	}
	return c
}

func off(c Comparison) report.Cell {
	if e := c.Error(); !math.IsNaN(e) && !math.IsInf(e, 0) {
		return report.Cell{Text: fmt.Sprintf("%+.0f", 100*e)}
	}
	return report.Absent()
}

// chart is the p99 by quota: solid as predicted, dashed as measured.
func (s Service) chart() report.Chart {
	c := report.Chart{
		Title: s.title() + ": p99 by CPU quota, predicted and measured",
		Note:  "Solid: predicted, with the range of the simulations. Dashed: measured, with its interval. The vertical band is where the quota is near the demand.",
		X:     report.Axis{Label: "quota, of one CPU", Unit: "%", Log: true},
		Y:     report.Axis{Label: "p99", Unit: "ms", Log: true},
		Marks: []report.Mark{{
			X: 100 * s.Load, Low: 100 * s.Load * (1 - Cliff), High: 100 * s.Load * (1 + Cliff), Label: "demand",
		}},
	}
	const perMilli = 1e-3
	for _, period := range s.Periods() {
		predicted := report.Series{Name: "period " + short(period), Group: short(period)}
		measured := report.Series{Name: "period " + short(period) + ", measured", Group: short(period), Dashed: true}
		for _, row := range s.Sweep(period) {
			x := 100 * float64(row.Bandwidth.Quota) / float64(period)
			f := row.P99.Predicted
			predicted.Points = append(predicted.Points, report.Point{
				X: x, Y: f.Value * perMilli, Low: f.Low * perMilli, High: f.High * perMilli,
			})
			if m := row.P99.Measured; row.P99.Known() {
				p := report.Point{X: x, Y: m.Value * perMilli}
				if m.Known() {
					p.Low, p.High = m.Interval.Low*perMilli, m.Interval.High*perMilli
				}
				measured.Points = append(measured.Points, p)
			}
		}
		for _, series := range []report.Series{predicted, measured} {
			if len(series.Points) > 0 {
				c.Series = append(c.Series, series)
			}
		}
	}
	return c
}

// edges is where the tail ends, by period.
func (s Service) edges() (report.Table, bool) {
	t := report.Table{
		Title: s.title() + ": smallest quota without a long tail",
		Note: fmt.Sprintf("The smallest quota measured whose p99 is within %.0f %% of that without a quota. "+
			"Right: the prediction is at most one quota off.", 100*Flat),
		Columns: []report.Column{
			{Head: "period"}, {Head: "predicted", Number: true}, {Head: "measured", Number: true}, {Head: "prediction"},
		},
	}
	for _, period := range s.Periods() {
		e, ok := s.Edge(period)
		if !ok || len(e.Quotas) < 2 {
			continue
		}
		at := func(i int) report.Cell {
			if i == len(e.Quotas) {
				return report.Cell{Text: "above " + short(e.Quotas[i-1])}
			}
			return report.Cell{Text: short(e.Quotas[i])}
		}
		word := report.Cell{Text: "right", Tone: report.Good}
		if !e.Kept() {
			word = report.Cell{Text: "wrong", Tone: report.Bad}
		}
		t.Rows = append(t.Rows, []report.Cell{{Text: short(period)}, at(e.Predicted), at(e.Measured), word})
	}
	return t, len(t.Rows) > 0
}

// wanted are the smallest quotas for a p99.
func (s Service) wanted(p99 time.Duration) (report.Table, bool) {
	t := report.Table{
		Title:  fmt.Sprintf("%s: smallest quota for a p99 of %s", s.title(), short(p99)),
		Note:   "Burst: unused quota is saved up, at most as much as the quota (cpu.max.burst, cpu.cfs_burst_us).",
		Method: "Predicted in steps of a hundredth of a CPU: the first quota at which every simulation keeps the p99.",
		Columns: []report.Column{
			{Head: "period"}, {Head: "quota", Number: true}, {Head: "quota, % of a CPU", Number: true},
			{Head: "p99, µs", Number: true}, {Head: "burst"},
		},
	}
	for _, m := range s.Smallest {
		burst := "no"
		if m.Saving {
			burst = "yes"
		}
		if m.None != nil {
			t.Rows = append(t.Rows, []report.Cell{
				{Text: short(m.Period)}, {Text: "none", Detail: m.None.Error(), Tone: report.Bad},
				report.Absent(), report.Absent(), {Text: burst},
			})
			continue
		}
		t.Rows = append(t.Rows, []report.Cell{
			{Text: short(m.Period)},
			{Text: short(m.Quota)},
			{Text: report.Rounded(100*float64(m.Quota)/float64(m.Period), 3)},
			figure(m.Prediction.P99),
			{Text: burst},
		})
	}
	return t, len(t.Rows) > 0
}

// label writes a bandwidth as conditions of the study are labelled.
func label(b quota.Bandwidth) string {
	if b.Quota == 0 {
		return "no quota"
	}
	text := fmt.Sprintf("%v/%v", b.Quota, b.Period)
	if b.Burst > 0 {
		text += fmt.Sprintf(" +%v", b.Burst)
	}
	return text
}

// short writes a duration with all its digits: two quotas differ in what is written.
func short(d time.Duration) string { return kit.Exact(d) }

// micros writes microseconds in a sentence.
func micros(v float64) string {
	return kit.Exact(time.Duration(v * float64(time.Microsecond)).Round(time.Microsecond))
}
