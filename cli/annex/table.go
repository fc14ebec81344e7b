package annex

import (
	"cmp"
	"slices"
	"strings"

	"tare/annex"
	"tare/annex/control"
	"tare/terminal"
)

// A column of the table of contexts. Where the screen is too narrow those with the highest
// number go first.
type column struct {
	head  string
	width int
	right bool
	goes  int
	cell  func(c control.Context) string
}

// leastName is how narrow the names may become before a column goes.
const leastName = 12

var contextColumns = []column{
	{"CLASS", 8, false, 5, func(c control.Context) string { return terminal.Line(string(c.Class)) }},
	{"STATE", 7, false, 2, func(c control.Context) string { return terminal.Line(string(c.State)) }},
	{"RES", 5, true, 0, func(c control.Context) string { return shortSize(c.ResidentBytes) }},
	{"EXT", 5, true, 0, func(c control.Context) string { return shortSize(c.ExtendedBytes) }},
	{"SHARE", 5, true, 6, func(c control.Context) string { return shortSize(c.ShareBytes) }},
	{"NEXT", 5, true, 1, func(c control.Context) string {
		switch {
		case c.Next == nil:
			return "-"
		case c.Next.LatestSeconds < 0:
			return "late"
		case c.Next.LikelySeconds <= 0:
			return "now"
		}
		return spanText(seconds(c.Next.LikelySeconds))
	}},
	{"HIT", 5, true, 3, func(c control.Context) string { return shareText(c.HitShare) }},
	{"PRESS", 5, true, 4, func(c control.Context) string { return shareText(c.PressureShare) }},
	{"LAST", 9, false, 7, func(c control.Context) string { return cmp.Or(terminal.Line(string(c.Last)), "-") }},
}

// contextTable is a line a context below one of headings, no wider than width: the critical
// ones first, then by what they have in swap. Of more than most lines the rest is counted; 0
// is no bound.
func contextTable(contexts []control.Context, width, most int) []string {
	if len(contexts) == 0 {
		return []string{"no container is managed: give containers a class (annex config --example shows how)"}
	}
	contexts = slices.Clone(contexts)
	slices.SortStableFunc(contexts, func(a, b control.Context) int {
		return cmp.Or(
			cmp.Compare(rank(a.Class), rank(b.Class)),
			cmp.Compare(b.ExtendedBytes, a.ExtendedBytes),
			cmp.Compare(b.ResidentBytes, a.ResidentBytes),
			cmp.Compare(a.Name, b.Name),
		)
	})
	longest := terminal.Columns("CONTEXT")
	for _, c := range contexts {
		longest = max(longest, terminal.Columns(terminal.Line(c.Name)))
	}
	shown, gap, name := layOut(contextColumns, width, longest)
	line := func(first string, cell func(c column) string) string {
		cells := []string{terminal.Fit(terminal.CutMiddle(first, name), name, false)}
		for _, c := range shown {
			cells = append(cells, terminal.Fit(cell(c), c.width, c.right))
		}
		return strings.TrimRight(strings.Join(cells, strings.Repeat(" ", gap)), " ")
	}
	lines := []string{line("CONTEXT", func(c column) string { return c.head })}
	for i, c := range contexts {
		if most > 0 && i == most-1 && len(contexts) > most {
			lines = append(lines, terminal.Fit("and "+plural(int64(len(contexts)-i), "context")+" more", width, false))
			break
		}
		lines = append(lines, line(terminal.Line(c.Name), func(k column) string { return k.cell(c) }))
	}
	return lines
}

func rank(c annex.Class) int { return slices.Index(annex.Classes, c) }

// layOut chooses the columns that a width holds, the gap between them, and what is left for
// names.
func layOut(all []column, width, longest int) (shown []column, gap, name int) {
	shown = slices.Clone(all)
	for {
		taken := 0
		for _, c := range shown {
			taken += c.width
		}
		for gap = 2; gap >= 1; gap-- {
			name = width - taken - gap*len(shown)
			if name >= min(longest, leastName+4) {
				return shown, gap, min(name, longest)
			}
		}
		gap = 1
		if len(shown) == 0 {
			return nil, gap, max(1, min(width, longest))
		}
		if name >= min(longest, leastName) {
			return shown, gap, min(name, longest)
		}
		last := 0
		for i, c := range shown {
			if c.goes >= shown[last].goes {
				last = i
			}
		}
		shown = slices.Delete(shown, last, last+1)
	}
}
