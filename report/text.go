package report

import (
	"strings"
	"unicode/utf8"

	"tare/terminal"
)

// clean is text that we did not write, on one line, as screens and pages show it.
func clean(s string) string { return terminal.Line(s) }

func columns(s string) int { return terminal.Columns(s) }

// left and right pad s to n columns.
func left(s string, n int) string  { return s + strings.Repeat(" ", max(0, n-columns(s))) }
func right(s string, n int) string { return strings.Repeat(" ", max(0, n-columns(s))) + s }

// Wrapped is a text on lines of at most n columns.
func Wrapped(text string, n int) []string { return wrap(clean(text), n) }

// wrap breaks s at spaces into lines of at most n columns. A word that is
// longer is broken after a comma, slash or equals sign where it has one, and
// anywhere where it has not.
func wrap(s string, n int) []string {
	n = max(n, 2)
	var lines []string
	line := ""
	for _, word := range words(s) {
		if line != "" && !exceeds(line+" "+word, n) {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for exceeds(word, n) {
			cut := breakAt(word, n)
			lines = append(lines, word[:cut])
			word = word[cut:]
		}
		line = word
	}
	if line != "" || len(lines) == 0 {
		lines = append(lines, line)
	}
	return lines
}

// exceeds tells whether s takes more than n columns; it reads no further than
// that, for a word may be a megabyte long.
func exceeds(s string, n int) bool {
	used := 0
	for _, r := range s {
		if used += terminal.RuneColumns(r); used > n {
			return true
		}
	}
	return false
}

// words splits s at spaces, but keeps a percent sign with its number.
func words(s string) []string {
	fields := strings.Fields(s)
	kept := fields[:0]
	for i, f := range fields {
		if i > 0 && strings.HasPrefix(f, "%") {
			kept[len(kept)-1] += " " + f
			continue
		}
		kept = append(kept, f)
	}
	return kept
}

// breakAt gives the byte at which to break a word so that at most n columns
// stay before it; at least one rune does.
func breakAt(word string, n int) int {
	used, last, after := 0, 0, 0
	for i, r := range word {
		used += terminal.RuneColumns(r)
		if used > n && i > 0 {
			break
		}
		last = i + utf8.RuneLen(r)
		if strings.ContainsRune(",/=:;", r) {
			after = last
		}
	}
	if after > 0 {
		return after
	}
	return last
}
