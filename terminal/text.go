package terminal

import (
	"io"
	"strings"
)

// Sequence is one of our own control sequences.
type Sequence int

// The sequences (ECMA-48, 8.3; the screens are xterm's). Plain is none.
const (
	Plain Sequence = iota
	Bold
	Faint
	Red
	Green
	Yellow
	Cyan
	EnterScreen // the alternate screen, without a cursor
	LeaveScreen
	Home
	LineUp
	NextLine // where the terminal was made raw
	ClearRight
	ClearBelow
	eraseLine // and return to its begin
)

var sequences = [...]string{
	Bold: "\x1b[1m", Faint: "\x1b[2m", Red: "\x1b[31m", Green: "\x1b[32m", Yellow: "\x1b[33m", Cyan: "\x1b[36m",
	EnterScreen: "\x1b[?1049h\x1b[?25l", LeaveScreen: "\x1b[?25h\x1b[?1049l",
	Home: "\x1b[H", LineUp: "\x1b[A", NextLine: "\r\n", ClearRight: "\x1b[K", ClearBelow: "\x1b[J", eraseLine: "\r\x1b[K",
}

const reset = "\x1b[0m"

// Text is words and our own control sequences. The zero value is empty.
type Text struct{ b strings.Builder }

// Words adds words in a style.
func (t *Text) Words(style Sequence, words string) {
	if words == "" {
		return
	}
	t.b.WriteString(sequences[style])
	t.b.WriteString(Escape(words))
	if style != Plain {
		t.b.WriteString(reset)
	}
}

// Control adds a sequence.
func (t *Text) Control(s Sequence) { t.b.WriteString(sequences[s]) }

// Newline ends a line.
func (t *Text) Newline() { t.b.WriteByte('\n') }

func (t *Text) String() string { return t.b.String() }

// Print writes the text in one piece, so that nothing on another stream falls between.
func (t *Text) Print(w io.Writer) error {
	if o, is := w.(*Output); is {
		w = exact{o}
	}
	_, err := io.WriteString(w, t.b.String())
	return err
}

// Print writes a sequence alone.
func (s Sequence) Print(w io.Writer) {
	var t Text
	t.Control(s)
	_ = t.Print(w)
}

// Overwrite writes words over the line that a terminal is at, cut with a mark where they do not
// fit into a width. Where there are none the line is blank.
func Overwrite(w io.Writer, words string, width int) {
	words = Escape(words)
	if runes := []rune(words); len(runes) >= width && width > 1 {
		words = string(runes[:width-2]) + "~"
	}
	var t Text
	t.Control(eraseLine)
	t.Words(Plain, words)
	_ = t.Print(w)
}
