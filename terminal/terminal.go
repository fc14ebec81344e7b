// Package terminal is what may reach a terminal, or a log that people read: words that we did
// not write are escaped, and control sequences are only our own. Names of processes,
// containers, files and symbols, the errors of engines, and what programs print are words that
// we did not write. It knows no command and no page.
//
// Output leaves in three ways, and each escapes. [Fprintf] and [Fprintln] escape their arguments, so
// that a name is no second line. [Text] is where our own styling comes from. [Output] holds
// the stream itself, and lets through no other control sequence.
package terminal

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Escape makes everything visible that is no letter, mark, number, sign or space: what steers
// a terminal, ends a line, has no width, or turns the direction of reading. A character
// becomes what it is in JSON ("\n", "\u001b"), so that escaped JSON is the same JSON. A byte
// that is not UTF-8 becomes "\xff". What is escaped already stays as it is.
func Escape(text string) string {
	return escape(text, "")
}

// Line is text on one line: white space becomes one space, and the rest is escaped. It is
// for text that may have lines of its own, such as an error's.
func Line(text string) string {
	return Escape(strings.Join(strings.Fields(text), " "))
}

// escape is Escape but for some characters.
func escape(text, kept string) string {
	shown := func(r rune) bool { return unicode.IsGraphic(r) || strings.ContainsRune(kept, r) }
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case shown(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
	}
	return b.String()
}

// escaped prints a value as fmt does, and escapes that. An error may have lines of its own.
type escaped struct{ value any }

func (e escaped) Format(f fmt.State, verb rune) {
	text := fmt.Sprintf(fmt.FormatString(f, verb), e.value)
	if _, is := e.value.(error); is {
		text = Line(text)
	}
	_, _ = io.WriteString(f, Escape(text))
}

func all(values []any) []any {
	safe := make([]any, len(values))
	for i, v := range values {
		safe[i] = escaped{v}
	}
	return safe
}

// Fprintf is fmt's, with every value escaped. The format is ours, its lines and tabs too.
func Fprintf(w io.Writer, format string, values ...any) (int, error) {
	return fmt.Fprintf(w, format, all(values)...)
}

// Fprintln is fmt's, with every value escaped.
func Fprintln(w io.Writer, values ...any) (int, error) {
	return fmt.Fprintln(w, all(values)...)
}
