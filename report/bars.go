package report

import (
	"html/template"
	"math"
	"strings"
)

// A barsPage is Bars as the page shows it: a drawing a row, and one legend
// that holds the figures of all.
type barsPage struct {
	Rows   []barPage
	Foot   template.HTML
	Unit   string
	Head   []string // a bar each
	Legend []segmentPage
	Tiles  bool // as those of a [tablePage]
}

type barPage struct {
	Label   string
	Drawing template.HTML
}

// A segmentPage is one line of the legend.
type segmentPage struct {
	Sample template.HTML
	Name   string
	Faint  bool
	Cells  []cellPage
}

// segmentName is a segment's name; what has none is the rest.
func segmentName(s Segment) string { return orElse(clean(s.Name), "the rest") }

// segmentNames gives the names of all segments, in the order in which they
// first stand, those of the rest last.
func segmentNames(b Bars) (names []string, faint map[string]bool) {
	faint = map[string]bool{}
	seen := map[string]bool{}
	var rest []string
	for _, row := range b.Rows {
		for _, s := range row.Segments {
			name := segmentName(s)
			if seen[name] {
				continue
			}
			seen[name] = true
			if s.Faint {
				faint[name] = true
				rest = append(rest, name)
			} else {
				names = append(names, name)
			}
		}
	}
	return append(names, rest...), faint
}

// length is how long a segment is drawn.
func (s Segment) length() float64 {
	if finite(s.Value) && s.Value > 0 {
		return s.Value
	}
	return 0
}

func (b Bar) length() float64 {
	sum := 0.0
	for _, s := range b.Segments {
		sum += s.length()
	}
	return sum
}

// longest is the length that the drawing's width stands for. Shares are drawn
// against the whole, though they be less.
func (b Bars) longest() float64 {
	longest := 0.0
	if b.Unit == "%" {
		longest = 100
	}
	for _, row := range b.Rows {
		if n := row.length(); finite(n) {
			longest = max(longest, n)
		}
	}
	return longest
}

func newBarsPage(b Bars, colours *palette) *barsPage {
	names, faint := segmentNames(b)
	var coloured []string
	for _, n := range names {
		if !faint[n] {
			coloured = append(coloured, n)
		}
	}
	colours.assign(coloured)
	page := &barsPage{Unit: clean(b.Unit), Tiles: len(b.Rows) >= mostBeside}
	a := axis{0, b.longest()}
	for _, row := range b.Rows {
		page.Head = append(page.Head, clean(row.Label))
		page.Rows = append(page.Rows, barPage{clean(row.Label), barDrawing(row, a, page.Unit, colours)})
	}
	if a.high > 0 && finite(a.high) {
		s := &svg{}
		s.b.WriteString(`<svg class="foot" aria-hidden="true">`)
		for _, t := range linearTicks(a, 5) {
			s.text(tickClass(a.at(t.at)), a.at(t.at), 0, 0, 14, strings.TrimSpace(tidy(t.at, t.label)+" "+page.Unit))
		}
		page.Foot = s.html()
	}
	common := commonDecimals(b)
	for _, name := range names {
		line := segmentPage{Name: name, Faint: faint[name]}
		s := &svg{}
		s.b.WriteString(`<svg class="swatched" aria-hidden="true">`)
		s.fill(name, faint[name], 0, 100, colours)
		line.Sample = s.html()
		for _, row := range b.Rows {
			cell := segmentCell(row, name, common)
			cell.Head = clean(row.Label)
			line.Cells = append(line.Cells, cell)
		}
		page.Legend = append(page.Legend, line)
	}
	return page
}

// segmentCell is a row's figure for one segment; what it lacks is empty.
func segmentCell(row Bar, name string, common int) cellPage {
	for _, s := range row.Segments {
		if segmentName(s) == name {
			figure, span := s.written(common)
			return cellPage{Text: typeset(figure), Detail: typeset(span), Number: true}
		}
	}
	return cellPage{Number: true}
}

// commonDecimals gives the decimals that most figures of bars support.
func commonDecimals(b Bars) int {
	var all []int
	for _, row := range b.Rows {
		for _, s := range row.Segments {
			if ranged(s.Value, s.Low, s.High) {
				all = append(all, decimals(s.Low, s.High))
			} else if finite(s.Value) && s.Value != 0 {
				all = append(all, significant(s.Value))
			}
		}
	}
	return commonest(all)
}

// written is a segment's figure with its interval, in as many decimals as the
// others have, where its own interval allows.
func (s Segment) written(common int) (figure, span string) {
	switch size := math.Abs(s.Value); {
	case !finite(s.Value) || size >= 1e7 || size > 0 && size < 1e-4:
		return readingWithin(s.Value, s.Low, s.High)
	case !ranged(s.Value, s.Low, s.High):
		d := common
		if s.Value != 0 && size < math.Pow(10, float64(-common)) {
			d = significant(s.Value) // nothing that is there is rounded to nothing
		}
		return fixed(s.Value, d), ""
	}
	d := agree(decimals(s.Low, s.High), common, (s.High-s.Low)/2)
	return fixed(s.Value, d), fixed(s.Low, d) + " to " + fixed(s.High, d)
}

// fill draws a stretch in a name's colour and texture.
func (s *svg) fill(name string, faint bool, x, width float64, colours *palette) {
	if faint {
		s.rect("faint-part", x, 0, width, 100)
		return
	}
	s.open(colours.colour(name))
	s.rect("part-of", x, 0, width, 100)
	if t := colours.texture(name); t != "x0" {
		s.rect(t, x, 0, width, 100)
	}
	s.close()
}

func barDrawing(row Bar, a axis, unit string, colours *palette) template.HTML {
	var said []string
	for _, seg := range row.Segments {
		said = append(said, segmentName(seg)+" "+strings.TrimSpace(reading(seg.Value)+" "+unit))
	}
	s := newSVG("bar", clean(row.Label))
	s.desc(strings.Join(said, ", "))
	at := 0.0
	for i, seg := range row.Segments {
		width := seg.length()
		if width == 0 || !(a.high > 0) {
			continue
		}
		x := a.at(at)
		w := a.at(at+width) - x
		at += width
		s.b.WriteString(`<g class="told"><title>` + template.HTMLEscapeString(said[i]) + `</title>`)
		s.fill(segmentName(seg), seg.Faint, x, w, colours)
		const legible = 7 // percent of the width that a figure needs
		if w >= legible {
			name := segmentName(seg)
			class := "in-part"
			if seg.Faint {
				class = "in-part quiet-part"
			} else {
				s.open(colours.colour(name))
			}
			s.text(class, x+w/2, 50, 0, 4, barFigure(seg.Value))
			if !seg.Faint {
				s.close()
			}
		}
		s.b.WriteString("</g>")
	}
	return s.html()
}

// barFigure is short enough to stand within a bar.
func barFigure(v float64) string {
	if v >= 10 {
		return tidy(v, fixed(v, 0))
	}
	return tidy(v, fixed(v, min(1, significant(v))))
}
