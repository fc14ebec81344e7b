package report

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"tare/terminal"
)

// clean is text that we did not write, on one line, as screens and pages show it.
func clean(s string) string { return terminal.Line(s) }

func columns(s string) int { return terminal.Columns(s) }

// left and right pad s to n columns.
func left(s string, n int) string  { return s + strings.Repeat(" ", max(0, n-columns(s))) }
func right(s string, n int) string { return strings.Repeat(" ", max(0, n-columns(s))) + s }

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

// quote writes a command as a shell takes it.
func quote(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = quoteWord(a)
	}
	return strings.Join(words, " ")
}

func quoteWord(a string) string {
	plain := func(r rune) bool {
		return r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("@%_+=:,./-", r)
	}
	if a != "" && strings.IndexFunc(a, func(r rune) bool { return !plain(r) }) < 0 {
		return a
	}
	if clean(a) != strings.Join(strings.Fields(a), " ") || strings.ContainsAny(a, "\n\r\t") {
		return quoteBytes(a)
	}
	return "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
}

// quoteBytes is the quoting for words that hold what must not be shown as it
// is: every byte but the plain ones as $'\xNN'.
func quoteBytes(a string) string {
	var b strings.Builder
	b.WriteString("$'")
	for i := range len(a) {
		if c := a[i]; c < ' ' || c >= 0x7f || c == '\'' || c == '\\' {
			fmt.Fprintf(&b, "\\x%02x", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String() + "'"
}
