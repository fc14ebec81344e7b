package report

import (
	"slices"
	"strings"
	"unicode"

	"tare/terminal"
)

// A sheetColumn is one column of a table, its cells aligned among themselves.
type sheetColumn struct {
	head             string
	number, optional bool
	// verbatim text is padded already, and not wrapped.
	verbatim       bool
	texts, details []string
	styles         []terminal.Sequence
	width          int // as it is drawn
}

// sheetColumns lays the columns of a table out, each for itself.
func sheetColumns(t Table) []sheetColumn {
	cols := make([]sheetColumn, len(t.Columns))
	for i, c := range t.Columns {
		col := sheetColumn{head: clean(c.Head), number: c.Number, optional: c.Optional}
		cells := make([]Cell, len(t.Rows))
		for k, row := range t.Rows {
			if i < len(row) {
				cells[k] = row[i]
			}
			col.styles = append(col.styles, toneStyle(cells[k].Tone))
			col.texts = append(col.texts, clean(cells[k].Text))
			col.details = append(col.details, clean(cells[k].Detail))
		}
		if c.Number {
			col.texts = alignCells(cells)
		}
		cols[i] = col
	}
	return cols
}

// alignCells puts the decimal points of figures below one another; what marks
// a figure's tone (see cellText) stands around them.
func alignCells(cells []Cell) []string {
	figures, suffixes := make([]string, len(cells)), make([]string, len(cells))
	suffix := 0
	for i, c := range cells {
		figures[i] = clean(c.Text)
		if strings.IndexFunc(figures[i], unicode.IsDigit) < 0 {
			continue
		}
		suffixes[i] = map[Tone]string{Good: " ✓", Bad: " !", Faint: ")"}[c.Tone]
		suffix = max(suffix, columns(suffixes[i]))
	}
	aligned := alignPoints(figures)
	room := "" // for a bracket before the longest figure
	for i, text := range aligned {
		if suffixes[i] == ")" && !strings.HasPrefix(text, " ") {
			room = " "
		}
	}
	for i, text := range aligned {
		text = room + text
		if suffixes[i] == ")" {
			bare := strings.TrimLeft(text, " ")
			text = text[:len(text)-len(bare)-1] + "(" + bare
		}
		// The bracket comes right behind the figure, the padding behind it.
		bare := strings.TrimRight(text, " ")
		aligned[i] = left(bare+suffixes[i], columns(text)+suffix)
	}
	return aligned
}

// natural is the width that a column needs with its details beside or below.
func (c sheetColumn) natural(below bool) int {
	texts, details := 0, 0 // each the widest
	for i := range c.texts {
		texts, details = max(texts, columns(c.texts[i])), max(details, columns(c.details[i]))
	}
	width := texts + details
	switch {
	case below:
		width = max(texts, details)
	case details > 0 && c.number:
		width++
	case details > 0:
		width += 3 // a space and the brackets
	}
	return max(width, longestWord(c.head), 1)
}

// rowTable writes a table. Where it is too wide, optional columns go first,
// from the right; then details go below their figures, and text is wrapped;
// then details are written shorter, and the first column above the rest; and
// where nothing helps, rows become text.
func (s *screen) rowTable(t Table) {
	if len(t.Columns) == 0 || len(t.Rows) == 0 {
		s.paragraph(faint, "No rows.")
		return
	}
	s.columnTable(sheetColumns(t), len(t.Rows))
}

// columnTable writes rows of columns that have been laid out.
func (s *screen) columnTable(all []sheetColumn, rows int) {
	for _, below := range []bool{false, true} {
		for cols := bracketed(all, " to "); ; {
			if s.total(cols, below) <= s.width {
				s.drawTable(cols, rows, below)
				s.leftOut(all, cols)
				return
			}
			i := lastOptional(cols)
			if i < 0 {
				break
			}
			cols = slices.Delete(cols, i, i+1)
		}
	}
	defer func() { s.leftOut(all, slices.DeleteFunc(slices.Clone(all), isOptional)) }()
	wide := slices.DeleteFunc(slices.Clone(all), isOptional)
	for _, to := range []string{" to ", ".."} {
		if cols := bracketed(wide, to); s.shrink(cols, s.width) {
			s.drawTable(cols, rows, true)
			return
		}
	}
	const indent = 2
	if cols := bracketed(wide, "..")[1:]; len(cols) > 0 && s.shrink(cols, s.width-indent) {
		s.groupedTable(wide[0], cols, rows, indent)
		return
	}
	s.looseTable(wide, rows)
}

func isOptional(c sheetColumn) bool { return c.optional }

// bracketed puts brackets around the details of figures, and the word between
// the ends of an interval that there is room for.
func bracketed(cols []sheetColumn, to string) []sheetColumn {
	cols = slices.Clone(cols)
	for i := range cols {
		if !cols[i].number {
			continue
		}
		details := make([]string, len(cols[i].details))
		widest := 0
		for k, d := range cols[i].details {
			if d != "" {
				details[k] = "(" + strings.ReplaceAll(d, " to ", to) + ")"
			}
			widest = max(widest, columns(details[k]))
		}
		for k, d := range details {
			details[k] = right(d, widest)
		}
		cols[i].details = details
	}
	return cols
}

// groupedTable writes the first column above the rest, once for rows that share
// it.
func (s *screen) groupedTable(first sheetColumn, cols []sheetColumn, rows, indent int) {
	inner := &screen{text: s.text, width: s.width - indent, indent: s.indent + indent, color: s.color}
	inner.drawTable(cols, 0, true)
	for r := range rows {
		if r == 0 || first.texts[r] != first.texts[r-1] {
			name := strings.TrimSpace(first.texts[r])
			if d := first.details[r]; d != "" {
				name += " (" + d + ")"
			}
			s.paragraph(first.styles[r], name)
		}
		inner.tableRow(cols, r, true)
	}
}

func lastOptional(cols []sheetColumn) int {
	for i := len(cols) - 1; i > 0; i-- {
		if cols[i].optional {
			return i
		}
	}
	return -1
}

// total is the width of columns beside each other, which it also sets.
func (s *screen) total(cols []sheetColumn, below bool) int {
	sum := gap * (len(cols) - 1)
	for i := range cols {
		cols[i].width = cols[i].natural(below)
		sum += cols[i].width
	}
	return sum
}

// shrink narrows the columns of text until all fit, always the widest and of
// equal ones the rightmost, and tells whether they do.
func (s *screen) shrink(cols []sheetColumn, width int) bool {
	const least = 8
	for excess := s.total(cols, true) - width; excess > 0; excess-- {
		widest := -1
		for i, c := range cols {
			if !c.number && !c.verbatim && c.width > least && (widest < 0 || c.width >= cols[widest].width) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		cols[widest].width--
	}
	return true
}

// leftOut names the columns that had no room.
func (s *screen) leftOut(all, shown []sheetColumn) {
	var names []string
	for _, c := range all {
		if c.optional && c.head != "" && !slices.ContainsFunc(shown, func(o sheetColumn) bool { return o.head == c.head }) {
			names = append(names, c.head)
		}
	}
	if len(names) > 0 {
		s.paragraph(faint, "Not shown at this width: "+strings.Join(names, "; ")+".")
	}
}

func (s *screen) drawTable(cols []sheetColumn, rows int, below bool) {
	spare := s.width - gap*(len(cols)-1)
	for _, c := range cols {
		spare -= c.width
	}
	for i := len(cols) - 1; i >= 0; i-- { // headings that would else be broken
		if more := columns(cols[i].head) - cols[i].width; more > 0 && more <= spare {
			cols[i].width += more
			spare -= more
		}
	}
	heads := make([][]string, len(cols))
	height := 0
	for i, c := range cols {
		heads[i] = wrap(c.head, c.width)
		height = max(height, len(heads[i]))
	}
	for l := range height {
		s.row(cols, func(i int) (string, terminal.Sequence) {
			if skip := height - len(heads[i]); l >= skip {
				return heads[i][l-skip], faint
			}
			return "", plain
		})
	}
	for r := range rows {
		s.tableRow(cols, r, below)
	}
}

// tableRow writes one row, on as many lines as its cells need.
func (s *screen) tableRow(cols []sheetColumn, r int, below bool) {
	lines := make([][]string, len(cols))
	height := 1
	for i, c := range cols {
		switch text, detail := c.texts[r], c.details[r]; {
		case c.number && below:
			lines[i] = []string{text}
			if strings.TrimSpace(detail) != "" {
				lines[i] = append(lines[i], detail)
			}
		case c.number && columns(detail) > 0:
			lines[i] = []string{text + " " + detail}
		case c.number, c.verbatim:
			lines[i] = []string{text}
		default:
			if detail != "" {
				text += " (" + detail + ")"
			}
			lines[i] = wrap(text, c.width)
		}
		height = max(height, len(lines[i]))
	}
	for l := range height {
		s.row(cols, func(i int) (string, terminal.Sequence) {
			switch {
			case l >= len(lines[i]):
				return "", plain
			case l > 0 && cols[i].number:
				return lines[i][l], faint
			}
			return lines[i][l], cols[i].styles[r]
		})
	}
}

// row writes one line of columns.
func (s *screen) row(cols []sheetColumn, cell func(int) (string, terminal.Sequence)) {
	var line []piece
	for i, c := range cols {
		text, style := cell(i)
		padded := left(text, c.width)
		if c.number {
			padded = right(text, c.width)
		}
		// Only what is seen is coloured, so that the end of a line can be cut.
		bare := strings.TrimSpace(padded)
		before, after, _ := strings.Cut(padded, bare)
		if i > 0 {
			before = strings.Repeat(" ", gap) + before
		}
		line = append(line, piece{plain, before}, piece{style, bare}, piece{plain, after})
	}
	s.line(line...)
}

// looseTable writes rows as text, for what no columns hold.
func (s *screen) looseTable(cols []sheetColumn, rows int) {
	squeeze := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	for r := range rows {
		var parts []string
		for _, c := range cols[1:] {
			text := squeeze(c.texts[r])
			if text == "" {
				continue
			}
			if d := c.details[r]; d != "" {
				text += " (" + d + ")"
			}
			parts = append(parts, strings.TrimSpace(c.head+" "+text))
		}
		s.hang(plain, squeeze(cols[0].texts[r])+":", strings.Join(parts, "; "))
	}
}
