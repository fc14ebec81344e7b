package report

import (
	"fmt"
	"io"
	"strings"
)

// Markdown writes a part of a sheet as Markdown that GitHub shows: tables, judgements and text.
// An interval has a column of its own. Drawings have no such form: they are left to the page.
func Markdown(w io.Writer, part Part) error {
	switch p := part.(type) {
	case Long:
		return Markdown(w, p.Part)
	case Table:
		return p.markdown(w)
	case Heat:
		return p.table().markdown(w)
	case Judgements:
		return p.table().markdown(w)
	case Prose:
		_, err := fmt.Fprintln(w, markdownText(strings.Join(paragraphs(p.Text), "\n\n")))
		return err
	}
	return fmt.Errorf("%q is a drawing, which has no form in Markdown", part.heading())
}

// table has a row a claim.
func (p Judgements) table() Table {
	t := Table{Title: p.Title, Note: p.Note, Method: p.Method, Columns: []Column{
		{Head: "claim"}, {Head: "says"}, {Head: "verdict"}, {Head: "ours"}, {Head: "published"},
	}}
	for _, r := range p.Rows {
		t.Rows = append(t.Rows, []Cell{
			{Text: r.Claim}, {Text: r.Says}, {Text: r.Verdict, Tone: r.Tone}, {Text: r.Ours}, {Text: r.Published},
		})
	}
	return t
}

func (t Table) markdown(w io.Writer) error {
	detailed := make([]bool, len(t.Columns)) // columns in which a cell has a detail
	for _, row := range t.Rows {
		for i, c := range row[:min(len(row), len(detailed))] {
			detailed[i] = detailed[i] || c.Detail != ""
		}
	}
	var head, rule []string
	for i, c := range t.Columns {
		side := "---"
		if c.Number {
			side = "---:"
		}
		head, rule = append(head, c.Head), append(rule, side)
		if detailed[i] {
			head, rule = append(head, orElse(t.detailHead(i), " ")), append(rule, side)
		}
	}
	rows := [][]string{head}
	for _, row := range t.Rows {
		var line []string
		for i := range t.Columns {
			var c Cell
			if i < len(row) {
				c = row[i]
			}
			line = append(line, c.Text)
			if detailed[i] {
				line = append(line, c.Detail)
			}
		}
		rows = append(rows, line)
	}
	var b strings.Builder
	for i, row := range rows {
		for j, text := range row {
			row[j] = markdownText(clean(text))
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "|%s|\n", strings.Join(rule, "|"))
		}
	}
	for _, text := range paragraphs(t.Note) {
		fmt.Fprintf(&b, "\n%s\n", markdownText(clean(text)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// detailHead heads the column of a column's details: those of figures are intervals.
func (t Table) detailHead(column int) string {
	for _, row := range t.Rows {
		isInterval := t.Columns[column].Number || column >= len(row) || row[column].Detail == "" ||
			strings.Contains(row[column].Detail, " to ")
		if !isInterval {
			return ""
		}
	}
	return "interval"
}

// markdownText is text in which nothing is taken for a mark.
func markdownText(s string) string {
	return markdownMarks.Replace(s)
}

var markdownMarks = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "|", `\|`, "*", `\*`, "_", `\_`, "<", "&lt;", "[", `\[`, "]", `\]`,
)

// Titled finds a part of a sheet by its title.
func (s Sheet) Titled(title string) (Part, bool) {
	for _, part := range s.Parts {
		if long, ok := part.(Long); ok {
			part = long.Part
		}
		if tables, ok := part.(metricTables); ok {
			for _, m := range tables.metrics {
				if m.Title == title {
					return m.Table, true
				}
			}
		}
		if part.heading() == title {
			return part, true
		}
	}
	return nil, false
}

// Titles are those that [Sheet.Titled] finds.
func (s Sheet) Titles() (titles []string) {
	for _, part := range s.Parts {
		if tables, ok := part.(metricTables); ok {
			for _, m := range tables.metrics {
				titles = append(titles, m.Title)
			}
		} else if title := part.heading(); title != "" {
			titles = append(titles, title)
		}
	}
	return titles
}
