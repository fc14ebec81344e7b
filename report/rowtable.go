package report

import (
	"strings"
	"unicode"
)

// A tablePage is a Table as the page shows it.
type tablePage struct {
	Head []Column
	Rows [][]cellPage
	// Stacked puts details below the figures: beside them they would take more
	// than a page's width.
	Stacked bool
	// Tiles puts the cells of a row below its name where the page is narrow.
	Tiles bool
}

// mostBeside is how many columns stand beside each other on a narrow page.
const mostBeside = 3

// A cellPage is a cell with what the style sheet needs of it.
type cellPage struct {
	Head, Text, Detail string
	Class              string
	Number             bool
}

// longName is as many columns as a name has on one line.
const longName = 30

func newTablePage(t Table) *tablePage {
	p := &tablePage{Tiles: len(t.Columns) > mostBeside}
	width := 0
	for i, c := range t.Columns {
		widest := columns(clean(c.Head))
		for _, row := range t.Rows {
			if i < len(row) {
				widest = max(widest, columns(clean(row[i].Text))+columns(clean(row[i].Detail)))
			}
		}
		width += gap + widest
	}
	const page = 96 // letters beside each other, with the space between columns
	p.Stacked = width > page
	for _, c := range t.Columns {
		c.Head = typeset(clean(c.Head))
		p.Head = append(p.Head, c)
	}
	for _, row := range t.Rows {
		cells := make([]cellPage, len(t.Columns))
		for i, c := range t.Columns {
			cells[i].Number, cells[i].Head = c.Number, p.Head[i].Head
			if i >= len(row) {
				continue
			}
			cells[i].Text, cells[i].Detail, cells[i].Class = cellText(row[i], c), clean(row[i].Detail),
				toneClass(row[i].Tone)
			if !c.Number && columns(cells[i].Text) > longName {
				cells[i].Class = strings.TrimSpace(cells[i].Class + " long")
				cells[i].Text = breakable(cells[i].Text)
			}
			if c.Number {
				cells[i].Text, cells[i].Detail = typeset(cells[i].Text), typeset(cells[i].Detail)
			}
		}
		p.Rows = append(p.Rows, cells)
	}
	return p
}

// breakable lets a long name break behind its commas, before it breaks in a word.
func breakable(text string) string {
	const here = "\u200b" // a space of no width
	var b strings.Builder
	for i, r := range text {
		b.WriteRune(r)
		if r == ',' && i+1 < len(text) && text[i+1] != ' ' {
			b.WriteString(here)
		}
	}
	return b.String()
}

// cellText writes a cell so that its tone shows without colour: words say it
// themselves, figures get a mark. A faint figure stands in brackets, as what
// is there but does not count.
func cellText(c Cell, of Column) string {
	text := clean(c.Text)
	if !of.Number || strings.IndexFunc(text, unicode.IsDigit) < 0 {
		return text
	}
	switch c.Tone {
	case Good:
		return text + " ✓"
	case Bad:
		return text + " !"
	case Faint:
		return "(" + text + ")"
	}
	return text
}

// toneClass names a tone for the style sheet; what is none of ours is plain.
func toneClass(t Tone) string {
	switch t {
	case Good, Bad, Unsure, Faint:
		return "tone-" + string(t)
	}
	return ""
}
