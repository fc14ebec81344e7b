package claim

import (
	"fmt"
	"strings"

	"tare/nearest"
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
	var ids []string
	for _, c := range all {
		ids = append(ids, c.ID)
	}
	return nearest.Of(ids, most, func(known string) (int, bool) {
		d := nearest.Edits(strings.ToUpper(id), strings.ToUpper(known))
		return d, d <= far
	})
}
