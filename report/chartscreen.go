package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// eighths are blocks of one to eight eighths of a line.
var eighths = []rune("▁▂▃▄▅▆▇█")

// mostPlaces are as many places on the horizontal axis as a table of them has
// columns; lines with more are drawn, with their ends and extremes as figures.
const mostPlaces = 8

// chart writes a chart as a table of its points, or where they are many, of
// its lines' extremes, each line with its shape.
func (s *screen) chart(c Chart) {
	p := newPlot(c)
	var places []float64
	points := 0
	for _, line := range p.series {
		for _, at := range line.Points {
			if finite(at.X) {
				points++
				if !slices.Contains(places, at.X) && len(places) <= mostPlaces {
					places = append(places, at.X)
				}
			}
		}
	}
	if points == 0 {
		s.paragraph(faint, "No points.")
		return
	}
	if p.X.Tail {
		places = p.labelled() // the curves have as many as a drawing needs
	}
	slices.Sort(places)
	vertical, horizontal := withUnit(c.Y.Label, c.Y.Unit), withUnit(c.X.Label, c.X.Unit)
	if axes := strings.Trim(vertical+", by "+horizontal, " ,"); axes != "by" {
		s.paragraph(faint, axes)
	}
	past := false
	if len(places) <= mostPlaces {
		past = s.pointTable(p, places)
	} else {
		past = s.lineTable(p)
	}
	if past {
		s.paragraph(faint, "In brackets: not a steady state; it depends on how long it was watched.")
	}
	for _, m := range p.marks {
		text := orElse(clean(m.Label), "mark")
		at, span := readingWithin(m.X, m.Low, m.High)
		if !strings.Contains(text, at) {
			text += ", at " + at
		}
		if span != "" {
			text += " (" + span + ")"
		}
		s.paragraph(plain, text)
	}
}

// pointTable has a column a place.
func (s *screen) pointTable(p plot, places []float64) (past bool) {
	t := Table{Columns: []Column{{Head: ""}}}
	for _, x := range places {
		t.Columns = append(t.Columns, Column{Head: strings.Replace(p.x.label(x), minus, "-", 1), Number: true})
	}
	if len(places) > 1 {
		t.Columns = append(t.Columns, Column{Optional: true})
	}
	for _, line := range p.series {
		row := []Cell{{Text: line.name}}
		heights := make([]float64, len(places))
		for i, x := range places {
			heights[i] = math.NaN()
			cell := Cell{}
			for _, at := range line.Points {
				if at.X != x {
					continue
				}
				cell.Text, cell.Detail = readingWithin(at.Y, at.Low, at.High)
				if at.Past {
					cell.Tone, past = Faint, true
				}
				if y, ok := p.y.place(at.Y); ok {
					heights[i] = y
				}
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, append(row, Cell{Text: Sparkline(heights)}))
	}
	s.rowTable(t)
	return past
}

// lineTable has a row a line: where it begins and ends, its extremes, and its
// shape over the whole axis.
func (s *screen) lineTable(p plot) (past bool) {
	t := Table{
		Columns: []Column{
			{Head: ""},
			{Head: "first", Number: true},
			{Head: "last", Number: true},
			{Head: "least", Number: true},
			{Head: "most", Number: true},
		},
	}
	longest := 0
	for _, line := range p.series {
		longest = max(longest, min(columns(line.name), 24))
		if len(line.points) == 0 {
			t.Rows = append(t.Rows, []Cell{{Text: line.name}, {Text: "none"}})
			continue
		}
		tone := Plain
		if slices.ContainsFunc(line.points, func(at placedPoint) bool { return at.Past }) {
			tone, past = Faint, true
		}
		low, high := math.Inf(1), math.Inf(-1)
		for _, at := range line.points {
			low, high = min(low, at.Y), max(high, at.Y)
		}
		row := []Cell{{Text: line.name}}
		for _, v := range []float64{line.points[0].Y, line.points[len(line.points)-1].Y, low, high} {
			row = append(row, Cell{Text: reading(v), Tone: tone})
		}
		t.Rows = append(t.Rows, row)
	}
	room := s.width - longest - gap
	for _, c := range sheetColumns(t)[1:] {
		room -= c.natural(true) + gap
	}
	const least, most = 12, 60
	if room >= least {
		cells := min(room, most)
		from, to := p.extent()
		t.Columns = append(t.Columns, Column{Head: fmt.Sprintf("from %s to %s", reading(from.X), reading(to.X))})
		for i, line := range p.series {
			for len(t.Rows[i]) < len(t.Columns)-1 {
				t.Rows[i] = append(t.Rows[i], Cell{})
			}
			t.Rows[i] = append(t.Rows[i], Cell{Text: Sparkline(line.heights(axis{from.x, to.x}, cells))})
		}
	}
	s.rowTable(t)
	return past
}

// extent gives where the lines begin and end on the horizontal axis.
func (p plot) extent() (from, to placedPoint) {
	from.x, to.x = math.Inf(1), math.Inf(-1)
	for _, s := range p.series {
		for _, at := range s.points {
			if at.x < from.x {
				from = at
			}
			if at.x > to.x {
				to = at
			}
		}
	}
	return from, to
}

// heights gives the greatest height in each of n stretches of an axis.
func (s placed) heights(a axis, n int) []float64 {
	heights := make([]float64, n)
	for i := range heights {
		heights[i] = math.NaN()
	}
	for _, at := range s.points {
		i := clamp(int(a.at(at.x)/100*float64(n)), 0, n-1)
		if h := 100 - at.y; !(heights[i] >= h) {
			heights[i] = h
		}
	}
	return heights
}

// Sparkline draws heights from 0 to 100, a letter each; where there is none, a
// dot.
func Sparkline(heights []float64) string {
	var b strings.Builder
	for _, h := range heights {
		if math.IsNaN(h) {
			b.WriteRune('·')
			continue
		}
		b.WriteRune(eighths[clamp(int(h/100*8), 0, 7)])
	}
	return b.String()
}
