// Package nearest finds the names that a mistyped one may have meant.
//
// What counts as near is the caller's: an id is mistyped otherwise than a name.
package nearest

import "slices"

// Of gives the names of known that are near, nearest first, equally near ones in
// their order, at most most of them (0 is all). distance says how far a name is
// from what was asked, and whether it is near at all.
func Of(known []string, most int, distance func(name string) (far int, near bool)) []string {
	type candidate struct {
		name string
		far  int
	}
	var candidates []candidate
	for _, k := range known {
		if far, near := distance(k); near {
			candidates = append(candidates, candidate{k, far})
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return a.far - b.far })
	if most > 0 && len(candidates) > most {
		candidates = candidates[:most]
	}
	var names []string
	for _, c := range candidates {
		names = append(names, c.name)
	}
	return names
}

// Edits is the number of bytes to add, drop or change, or of neighbours to swap,
// that makes one of the other (optimal string alignment).
func Edits(a, b string) int {
	var before, last []int // rows of the table
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
