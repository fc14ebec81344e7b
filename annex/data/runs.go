package data

import (
	"slices"

	"tare/annex"
)

// collect gathers pages into runs.
type collect struct {
	runs  []annex.Run
	pages int
}

func (g *collect) add(s annex.Space, p annex.Page) {
	g.pages++
	if n := len(g.runs); n > 0 {
		if r := &g.runs[n-1]; r.Space == s && r.End() == p {
			r.Pages++
			return
		}
	}
	g.runs = append(g.runs, annex.Run{Space: s, First: p, Pages: 1})
}

// split parts runs after so many pages.
func split(runs []annex.Run, pages int) (head, rest []annex.Run) {
	for i, r := range runs {
		if r.Pages < pages {
			pages -= r.Pages
			continue
		}
		if r.Pages == pages {
			return runs[: i+1 : i+1], runs[i+1:]
		}
		head = append(runs[:i:i], annex.Run{Space: r.Space, First: r.First, Pages: pages})
		rest = slices.Clone(runs[i:])
		rest[0].First += annex.Page(pages)
		rest[0].Pages -= pages
		return head, rest
	}
	return runs, nil
}

// first is the first pages of runs.
func first(runs []annex.Run, pages int) []annex.Run {
	if pages == 0 {
		return nil
	}
	head, _ := split(runs, pages)
	return head
}
