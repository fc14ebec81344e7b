package keyvalue

import (
	"fmt"
	"math"
	"slices"

	"tare/model/request"
	"tare/report"
	"tare/stats"
)

// modelled is the cost of a place as a model has it.
type modelled struct {
	spot  spot
	cells []cell // one for each of the model's
	asked []request.Cell
	// holds is the simplest form by which every cell was predicted from the others;
	// empty where none did.
	holds request.Form
	tests map[request.Form][]request.Prediction
	// shown is holds, or the form that predicted most.
	shown  request.Form
	fitted *request.Model // of the shown form, on all cells
}

// model fits and tests the cost of a place over the reference cells. ok is false
// where there are too few cells, and where nothing pairs the run's repetitions: a
// model's intervals, and those of what it is tested on, are over blocks.
func (r reading) model(s spot) (m modelled, ok bool) {
	m.spot = s
	if r.Run.Plan.Unpaired() {
		return m, false
	}
	for _, c := range r.reference() {
		p, ok := c.at(s)
		if !ok {
			continue
		}
		base, with := r.times(c, c.base), r.times(c, p)
		if len(base) == 0 || len(with) == 0 {
			continue
		}
		m.cells = append(m.cells, c)
		m.asked = append(m.asked, request.Cell{
			Name: c.name(), Pipeline: float64(c.pipeline), Bytes: c.bytes(), Base: base, With: with,
		})
	}
	m.holds, m.tests = request.Simplest(m.asked, r.Report.SmallestEffect, r.Report.Level, r.Run.Seed)
	if len(m.tests) == 0 {
		return m, false
	}
	for _, form := range request.Forms {
		if m.tests[form] != nil && (m.shown == "" || m.better(form, m.shown, r.Report.SmallestEffect)) {
			m.shown = form
		}
	}
	if m.holds != "" {
		m.shown = m.holds
	}
	fitted, err := request.Fit(m.shown, m.asked, r.Report.Level, r.Run.Seed)
	if err != nil {
		return m, false
	}
	m.fitted = fitted
	return m, true
}

// bytes are those that the values of a request, or of its answer, hold.
func (c cell) bytes() float64 { return float64(c.payload * values(c.command)) }

// better is whether a form predicted more cells than another, or as many and failed on
// fewer.
func (m modelled) better(form, than request.Form, smallest float64) bool {
	if a, b := m.held(form, smallest), m.held(than, smallest); a != b {
		return a > b
	}
	return m.missed(form, smallest) < m.missed(than, smallest)
}

// held is how many cells a form predicted from the others.
func (m modelled) held(form request.Form, smallest float64) (n int) {
	for _, p := range m.tests[form] {
		if p.Held(smallest) {
			n++
		}
	}
	return n
}

// missed is how many a form certainly failed to predict.
func (m modelled) missed(form request.Form, smallest float64) (n int) {
	for _, p := range m.tests[form] {
		if p.Missed(smallest) {
			n++
		}
	}
	return n
}

// models are those of all places that have one.
func (r reading) models() []modelled {
	var all []modelled
	for _, s := range spots(r.reference()) {
		if m, ok := r.model(s); ok {
			all = append(all, m)
		}
	}
	return all
}

// costParts are a plot of losses by rate, and tables of the models: the time added to a
// request, and how well each model predicts cells that it was not fitted on.
func (r reading) costParts() (plot, tables []report.Part) {
	if r.Run.Plan.Unpaired() && len(spots(r.reference())) > 0 {
		return nil, []report.Part{r.unpairedPart()}
	}
	r = r.together(r.lossesRead())
	all := r.models()
	if len(all) == 0 {
		return nil, nil
	}
	smallest := r.Report.SmallestEffect
	t := report.Table{
		Title: "Time added to a request, as a model, µs",
		Note:  "The requests of a pipeline share the time per batch. One cost, the same for every request, is S5's idea.",
		Method: fmt.Sprintf("Each cell is predicted by a fit on the other cells. "+
			"Predicted: the cells whose time of a request lies within %g %% of the prediction, interval included. "+
			"The form shown is the simplest that predicts all cells, or the one that predicts most. "+
			"Here and below, intervals hold for all cells and places together (Bonferroni).", 100*smallest),
		Columns: []report.Column{
			{Head: "place"}, {Head: "per request", Number: true}, {Head: "per batch", Number: true},
			{Head: "per kilobyte", Number: true, Optional: true}, {Head: "cells predicted", Number: true},
			{Head: "by one cost", Number: true, Optional: true}, {Head: "form"},
		},
	}
	for _, m := range all {
		part := func(e stats.Estimate, scale float64, has bool) report.Cell {
			if !has {
				return report.Absent()
			}
			return effect(e, scale)
		}
		of := func(form request.Form) report.Cell {
			if m.tests[form] == nil {
				return report.Absent()
			}
			return report.Cell{Text: fmt.Sprintf("%d of %d", m.held(form, smallest), len(m.tests[form]))}
		}
		t.Rows = append(t.Rows, []report.Cell{
			{Text: named(m.spot, r.memory)},
			part(m.fitted.Request, 1, true),
			part(m.fitted.Batch, 1, m.shown != request.Fixed),
			part(m.fitted.Byte, 1000, m.shown == request.Sized),
			of(m.shown),
			of(request.Fixed),
			{Text: m.word(smallest)},
		})
	}
	tables = append(tables, t)
	for _, m := range r.exhibits(all) {
		tables = append(tables, r.predictedTable(m))
	}
	return report.Filled(r.chart(all)), append(tables, r.ratesTable(all)...)
}

// unpairedPart shows the time added by a place where the run's repetitions are not paired:
// differences of two samples, and nothing that requires blocks.
func (r reading) unpairedPart() report.Table {
	t := report.Table{
		Title: "Time added to a request by place, µs",
		Note: "The repetitions are not paired. So no model of the cost is fitted or tested, and storage and network are not separated. " +
			"If repetitions were measured together, import them with --paired.",
		Method:  "Difference from bare metal, of two samples.",
		Columns: []report.Column{{Head: "request"}},
	}
	reference := r.reference()
	all := spots(reference)
	t.Columns = append(t.Columns, r.columns(all)...)
	for _, c := range reference {
		row := []report.Cell{{Text: c.name()}}
		for _, s := range all {
			if p, ok := c.at(s); ok {
				row = append(row, effect(r.cost(c, p), 1))
			} else {
				row = append(row, report.Absent())
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// word names the form of the cost that predicts every cell.
func (m modelled) word(smallest float64) string {
	switch m.holds {
	case request.Fixed:
		return "one cost"
	case request.Shared:
		return "shared by a pipeline"
	case request.Sized:
		return "shared, and of bytes"
	}
	if m.missed(m.shown, smallest) > 0 {
		return "none predicts all"
	}
	return "undecided"
}

// exhibits are the places whose predictions are shown cell by cell: the first on
// the host's network, and the first on another, of an engine.
func (r reading) exhibits(all []modelled) []modelled {
	var shown []modelled
	for _, bridged := range []bool{false, true} {
		at := slices.IndexFunc(all, func(m modelled) bool { return m.spot.bridged() == bridged })
		if at >= 0 {
			shown = append(shown, all[at])
		}
	}
	return shown
}

// predictedTable compares predictions with measurements.
func (r reading) predictedTable(m modelled) report.Table {
	t := report.Table{
		Title: "Predicted and measured: " + named(m.spot, r.memory),
		Note:  fmt.Sprintf("A prediction holds where the interval of its error lies within %g %%.", 100*r.Report.SmallestEffect),
		Method: fmt.Sprintf("Each cell is predicted by %s, fitted on the other cells. "+
			"Error: the predicted time of a request against the measured time.", m.shown),
		Columns: []report.Column{
			{Head: "request"}, {Head: "bare, 1000/s", Number: true, Optional: true},
			{Head: "predicted, µs", Number: true, Optional: true}, {Head: "measured, µs", Number: true, Optional: true},
			{Head: "predicted loss, %", Number: true}, {Head: "measured loss, %", Number: true},
			{Head: "error, %", Number: true}, {Head: "verdict"},
		},
	}
	for i, p := range m.tests[m.shown] {
		verdict := report.Cell{Text: "undecided", Tone: report.Faint}
		switch {
		case p.Why != "":
			verdict.Text = "not predicted"
		case p.Held(r.Report.SmallestEffect):
			verdict = report.Cell{Text: "holds", Tone: report.Good}
		case p.Missed(r.Report.SmallestEffect):
			verdict = report.Cell{Text: "missed", Tone: report.Bad}
		}
		t.Rows = append(t.Rows, []report.Cell{
			{Text: m.cells[i].name()}, report.Estimated(r.rate(m.cells[i], m.cells[i].base), 1e-3),
			report.Estimated(p.Cost, 1), report.Estimated(p.Found, 1),
			report.Estimated(p.Loss, 100), report.Estimated(p.Lost, 100), report.Estimated(excess(p.Off), 100), verdict,
		})
	}
	return t
}

// excess is a ratio less one.
func excess(e stats.Estimate) stats.Estimate {
	e.Value, e.Interval.Low, e.Interval.High = e.Value-1, e.Interval.Low-1, e.Interval.High-1
	return e
}

// roundRates are those for which a loss is predicted, in requests per second.
var roundRates = []float64{10_000, 30_000, 100_000, 300_000, 1_000_000}

// ratesTable predicts the loss of small values at rates that were not measured: without a
// pipeline at low rates, and with the longest at high ones.
func (r reading) ratesTable(all []modelled) []report.Part {
	reference := r.reference()
	var rates []float64
	for _, c := range reference {
		rates = append(rates, r.rate(c, c.base).Value)
	}
	pipelines := levels(reference, func(c cell) int64 { return c.pipeline })
	if len(rates) == 0 {
		return nil
	}
	longest := float64(pipelines[len(pipelines)-1])
	t := report.Table{
		Title: "Predicted loss at other rates, %",
		Note: fmt.Sprintf("Measured rates were %s to %s requests/s. Outside that range the model is not tested.",
			thousands(slices.Min(rates)), thousands(slices.Max(rates))),
		Method: fmt.Sprintf("The models above, fitted to all cells, for small values. "+
			"The pipeline is 1 up to 100,000 requests/s, and %g above.", longest),
		Columns: []report.Column{{Head: "place"}},
	}
	for _, rate := range roundRates {
		t.Columns = append(t.Columns, report.Column{Head: thousands(rate) + "/s", Number: true})
	}
	for _, m := range all {
		if m.holds == "" {
			continue // a model that does not hold predicts nothing
		}
		row := []report.Cell{{Text: named(m.spot, r.memory)}}
		for _, rate := range roundRates {
			pipeline := 1.
			if rate > 100_000 {
				pipeline = longest
			}
			row = append(row, report.Estimated(m.fitted.Loss(rate, pipeline, 3), 100))
		}
		t.Rows = append(t.Rows, row)
	}
	return report.Filled(t)
}

// thousands writes a rate briefly: "533k", "1M".
func thousands(rate float64) string {
	if rate >= 999_500 {
		return fmt.Sprintf("%sM", report.Rounded(rate/1e6, 3))
	}
	return fmt.Sprintf("%sk", report.Rounded(rate/1000, 3))
}

// chart shows measured losses by rate, and each cell's prediction from the other cells.
func (r reading) chart(all []modelled) report.Chart {
	c := report.Chart{
		Title: "Loss of throughput, by bare metal's rate",
		Note:  "Solid: measured. Dashed: the model's prediction of each cell, fitted on the other cells.",
		X:     report.Axis{Label: "bare metal's rate", Unit: "requests/s", Log: true},
		Y:     report.Axis{Label: "loss", Unit: "%"},
	}
	for _, m := range r.exhibits(all) {
		name := named(m.spot, r.memory)
		measured := report.Series{Name: name, Group: name}
		predicted := report.Series{Name: name + ", predicted", Group: name, Dashed: true}
		for i, p := range m.tests[m.shown] {
			x := r.rate(m.cells[i], m.cells[i].base).Value
			if math.IsNaN(p.Lost.Value) {
				continue
			}
			point := report.Point{X: x, Y: 100 * p.Lost.Value}
			if p.Lost.Known() {
				point.Low, point.High = 100*p.Lost.Interval.Low, 100*p.Lost.Interval.High
			}
			measured.Points = append(measured.Points, point)
			if !math.IsNaN(p.Loss.Value) {
				predicted.Points = append(predicted.Points, report.Point{X: x, Y: 100 * p.Loss.Value})
			}
		}
		c.Series = append(c.Series, measured)
		if len(predicted.Points) > 0 {
			c.Series = append(c.Series, predicted)
		}
	}
	return c
}
