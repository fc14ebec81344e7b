package predict

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tare/model/quota"
	"tare/report"
)

// Answer is the sentence that the reader came for.
func (r Result) Answer() string {
	var told []string
	for _, s := range r.Services {
		text := fmt.Sprintf("%s takes %.3g %% of a CPU, %.3g us a request", s.title(), 100*s.Load, s.Demand.Value)
		if found := s.said(); found != "" {
			text += "; " + found
		}
		told = append(told, text)
	}
	return strings.Join(told, ". ") + "."
}

// said is a service's answer: the smallest quota where one was sought, else how
// the model did.
func (s Service) said() string {
	for _, m := range s.Smallest {
		if m.Saving {
			continue
		}
		if m.None != nil {
			return m.None.Error()
		}
		return fmt.Sprintf("a quota of %s each %s is predicted to keep its p99 at %s or less", m.Quota, m.Period, micros(m.Prediction.P99.High))
	}
	kept, of := s.Tally()
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d p99 away from the cliff are predicted within %.0f %% or %d us", kept, of, 100*Relative, Absolute.Microseconds())
}

// title is a service with how its requests come.
func (s Service) title() string {
	name, _, _ := strings.Cut(s.Name, "[")
	if a := s.Arrival; a.Rate > 0 {
		spaced := "evenly"
		if a.Poisson {
			spaced = "Poisson"
		}
		return fmt.Sprintf("%s, open loop of %g/s (%s)", name, a.Rate, spaced)
	}
	if n := s.Arrival.Connections; n > 1 {
		return fmt.Sprintf("%s, closed loop of %d connections", name, n)
	}
	return name + ", closed loop"
}

// Parts are the tables and pictures of a prediction, for a study's page.
func (r Result) Parts() []report.Part {
	var all []report.Part
	for _, s := range r.Services {
		if len(s.Rows) > 0 {
			all = append(all, s.table(), s.chart())
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
		Title: s.title() + ": predicted",
		Note: fmt.Sprintf("Predicted from the condition without a quota alone: %s us of CPU time a request, %.3g %% of a CPU, p99 %s. Below a predicted figure stand the least and the greatest of several simulations, with other phases of the timers and at the ends of the demand's interval. "+
			"Latency in microseconds; stalled: of a million requests; short: periods in which the quota ran out, in percent. Right: within %.0f %% or %d us of the measured p99; within %.0f %% of the demand nothing is promised, for there the least change of either decides. "+
			"Not in the model: collections of garbage and other work that comes in runs, and what else takes the CPU.",
			report.Said(s.Demand, 1), 100*s.Load, micros(s.Free.Value), 100*Relative, Absolute.Microseconds(), 100*Cliff),
		Columns: []report.Column{{Head: "quota/period"}, {Head: "p99 predicted", Number: true}},
	}
	found := slices.ContainsFunc(s.Rows, func(r Row) bool { return r.Found })
	if found {
		t.Columns = append(t.Columns, report.Column{Head: "measured", Number: true}, report.Column{Head: "off by", Number: true}, report.Column{Head: ""})
	}
	for _, head := range []string{"p99.9", "mean", "stalled", "short, %"} {
		t.Columns = append(t.Columns, report.Column{Head: head + " predicted", Number: true, Optional: true})
		if found {
			t.Columns = append(t.Columns, report.Column{Head: "measured", Number: true, Optional: true})
		}
	}
	for _, row := range s.Rows {
		cells := []report.Cell{{Text: label(row.Bandwidth)}, figure(row.P99.Predicted)}
		if row.Predicted.Overloaded {
			cells[1].Detail += ", growing"
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

// verdict is a row's word.
func (r Row) verdict() report.Cell {
	switch {
	case !r.P99.Known():
		return report.Absent()
	case r.InCliff:
		return report.Cell{Text: "cliff", Tone: report.Faint}
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
		return report.Cell{Text: fmt.Sprintf("%+.0f %%", 100*e)}
	}
	return report.Absent()
}

// chart is the p99 against the quota: lines as predicted, points as measured.
func (s Service) chart() report.Chart {
	c := report.Chart{
		Title: s.title() + ": p99 against the quota, predicted and measured",
		Note:  "Unbroken: predicted from the condition without a quota, with the range of the simulations. Broken: measured, with its interval. The upright band is where the quota is about the demand.",
		X:     report.Axis{Label: "quota, of one CPU", Unit: "%", Log: true},
		Y:     report.Axis{Label: "p99", Unit: "ms", Log: true},
		Marks: []report.Mark{{X: 100 * s.Load, Low: 100 * s.Load * (1 - Cliff), High: 100 * s.Load * (1 + Cliff), Label: "demand"}},
	}
	const perMilli = 1e-3
	for _, period := range s.Periods() {
		predicted := report.Series{Name: "each " + short(period), Group: short(period)}
		measured := report.Series{Name: "each " + short(period) + ", measured", Group: short(period), Dashed: true}
		for _, row := range s.Sweep(period) {
			x := 100 * float64(row.Bandwidth.Quota) / float64(period)
			f := row.P99.Predicted
			predicted.Points = append(predicted.Points, report.Point{X: x, Y: f.Value * perMilli, Low: f.Low * perMilli, High: f.High * perMilli})
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

// edges is where the cliff is.
func (s Service) edges() (report.Table, bool) {
	t := report.Table{
		Title:   s.title() + ": where the tail is gone",
		Note:    fmt.Sprintf("The first quota of the sweep whose p99 is within %.0f %% of that without one. Right: within one step of the sweep.", 100*Flat),
		Columns: []report.Column{{Head: "period"}, {Head: "predicted", Number: true}, {Head: "measured", Number: true}, {Head: ""}},
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
		Title:   fmt.Sprintf("%s: the smallest quota for a p99 of %s", s.title(), short(p99)),
		Note:    "Predicted, in steps of a hundredth of a CPU: the first at which every simulation keeps it. Saved up: with unused quota kept for later, as much as the kernel allows, which is the quota again (cpu.max.burst, cpu.cfs_burst_us).",
		Columns: []report.Column{{Head: "period"}, {Head: "quota", Number: true}, {Head: "of a CPU", Number: true}, {Head: "p99, us", Number: true}, {Head: "saved up"}},
	}
	for _, m := range s.Smallest {
		saved := "no"
		if m.Saving {
			saved = "yes"
		}
		if m.None != nil {
			t.Rows = append(t.Rows, []report.Cell{{Text: short(m.Period)}, {Text: "none", Detail: m.None.Error(), Tone: report.Bad}, report.Absent(), report.Absent(), {Text: saved}})
			continue
		}
		t.Rows = append(t.Rows, []report.Cell{{Text: short(m.Period)}, {Text: short(m.Quota)}, {Text: fmt.Sprintf("%.3g %%", 100*float64(m.Quota)/float64(m.Period))}, figure(m.Prediction.P99), {Text: saved}})
	}
	return t, len(t.Rows) > 0
}

// label writes a bandwidth as conditions of the study are labelled.
func label(b quota.Bandwidth) string {
	if b.Quota == 0 {
		return "no quota"
	}
	text := short(b.Quota) + "/" + short(b.Period)
	if b.Burst > 0 {
		text += " +" + short(b.Burst)
	}
	return text
}

// short writes a duration as people write quotas: "1.5ms".
func short(d time.Duration) string { return d.String() }

// micros writes microseconds in a sentence.
func micros(v float64) string {
	return time.Duration(v * float64(time.Microsecond)).Round(time.Microsecond).String()
}
