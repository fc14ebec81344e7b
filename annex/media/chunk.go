package media

import (
	"cmp"
	"slices"

	"tare/annex"
	"tare/kernel/advise"
)

// cutter cuts the runs of a request into chunks, in their order.
type cutter struct {
	runs []annex.Run
	done int // pages of the first
}

// next is the next chunk, of at most so many pages, by space in the order in which they
// first come; nil at the end.
func (c *cutter) next(pages int) [][]annex.Run {
	var chunk [][]annex.Run
	for pages > 0 && len(c.runs) > 0 {
		r := c.runs[0]
		r.First, r.Pages = r.First+annex.Page(c.done), r.Pages-c.done
		if r.Pages <= pages {
			c.runs, c.done = c.runs[1:], 0
		} else {
			c.done += pages
			r.Pages = pages
		}
		if r.Pages <= 0 {
			continue
		}
		pages -= r.Pages
		at := slices.IndexFunc(chunk, func(rs []annex.Run) bool { return rs[0].Space == r.Space })
		if at < 0 {
			chunk = append(chunk, []annex.Run{r})
			continue
		}
		chunk[at] = join(chunk[at], r)
	}
	return chunk
}

// join adds a run to those of the same space, as part of the last where it goes on from
// there.
func join(runs []annex.Run, r annex.Run) []annex.Run {
	if last := len(runs) - 1; last >= 0 && runs[last].End() == r.First {
		runs[last].Pages += r.Pages
		return runs
	}
	return append(runs, r)
}

// ranges are pages as ranges of bytes, one for each stretch that ascends by one.
func ranges(pages []annex.Page) []advise.Range { return bridged(pages, 0) }

// bridged does the same, and makes one of two stretches that lie no more than so many
// pages apart. What lies between them comes along.
func bridged(pages []annex.Page, gap int) []advise.Range {
	var all []advise.Range
	var end annex.Page // of the last
	for _, p := range pages {
		if len(all) > 0 && p >= end && int64(p-end) <= int64(gap) {
			all[len(all)-1].Length += uint64(p-end+1) * annex.PageSize
		} else {
			all = append(all, advise.Range{Start: uint64(p) * annex.PageSize, Length: annex.PageSize})
		}
		end = p + 1
	}
	return all
}

// covered is how many pages ranges cover.
func covered(rs []advise.Range) int {
	var n uint64
	for _, r := range rs {
		n += r.Length
	}
	return int(n / annex.PageSize)
}

// each is every page as a range of its own.
func each(pages []annex.Page) []advise.Range {
	all := make([]advise.Range, len(pages))
	for i, p := range pages {
		all[i] = advise.Range{Start: uint64(p) * annex.PageSize, Length: annex.PageSize}
	}
	return all
}

// once leaves out pages that come again, keeping the order of the rest.
func once(runs []annex.Run) []annex.Run {
	if len(runs) < 2 {
		return runs
	}
	sorted := slices.SortedFunc(slices.Values(runs), func(a, b annex.Run) int { return cmp.Compare(a.First, b.First) })
	overlaps := false
	for i := 1; i < len(sorted); i++ {
		overlaps = overlaps || sorted[i].First < sorted[i-1].End()
	}
	if !overlaps {
		return runs
	}
	seen := map[annex.Page]bool{}
	var all []annex.Run
	for _, r := range runs {
		for p := r.First; p < r.End(); p++ {
			if !seen[p] {
				seen[p] = true
				all = join(all, annex.Run{Space: r.Space, First: p, Pages: 1})
			}
		}
	}
	return all
}
