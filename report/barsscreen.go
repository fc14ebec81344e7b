package report

import (
	"math"
	"strings"
)

// lying are blocks of one to seven eighths of a letter, from the left.
var lying = []rune("▏▎▍▌▋▊▉")

// stroke draws a length in letters, to an eighth; what is above zero is never
// drawn as nothing.
func stroke(length float64) string {
	if !(length > 0) || math.IsInf(length, 0) {
		return ""
	}
	n := max(1, int(math.Round(length*8)))
	text := strings.Repeat("█", n/8)
	if rest := n % 8; rest > 0 {
		text += string(lying[rest-1])
	}
	return text
}

// bars writes one bar as a list of its segments, several as a table with a
// column each: in both a segment's stroke stands beside its figure.
func (s *screen) bars(b Bars) {
	names, faintNames := segmentNames(b)
	if len(names) == 0 {
		s.paragraph(faint, "Nothing to show.")
		return
	}
	if len(b.Rows) == 1 {
		s.oneBar(b, names, faintNames)
		return
	}
	common := commonDecimals(b)
	unit := clean(b.Unit)
	t := Table{Columns: []Column{{Head: unit}}}
	for _, row := range b.Rows {
		t.Columns = append(t.Columns, Column{Head: clean(row.Label), Number: true})
	}
	widest, half := 0.0, 0.0
	for _, name := range names {
		label := name
		if faintNames[name] {
			label = "(" + name + ")"
		}
		row := []Cell{{Text: label}}
		for _, bar := range b.Rows {
			cell := Cell{}
			for _, seg := range bar.Segments {
				if segmentName(seg) != name {
					continue
				}
				cell.Text, _ = seg.written(common)
				widest = max(widest, seg.length())
				if ranged(seg.Value, seg.Low, seg.High) {
					half = max(half, seg.Value-seg.Low, seg.High-seg.Value)
				}
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	cols := sheetColumns(t)
	if len(b.Rows) > len(names) && !s.holds(cols) {
		s.manyBars(b, names, faintNames, common)
	} else {
		s.strokes(cols, b, names, widest)
		s.columnTable(cols, stretch{rows: len(t.Rows)})
	}
	if half > 0 {
		s.paragraph(faint, strings.TrimSpace("Intervals reach at most "+fixed(half, min(decimals(0, 2*half), 3))+" "+unit)+" to either side; the report has each.")
	}
}

// holds tells whether a table fits whose words are not cut.
func (s *screen) holds(cols []sheetColumn) bool {
	width := -gap
	for _, c := range cols {
		widest := longestWord(c.heads[0])
		for _, text := range c.texts {
			widest = max(widest, columns(text))
		}
		width += widest + gap
	}
	return width <= s.width
}

// manyBars writes more bars than fit side by side one below the other, with a
// column for each segment.
func (s *screen) manyBars(b Bars, names []string, faintNames map[string]bool, common int) {
	t := Table{Columns: []Column{{Head: clean(b.Unit)}}}
	for _, name := range names {
		label := name
		if faintNames[name] {
			label = "(" + name + ")"
		}
		t.Columns = append(t.Columns, Column{Head: label, Number: true})
	}
	for _, bar := range b.Rows {
		row := make([]Cell, len(names)+1)
		row[0].Text = clean(bar.Label)
		for i, name := range names {
			row[i+1] = Absent()
			for _, seg := range bar.Segments {
				if segmentName(seg) == name {
					row[i+1] = Cell{}
					row[i+1].Text, _ = seg.written(common)
				}
			}
		}
		t.Rows = append(t.Rows, row)
	}
	s.rowTable(t)
}

// strokes puts strokes behind the figures where there is room for them.
func (s *screen) strokes(cols []sheetColumn, b Bars, names []string, widest float64) {
	if len(cols) == 0 || widest == 0 {
		return
	}
	label := cols[0].natural(true)
	share := (s.width-label)/(len(cols)-1) - gap // of a column
	figures := 0
	for _, c := range cols[1:] {
		if longestWord(c.heads[0]) > share {
			return
		}
		for _, text := range c.texts {
			figures = max(figures, columns(text))
		}
	}
	const least, most = 4, 14
	each := min(share-figures-1, most)
	if each < least {
		return
	}
	for k, bar := range b.Rows {
		col := &cols[k+1]
		for i, name := range names {
			length := 0.0
			for _, seg := range bar.Segments {
				if segmentName(seg) == name {
					length = seg.length()
				}
			}
			col.texts[i] = right(col.texts[i], figures) + " " + left(stroke(length/widest*float64(each)), each)
		}
		col.number, col.verbatim = false, true
	}
}

// oneBar is a list: segment, figure, interval, stroke.
func (s *screen) oneBar(b Bars, names []string, faintNames map[string]bool) {
	common := commonDecimals(b)
	bar := b.Rows[0]
	t := Table{Columns: []Column{{Head: clean(bar.Label)}, {Head: clean(b.Unit), Number: true}}}
	longest := 0.0
	var lengths []float64
	for _, name := range names {
		for _, seg := range bar.Segments {
			if segmentName(seg) != name {
				continue
			}
			figure, span := seg.written(common)
			label := name
			if faintNames[name] {
				label = "(" + name + ")"
			}
			t.Rows = append(t.Rows, []Cell{{Text: label}, {Text: figure, Detail: span}})
			lengths = append(lengths, seg.length())
			longest = max(longest, seg.length())
		}
	}
	room := s.width - s.total(sheetColumns(t), false) - gap
	const least, most = 6, 40
	if room >= least && longest > 0 {
		t.Columns = append(t.Columns, Column{})
		for i := range t.Rows {
			t.Rows[i] = append(t.Rows[i], Cell{Text: stroke(lengths[i] / longest * float64(min(room, most)))})
		}
	}
	s.rowTable(t)
}
