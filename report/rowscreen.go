package report

import (
	"slices"
	"strings"
	"unicode"

	"tare/terminal"
)

// A sheetColumn is one column of a table, or of several whose columns stand in the same
// places. Its cells are aligned among those of their table.
type sheetColumn struct {
	heads                   []string // of each table
	first, number, optional bool
	// verbatim text is padded already, and not wrapped.
	verbatim       bool
	texts, details []string
	styles         []terminal.Sequence
	width          int // as it is drawn
}

// A stretch is one of the tables that share their columns: what stands above and below it,
// and how many rows it has.
type stretch struct {
	title, note string
	rows        int
}

// sheetColumns lays out the columns of tables that have as many.
func sheetColumns(tables ...Table) []sheetColumn {
	cols := make([]sheetColumn, len(tables[0].Columns))
	for i := range cols {
		col := &cols[i]
		col.first = i == 0
		for _, t := range tables {
			c := t.Columns[i]
			col.heads, col.number, col.optional = append(col.heads, clean(c.Head)), c.Number, c.Optional
			cells, texts := make([]Cell, len(t.Rows)), make([]string, len(t.Rows))
			for k, row := range t.Rows {
				if i < len(row) {
					cells[k] = row[i]
				}
				texts[k] = clean(cells[k].Text)
				col.styles = append(col.styles, toneStyle(cells[k].Tone))
				col.details = append(col.details, clean(cells[k].Detail))
			}
			if c.Number {
				texts = alignCells(cells)
			}
			col.texts = append(col.texts, texts...)
		}
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
	case below && c.number:
		width = max(texts, details)
	case below && details > 0:
		width = max(texts, details+2) // the brackets
	case details > 0 && c.number:
		width++
	case details > 0:
		width += 3 // a space and the brackets
	}
	for _, h := range c.heads {
		width = max(width, longestWord(h))
	}
	return max(width, 1)
}

// least is how narrow a column of text may become: no word of ordinary length is broken,
// nor a name that is no longer.
func (c sheetColumn) least() int {
	const letters, ordinary = 8, 14
	least := letters
	for _, text := range c.texts {
		width := longestWord(text)
		if c.first {
			width = columns(text)
		}
		least = max(least, min(width, ordinary))
	}
	return least
}

// rowTable writes a table without its title and note. Where it is too wide, optional columns
// go first, from the right; then details go below their figures, and text is wrapped;
// then details are written shorter, and the first column above the rest; and
// where nothing helps, rows become text.
func (s *screen) rowTable(t Table) {
	t.Title, t.Note = "", ""
	s.tables(t)
}

// tables writes tables with as many columns below one another, so that the eye finds each
// column in the same place.
func (s *screen) tables(tables ...Table) {
	rows := 0
	of := make([]stretch, len(tables))
	for i, t := range tables {
		of[i] = stretch{title: clean(t.Title), note: t.Note, rows: len(t.Rows)}
		rows += len(t.Rows)
	}
	if rows == 0 || len(tables[0].Columns) == 0 {
		s.paragraph(faint, "No rows.")
		return
	}
	s.columnTable(sheetColumns(tables...), of...)
}

// each calls draw for every stretch with its place and its rows, between its title and note.
func (s *screen) each(of []stretch, draw func(k, from, to int)) {
	from := 0
	for k, one := range of {
		if k > 0 {
			s.blank()
		}
		if one.title != "" {
			s.paragraph(bold, one.title)
		}
		draw(k, from, from+one.rows)
		from += one.rows
		s.notes(one.note)
	}
}

// notes writes the paragraphs of a note.
func (s *screen) notes(note string) {
	for _, text := range paragraphs(note) {
		s.paragraph(faint, text)
	}
}

// columnTable writes the rows of columns that have been laid out.
func (s *screen) columnTable(all []sheetColumn, of ...stretch) {
	for _, below := range []bool{false, true} {
		for cols := bracketed(all, " to "); ; {
			if s.total(cols, below) <= s.width {
				s.drawTable(cols, of, below)
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
			s.drawTable(cols, of, true)
			return
		}
	}
	const indent = 2
	if cols := bracketed(wide, "..")[1:]; len(cols) > 0 && s.shrink(cols, s.width-indent) {
		s.groupedTable(wide[0], cols, of, indent)
		return
	}
	s.looseTable(wide, of)
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
func (s *screen) groupedTable(first sheetColumn, cols []sheetColumn, of []stretch, indent int) {
	inner := &screen{text: s.text, width: s.width - indent, indent: s.indent + indent, color: s.color}
	inner.widen(cols)
	s.each(of, func(k, from, to int) {
		inner.head(cols, k)
		for r := from; r < to; r++ {
			if r == from || first.texts[r] != first.texts[r-1] {
				name := strings.TrimSpace(first.texts[r])
				if d := first.details[r]; d != "" {
					name += " (" + d + ")"
				}
				s.paragraph(first.styles[r], name)
			}
			inner.tableRow(cols, r, true)
		}
	})
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
	excess := s.total(cols, true) - width
	if excess <= 0 {
		return true
	}
	least := make([]int, len(cols))
	for i, c := range cols {
		least[i] = c.least()
	}
	for ; excess > 0; excess-- {
		widest := -1
		for i, c := range cols {
			if !c.number && !c.verbatim && c.width > least[i] && (widest < 0 || c.width >= cols[widest].width) {
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
		head := c.heads[0]
		if c.optional && head != "" &&
			!slices.ContainsFunc(shown, func(o sheetColumn) bool { return o.heads[0] == head }) {
			names = append(names, head)
		}
	}
	if len(names) > 0 {
		s.paragraph(faint, "Not shown at this width: "+strings.Join(names, "; ")+".")
	}
}

func (s *screen) drawTable(cols []sheetColumn, of []stretch, below bool) {
	s.widen(cols)
	s.each(of, func(k, from, to int) {
		s.head(cols, k)
		for r := from; r < to; r++ {
			s.tableRow(cols, r, below)
		}
	})
}

// widen gives spare room to headings that would else be broken.
func (s *screen) widen(cols []sheetColumn) {
	spare := s.width - gap*(len(cols)-1)
	for _, c := range cols {
		spare -= c.width
	}
	for i := len(cols) - 1; i >= 0; i-- {
		for _, h := range cols[i].heads {
			if more := columns(h) - cols[i].width; more > 0 && more <= spare {
				cols[i].width += more
				spare -= more
			}
		}
	}
}

// head writes the headings of the k-th table, the last line of each on the line above the
// rows.
func (s *screen) head(cols []sheetColumn, k int) {
	heads := make([][]string, len(cols))
	height := 0
	for i, c := range cols {
		heads[i] = wrap(c.heads[k], c.width)
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
			if c.first {
				lines[i] = hung(lines[i], c.width)
			}
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

// hung indents all lines of a row's name but the first, so that none looks like a row of its own.
// A word that was broken stays as it is.
func hung(lines []string, width int) []string {
	const indent = 2
	var rest []string
	for _, line := range lines[1:] {
		if columns(line) > width-indent {
			rest = wrap(strings.Join(lines[1:], " "), width-indent)
			break
		}
		rest = append(rest, line)
	}
	for i, line := range lines[:len(lines)-1] {
		if next, _, _ := strings.Cut(lines[i+1], " "); columns(line)+1+columns(next) <= width {
			return lines // a word was broken here
		}
	}
	for i := range rest {
		rest[i] = strings.Repeat(" ", indent) + rest[i]
	}
	return append(lines[:1:1], rest...)
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
func (s *screen) looseTable(cols []sheetColumn, of []stretch) {
	squeeze := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	s.each(of, func(k, from, to int) {
		for r := from; r < to; r++ {
			var parts []string
			for _, c := range cols[1:] {
				text := squeeze(c.texts[r])
				if text == "" {
					continue
				}
				if d := c.details[r]; d != "" {
					text += " (" + d + ")"
				}
				parts = append(parts, strings.TrimSpace(c.heads[k]+" "+text))
			}
			s.hang(plain, squeeze(cols[0].texts[r])+":", strings.Join(parts, "; "))
		}
	})
}

func longestWord(text string) int {
	longest := 0
	for _, w := range strings.Fields(text) {
		longest = max(longest, columns(w))
	}
	return longest
}

// alignPoints pads the numbers of cells that have the same number of words
// ("66.1 ±0.4", "+2.2 to +4.0"), word by word.
func alignPoints(cells []string) []string {
	whole, part := map[[2]int]int{}, map[[2]int]int{}
	each := func(visit func(i int, key [2]int, before, after string)) {
		for i, cell := range cells {
			words := strings.Fields(cell)
			for j, w := range words {
				before, after, found := strings.Cut(w, ".")
				if found {
					after = "." + after
				}
				visit(i, [2]int{len(words), j}, before, after)
			}
		}
	}
	each(func(_ int, key [2]int, before, after string) {
		whole[key] = max(whole[key], columns(before))
		part[key] = max(part[key], columns(after))
	})
	aligned := make([]string, len(cells))
	each(func(i int, key [2]int, before, after string) {
		if key[1] > 0 {
			aligned[i] += " "
		}
		aligned[i] += right(before, whole[key]) + left(after, part[key])
	})
	return aligned
}
