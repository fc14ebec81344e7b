package report

import (
	"io"
	"strings"

	"tare/overhead"
)

// The widths of a screen in columns.
const (
	defaultWidth = 80
	leastWidth   = 60
	fieldWidth   = 10 // of the names at the left: "workload  "
)

// Select Graphic Rendition sequences (ECMA-48, 8.3.117).
const (
	plain  = ""
	bold   = "\x1b[1m"
	faint  = "\x1b[2m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	cyan   = "\x1b[36m"
	reset  = "\x1b[0m"
)

// A screen gathers lines of limited width and writes them in one piece, so
// that progress on another stream cannot fall between them.
type screen struct {
	text  strings.Builder
	width int
	color bool
}

func newScreen(width int, color bool) *screen {
	if width == 0 {
		width = defaultWidth
	}
	return &screen{width: max(width, leastWidth), color: color}
}

func (s *screen) flush(w io.Writer) error {
	_, err := io.WriteString(w, s.text.String())
	return err
}

func (s *screen) styled(style, text string) string {
	if !s.color || style == plain || text == "" {
		return text
	}
	return style + text + reset
}

func (s *screen) line(text string) {
	s.text.WriteString(strings.TrimRight(text, " "))
	s.text.WriteByte('\n')
}

// blank leaves a line free, but not at the top and not twice.
func (s *screen) blank() {
	if t := s.text.String(); t != "" && !strings.HasSuffix(t, "\n\n") {
		s.text.WriteByte('\n')
	}
}

func (s *screen) paragraph(style, text string) {
	for _, l := range wrap(text, s.width) {
		s.line(s.styled(style, l))
	}
}

// hang writes text after a prefix, its further lines indented by two. A prefix
// that leaves little room has lines of its own.
func (s *screen) hang(style, prefix, text string) {
	const indent = "  "
	if columns(prefix) > s.width/2 {
		s.paragraph(style, prefix)
		for _, l := range wrap(text, s.width-len(indent)) {
			s.line(indent + l)
		}
		return
	}
	head := wrap(text, s.width-columns(prefix)-1)[0]
	s.line(s.styled(style, prefix) + " " + head)
	// What the first line took is cut off by its letters: wrap may have broken
	// a word where there was no space.
	rest := strings.Join(strings.Fields(text), " ")[len(head):]
	if rest = strings.TrimSpace(rest); rest == "" {
		return
	}
	for _, l := range wrap(rest, s.width-len(indent)) {
		s.line(indent + l)
	}
}

// field writes a name at the left and text beside it.
func (s *screen) field(name, text string) {
	for i, l := range wrap(text, s.width-fieldWidth) {
		s.line(s.styled(faint, left(first(i, name), fieldWidth)) + l)
	}
}

// copyable writes what is there to be copied: it is never broken within a
// word, and a command goes on after a backslash, as a shell reads it.
func (s *screen) copyable(name, text string) {
	head := s.styled(faint, left(name, fieldWidth))
	if columns(text) <= s.width-fieldWidth {
		s.line(head + text)
		return
	}
	const indent, mark = 4, ` \`
	line, started := "", false
	put := func(last bool) {
		if !last {
			line += mark
		}
		if !started {
			s.line(head + line)
		} else {
			s.line(strings.Repeat(" ", fieldWidth+indent) + line)
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
			s.line(s.styled(faint, name))
		}
		s.line(line)
		return
	}
	put(true)
}

// rule divides the workloads of a run.
func (s *screen) rule(title string) {
	title = wrap(title, s.width-6)[0]
	s.line(s.styled(bold, "── "+title+" "+strings.Repeat("─", max(0, s.width-4-columns(title)))))
}

// verdictStyle colours a verdict; the word beside it says the same.
func verdictStyle(v overhead.Verdict) string {
	switch v {
	case overhead.Worse:
		return red
	case overhead.Better:
		return cyan
	case overhead.Equivalent:
		return green
	case overhead.Inconclusive:
		return yellow
	}
	return faint
}
