package report

import (
	"math"

	"tare/stats"
)

// Heat is a matrix of ratios: a row a condition, a column a size, each field shaded by
// how far it lies from 1. The shade repeats what the figure says.
type Heat struct {
	Title, Note, Method string
	Corner              string // what the rows are
	Columns             []string
	Rows                []HeatRow
	// Band is the smallest effect: 0.02 leaves what lies within 2 % of 1 without a shade.
	Band float64
}

// HeatRow is one row of a Heat.
type HeatRow struct {
	Name   string
	Fields []HeatField // one for each column; what was not measured has no figure
}

// HeatField is one field; Faint marks what is not representative.
type HeatField struct {
	Ratio stats.Estimate
	Faint bool
}

func (p Heat) heading() string { return p.Title }

// A heatPage is a Heat as the page shows it.
type heatPage struct {
	Corner string
	Head   []string
	Rows   []heatRowPage
	Legend []heatLegend
	Data   dataTable
}

type heatRowPage struct {
	Name   string
	Fields []heatFieldPage
}

type heatFieldPage struct{ Text, Title, Class string }

type heatLegend struct {
	Class, Name string
}

// heatSteps are the shades, by the ratios from which they are.
var heatSteps = []struct {
	from        float64
	class, name string
}{
	{4, "h5", "4 times and more"}, {2, "h4", "2 to 4 times"}, {1.25, "h3", "1.25 to 2 times"}, {1.1, "h2", "1.1 to 1.25 times"}, {0, "h1", "up to 1.1 times"},
}

// heatClass is the shade of a ratio.
func heatClass(v, band float64) string {
	switch {
	case !finite(v) || v <= 0:
		return "h-none"
	case math.Abs(math.Log(v)) <= math.Log1p(band):
		return "h-even"
	case v < 1:
		return "h-less"
	}
	for _, s := range heatSteps {
		if v >= s.from {
			return s.class
		}
	}
	return "h1"
}

func newHeatPage(h Heat) *heatPage {
	page := &heatPage{Corner: clean(h.Corner), Head: cleaned(h.Columns)}
	used := map[string]bool{}
	page.Data = dataTable{
		Caption: clean(h.Title),
		Head:    append([]string{orElse(clean(h.Corner), "row")}, cleaned(h.Columns)...),
	}
	for _, row := range h.Rows {
		line := heatRowPage{Name: clean(row.Name)}
		data := []string{clean(row.Name)}
		for _, f := range fieldsOf(h, row) {
			cell := Estimated(f.Ratio, 1)
			class := heatClass(f.Ratio.Value, h.Band)
			used[class] = true
			text, said := typeset(cell.Text), typeset(Said(f.Ratio, 1))
			if f.Faint && class != "h-none" {
				class += " h-faint"
				used["h-faint"] = true
				text, said = "("+text+")", said+", not representative"
			}
			line.Fields = append(line.Fields, heatFieldPage{Text: text, Title: line.Name + ": " + said, Class: class})
			data = append(data, said)
		}
		page.Rows = append(page.Rows, line)
		page.Data.Rows = append(page.Data.Rows, data)
	}
	add := func(class, name string) {
		if used[class] {
			page.Legend = append(page.Legend, heatLegend{class, name})
		}
	}
	add("h-less", "less than 1")
	add("h-even", "as good as 1")
	for i := len(heatSteps) - 1; i >= 0; i-- {
		add(heatSteps[i].class, heatSteps[i].name)
	}
	add("h-faint", "in brackets: not representative")
	return page
}

// fieldsOf are a row's fields, as many as there are columns.
func fieldsOf(h Heat, row HeatRow) []HeatField {
	fields := make([]HeatField, len(h.Columns))
	for i := range fields {
		if fields[i].Ratio.Value = math.NaN(); i < len(row.Fields) {
			fields[i] = row.Fields[i]
		}
	}
	return fields
}

// table gives the figures of a Heat for a screen, which has no shades.
func (p Heat) table() Table {
	t := Table{Columns: []Column{{Head: p.Corner}}}
	for _, c := range p.Columns {
		t.Columns = append(t.Columns, Column{Head: c, Number: true})
	}
	for _, row := range p.Rows {
		cells := []Cell{{Text: row.Name}}
		for _, f := range fieldsOf(p, row) {
			cell := Estimated(f.Ratio, 1)
			cell.Detail = "" // the intervals stand in the list above, and on the page
			if f.Faint {
				cell.Tone = Faint
			}
			cells = append(cells, cell)
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}
