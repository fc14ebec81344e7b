package report

import (
	"strconv"
	"strings"

	"tare/overhead"
	"tare/record"
)

// A table is one metric's conditions.
type table struct {
	head []string // as many as cells in a row; the first is the table's title
	rows []tableRow
	// Below it: what rows lack and why, then whatever else there is to say.
	absences, notes []string
}

type tableRow struct {
	cells   []string // label, figures..., a word
	verdict overhead.Verdict
}

// gap is the space between columns.
const gap = 2

// metricTable makes the table of one metric, worst first; a ladder keeps the
// order of its rungs. With all it says, too, what is not excluded.
func metricTable(run record.Run, m overhead.MetricReport, rep overhead.Report, all bool) table {
	col := newColumn(m)
	t := table{head: []string{heading(m, all) + ", " + direction(m), clean(col.unit), "overhead, %", levelText(rep.Level), "verdict"}}
	rows := worstFirst(m.Rows)
	if run.Plan.Ladder {
		rows = rungOrder(run, m.Rows)
	}
	for _, r := range rows {
		figure, span, unit, why := overheadText(r, col, run)
		switch {
		case unit != "":
			t.notes = append(t.notes, label(r)+": the difference in "+clean(unit)+", for no ratio can be formed.")
			figure += " " + clean(unit)
		}
		if why != "" {
			t.absences = append(t.absences, label(r)+": "+why+".")
		}
		if why := m.Overruled(r); why != "" {
			t.notes = append(t.notes, label(r)+": "+clean(why)+".")
		}
		if r.Verdict == overhead.Inconclusive && r.Needs != "" && figure != "" {
			t.notes = append(t.notes, label(r)+": "+clean(r.Needs)+" would decide.")
		}
		if r.Status != "" {
			t.notes = append(t.notes, label(r)+": threshold "+string(r.Status)+".")
		}
		name, word := label(r), verdictText(r, rep.SmallestEffect)
		if r.NotRepresentative != "" {
			name += " [not representative]"
		}
		value := col.value(r.Value)
		if !r.Baseline && figure == "" && value == "" {
			word = "no figure"
		}
		t.rows = append(t.rows, tableRow{[]string{name, value, figure, span, clean(word)}, r.Verdict})
	}
	t.notes = append(t.notes, roundNotes(m, all)...)
	return t
}

// withoutVerdicts leaves of a table's last column what is no verdict.
func (t *table) withoutVerdicts() {
	last := len(t.head) - 1
	t.head[last] = ""
	for i := range t.rows {
		switch r := &t.rows[i]; r.cells[last] {
		case string(overhead.Baseline), "no figure":
		default:
			r.cells[last], r.verdict = "", ""
		}
	}
}

// levelText heads the column of intervals.
func levelText(level float64) string {
	if !(level > 0 && level < 1) {
		return "interval"
	}
	return strconv.FormatFloat(100*level, 'g', 4, 64) + " % interval"
}

// tables writes tables that share their columns, so that the eye finds each
// column in the same place; where the screen is too narrow, figures go below
// the labels.
func (s *screen) tables(tables []table) {
	if len(tables) == 0 {
		return
	}
	widths := make([]int, len(tables[0].head))
	for i := range tables {
		tables[i].align()
		for _, r := range tables[i].rows {
			for c, cell := range r.cells {
				widths[c] = max(widths[c], columns(cell))
			}
		}
		for c, h := range tables[i].head {
			widths[c] = max(widths[c], longestWord(h))
		}
	}
	figures := 0
	for _, w := range widths[1:] {
		figures += gap + w
	}
	for _, t := range tables {
		widths[0] = max(widths[0], min(columns(t.head[0]), s.width-figures))
	}
	const leastLabel = 18
	switch room := s.width - figures; {
	case room >= min(widths[0], leastLabel):
		spread(tables, widths, room-widths[0])
		widths[0] = min(widths[0], room)
		s.beside(tables, widths)
	case room >= 0:
		spread(tables, widths, room)
		s.below(tables, widths)
	default:
		s.loose(tables)
	}
}

// spread gives spare room to headings that would else be broken.
func spread(tables []table, widths []int, spare int) {
	for c := len(widths) - 1; c > 0; c-- {
		for _, t := range tables {
			if more := columns(t.head[c]) - widths[c]; more > 0 && more <= spare {
				widths[c] += more
				spare -= more
			}
		}
	}
}

func longestWord(text string) int {
	longest := 0
	for _, w := range strings.Fields(text) {
		longest = max(longest, columns(w))
	}
	return longest
}

// beside writes labels and figures on one line.
func (s *screen) beside(tables []table, widths []int) {
	for i, t := range tables {
		if i > 0 {
			s.blank()
		}
		head := t.head
		if len(wrap(head[0], widths[0])) > 2 {
			s.paragraph(bold, head[0])
			head = append([]string{""}, head[1:]...)
		}
		s.head(head, widths)
		for _, r := range t.rows {
			names := wrap(r.cells[0], widths[0])
			for j, name := range names {
				if j == 0 {
					s.figures(left(name, widths[0]), r, widths)
				} else {
					s.bare("  " + name)
				}
			}
		}
		s.notes(append(t.absences, t.notes...))
	}
}

// below writes figures under their label.
func (s *screen) below(tables []table, widths []int) {
	for i, t := range tables {
		if i > 0 {
			s.blank()
		}
		s.paragraph(bold, t.head[0])
		s.head(append([]string{""}, t.head[1:]...), append([]int{0}, widths[1:]...))
		for _, r := range t.rows {
			s.paragraph(plain, r.cells[0])
			s.figures("", r, widths)
		}
		s.notes(append(t.absences, t.notes...))
	}
}

// loose writes rows as text, for figures that no column holds.
func (s *screen) loose(tables []table) {
	for i, t := range tables {
		if i > 0 {
			s.blank()
		}
		s.paragraph(bold, t.head[0])
		for _, r := range t.rows {
			var parts []string
			for c, cell := range r.cells[1:] {
				if cell = strings.TrimSpace(cell); cell != "" {
					parts = append(parts, t.head[c+1]+" "+cell)
				}
			}
			s.hang(plain, r.cells[0]+":", strings.Join(parts, ", "))
		}
		s.notes(append(t.absences, t.notes...))
	}
}

func (s *screen) notes(notes []string) {
	for _, n := range together(notes) {
		s.paragraph(faint, n)
	}
}

// together says once what several rows have in common: "a, b: why." for
// "a: why." and "b: why.", where the first of them stands.
func together(notes []string) []string {
	rows := map[string][]string{}
	var order []string
	for _, n := range notes {
		row, why, ok := strings.Cut(n, ": ")
		if !ok {
			row, why = "", n
		}
		if _, seen := rows[why]; !seen {
			order = append(order, why)
		}
		rows[why] = append(rows[why], row)
	}
	said := make([]string, len(order))
	for i, why := range order {
		said[i] = why
		if rows[why][0] != "" {
			said[i] = strings.Join(rows[why], ", ") + ": " + why
		}
	}
	return said
}

// head writes the headings, the last line of each on the line above the rows.
func (s *screen) head(head []string, widths []int) {
	wrapped := make([][]string, len(head))
	height := 0
	for c, h := range head {
		wrapped[c] = wrap(h, max(widths[c], 1))
		height = max(height, len(wrapped[c]))
	}
	for l := range height {
		line := ""
		for c, lines := range wrapped {
			text := ""
			if skip := height - len(lines); l >= skip {
				text = lines[l-skip]
			}
			switch c {
			case 0:
				line += left(text, widths[c])
			case len(head) - 1:
				line += strings.Repeat(" ", gap) + left(text, widths[c])
			default:
				line += strings.Repeat(" ", gap) + right(text, widths[c])
			}
		}
		s.line(piece{bold, line})
	}
}

// figures writes a row, its verdict in colour, after what stands before it.
func (s *screen) figures(line string, r tableRow, widths []int) {
	last := len(r.cells) - 1
	for c := 1; c < last; c++ {
		line += strings.Repeat(" ", gap) + right(r.cells[c], widths[c])
	}
	s.line(piece{plain, line + strings.Repeat(" ", gap)}, piece{verdictStyle(r.verdict), r.cells[last]})
}

// align pads the figures of each column so that their decimal points stand
// below one another.
func (t *table) align() {
	if len(t.rows) == 0 {
		return
	}
	for c := 1; c < len(t.head)-1; c++ {
		cells := make([]string, len(t.rows))
		for i, r := range t.rows {
			cells[i] = r.cells[c]
		}
		for i, cell := range alignPoints(cells) {
			t.rows[i].cells[c] = cell
		}
	}
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
