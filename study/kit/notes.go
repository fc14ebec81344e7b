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

// Once is each of some texts once, in the order in which they come first; empty ones are left out.
func Once(texts []string) []string {
	var once []string
	for _, text := range texts {
		if text != "" && !slices.Contains(once, text) {
			once = append(once, text)
		}
	}
	return once
}
