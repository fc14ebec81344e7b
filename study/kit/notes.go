package kit

import (
	"fmt"
	"slices"
)

// Notes are what a design says of itself: what it leaves out, and why.
type Notes []string

// Add adds a note, unless it is there.
func (n *Notes) Add(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(*n, text) {
		*n = append(*n, text)
	}
}
