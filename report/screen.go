package report

import (
	"io"
	"strings"

	"tare/terminal"
)

// The widths of a screen in columns.
const (
	defaultWidth = 80
	leastWidth   = 60
	fieldWidth   = 10 // of the names at the left: "workload  "
	gap          = 2  // between columns
)

// The styles of a screen.
const (
	plain  = terminal.Plain
	bold   = terminal.Bold
	faint  = terminal.Faint
	red    = terminal.Red
	green  = terminal.Green
	yellow = terminal.Yellow
	cyan   = terminal.Cyan
)

// A screen gathers lines of limited width and writes them in one piece, so
// that progress on another stream cannot fall between them.
type screen struct {
	text   *terminal.Text
	width  int
	indent int // of every line
	color  bool
}

// A piece is part of a line, in a style.
type piece struct {
	style terminal.Sequence
	text  string
}

func newScreen(width int, color bool) *screen {
	if width == 0 {
		width = defaultWidth
	}
	return &screen{text: &terminal.Text{}, width: max(width, leastWidth), color: color}
}

func (s *screen) flush(w io.Writer) error { return s.text.Print(w) }

// line writes a line of parts, without spaces at its end.
func (s *screen) line(parts ...piece) {
	for last := len(parts) - 1; last >= 0; last-- {
		if parts[last].text = strings.TrimRight(parts[last].text, " "); parts[last].text != "" {
			s.text.Words(plain, strings.Repeat(" ", s.indent))
			break
		}
	}
	for _, p := range parts {
		if !s.color {
			p.style = plain
		}
		s.text.Words(p.style, p.text)
	}
	s.text.Newline()
}

// bare writes a line without a style.
func (s *screen) bare(text string) { s.line(piece{plain, text}) }

// blank leaves a line free, but not at the top and not twice.
func (s *screen) blank() {
	if t := s.text.String(); t != "" && !strings.HasSuffix(t, "\n\n") {
		s.text.Newline()
	}
}

func (s *screen) paragraph(style terminal.Sequence, text string) {
	for _, l := range wrap(text, s.width) {
		s.line(piece{style, l})
	}
}

// hang writes text after a prefix, its further lines indented by two. A prefix
// that leaves little room has lines of its own.
func (s *screen) hang(style terminal.Sequence, prefix, text string) {
	const indent = "  "
	if columns(prefix) > s.width/2 {
		s.paragraph(style, prefix)
		for _, l := range wrap(text, s.width-len(indent)) {
			s.bare(indent + l)
		}
		return
	}
	head := wrap(text, s.width-columns(prefix)-1)[0]
	s.line(piece{style, prefix}, piece{plain, " " + head})
	// What the first line took is cut off by its letters: wrap may have broken
	// a word where there was no space.
	rest := strings.Join(strings.Fields(text), " ")[len(head):]
	if rest = strings.TrimSpace(rest); rest == "" {
		return
	}
	for _, l := range wrap(rest, s.width-len(indent)) {
		s.bare(indent + l)
	}
}

// field writes a name at the left and text beside it.
func (s *screen) field(name, text string) {
	for i, l := range wrap(text, s.width-fieldWidth) {
		s.line(piece{faint, left(first(i, name), fieldWidth)}, piece{plain, l})
	}
}

// copyable writes what is there to be copied: it is never broken within a
// word, and a command goes on after a backslash, as a shell reads it.
func (s *screen) copyable(name, text string) {
	head := piece{faint, left(name, fieldWidth)}
	if columns(text) <= s.width-fieldWidth {
		s.line(head, piece{plain, text})
		return
	}
	const indent, mark = 4, ` \`
	line, started := "", false
	put := func(last bool) {
		if !last {
			line += mark
		}
		if !started {
			s.line(head, piece{plain, line})
		} else {
			s.bare(strings.Repeat(" ", fieldWidth+indent) + line)
		}
		started = true
	}
	for _, word := range strings.Split(text, " ") {
		room := s.width - fieldWidth - len(mark)
		if started {
			room -= indent
		}
		if line != "" && columns(line)+1+columns(word) > room {
			put(false)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if !started && columns(line) > s.width-fieldWidth {
		if name != "" {
			s.line(piece{faint, name})
		}
		s.bare(line)
		return
	}
	put(true)
}

// warn writes what is warned of.
func (s *screen) warn(texts []string) {
	for _, text := range texts {
		s.hang(yellow, "warning:", clean(text))
	}
}

// rule divides the parts of a sheet.
func (s *screen) rule(title string) {
	title = wrap(title, s.width-6)[0]
	s.line(piece{bold, "── " + title + " " + strings.Repeat("─", max(0, s.width-4-columns(title)))})
}
