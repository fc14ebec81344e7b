package terminal

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
	"golang.org/x/text/width"
)

// Span is words in a style.
type Span struct {
	Style Sequence
	Words string
}

// Row is one line of a screen. It is cut where it is wider.
type Row []Span

// Rows makes rows of plain lines.
func Rows(lines []string) []Row {
	rows := make([]Row, len(lines))
	for i, l := range lines {
		rows[i] = Row{{Words: l}}
	}
	return rows
}

// Size is the size of the terminal behind a stream. One that does not say its size has 80 by
// 24, and so has a stream without one.
func Size(w any) (width, height int, isTerminal bool) {
	fd, isTerminal := Behind(w)
	if isTerminal {
		if width, height, err := term.GetSize(fd); err == nil && width > 0 && height > 0 {
			return width, height, true
		}
	}
	return 80, 24, isTerminal
}

// Show shows values one after the other on the alternate screen of the terminal behind a
// stream, and the last one again when its size changes. It ends when the values or ctx end. A key
// leaves: q, Q, Ctrl-C or Ctrl-D, and so does that there are no more keys. Then the terminal is
// as it was.
func Show[T any](
	ctx context.Context,
	leave context.CancelFunc,
	out io.Writer,
	values <-chan T,
	draw func(value T, width, height int) []Row,
) error {
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	if fd, ok := Behind(os.Stdin); ok {
		before, err := term.MakeRaw(fd)
		if err != nil {
			return fmt.Errorf("read keys: %w", err)
		}
		defer func() { _ = term.Restore(fd, before) }()
		go keys(os.Stdin, leave)
	}
	isColourless := os.Getenv("NO_COLOR") != ""
	EnterScreen.Print(out)
	defer LeaveScreen.Print(out)
	var last T
	for seen := false; ; {
		select {
		case v, ok := <-values:
			if !ok {
				return nil
			}
			last, seen = v, true
		case <-resized:
		case <-ctx.Done():
			return nil
		}
		if seen {
			width, height, _ := Size(out)
			rows := draw(last, width, height)
			for _, row := range rows {
				for i := range row {
					if isColourless {
						row[i].Style = Plain
					}
				}
			}
			_ = Frame(rows, width, height).Print(out)
		}
	}
}

// Frame draws rows over what was there, so that nothing flickers, and no row wraps.
func Frame(rows []Row, width, height int) *Text {
	rows = rows[:min(len(rows), height)]
	screen := &Text{}
	screen.Control(Home)
	for i, row := range rows {
		if i > 0 {
			screen.Control(NextLine)
		}
		used := 0
		for _, s := range row {
			words := Escape(s.Words)
			if n := Columns(words); used+n > width {
				words = Fit(words, width-used, false)
			}
			screen.Words(s.Style, words)
			used += Columns(words)
		}
		// In the last column a terminal stands before its wrap: clearing there would take
		// the character itself.
		if used < width {
			screen.Control(ClearRight)
		}
	}
	if len(rows) < height {
		screen.Control(NextLine)
		screen.Control(ClearBelow)
	}
	return screen
}

// keys leaves when told to, or when there are no more keys.
func keys(in io.Reader, leave func()) {
	defer leave()
	var key [16]byte
	for {
		n, err := in.Read(key[:])
		for _, k := range key[:n] {
			switch k {
			case 'q', 'Q', 3, 4:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Columns counts the columns that a text takes.
func Columns(s string) int {
	n := 0
	for _, r := range s {
		n += RuneColumns(r)
	}
	return n
}

// RuneColumns counts the columns that a character takes.
func RuneColumns(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Fit makes a text exactly so many columns wide: cut with a mark, or filled.
func Fit(s string, width int, isRight bool) string {
	if Columns(s) > width {
		end := ""
		if width > 1 {
			end = "~"
		}
		s = begin(s, width-len(end)) + end
	}
	space := strings.Repeat(" ", max(0, width-Columns(s)))
	if isRight {
		return space + s
	}
	return s + space
}

// CutMiddle makes a name no wider than so many columns: paths and numbered names differ at
// their ends, so most of what stays is of the end.
func CutMiddle(s string, width int) string {
	if Columns(s) <= width || width < 2 {
		return s
	}
	head := (width - 1) / 3
	tail, used := len(s), 0
	for tail > 0 { // from the end, since a name may be long
		r, size := utf8.DecodeLastRuneInString(s[:tail])
		if used += RuneColumns(r); used > width-1-head {
			break
		}
		tail -= size
	}
	return begin(s, head) + "~" + s[tail:]
}

// begin is as much of a text as so many columns hold.
func begin(s string, width int) string {
	used := 0
	for i, r := range s {
		if used += RuneColumns(r); used > width {
			return s[:i]
		}
	}
	return s
}
