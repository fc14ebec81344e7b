package claim

import (
	"fmt"
	"slices"
	"strings"
)

// Unknown says that no claim has an ID.
type Unknown struct {
	ID      string
	Similar []string // IDs that may have been meant, nearest first
}

func (e *Unknown) Error() string {
	if len(e.Similar) == 0 {
		return fmt.Sprintf("no claim %q: `tare claims` lists them", e.ID)
	}
	return fmt.Sprintf("no claim %q: did you mean %s? `tare claims` lists them all", e.ID, strings.Join(e.Similar, " or "))
}

// similar picks at most three IDs that a mistyped one may have meant: of those
// that are at most two keystrokes away, the nearest.
func similar(id string) []string {
	const most, far = 3, 2
	if len(id) > 2*len("S4.10") {
		return nil
	}
	type candidate struct {
		id       string
		distance int
	}
	var near []candidate
	for _, c := range all {
		if d := distance(strings.ToUpper(id), strings.ToUpper(c.ID)); d <= far {
			near = append(near, candidate{c.ID, d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return a.distance - b.distance })
	var ids []string
	for _, c := range near[:min(len(near), most)] {
		ids = append(ids, c.id)
	}
	return ids
}

// distance is Levenshtein's (1966): insertions, deletions and substitutions.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			substitution := diagonal
			if a[i-1] != b[j-1] {
				substitution++
			}
			diagonal = row[j]
			row[j] = min(substitution, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
