package terminal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode"

	"tare/terminal"
)

func TestEscape(t *testing.T) {
	for _, c := range []struct{ what, text, escaped, line string }{
		{"words", "nginx: worker é 日本", "nginx: worker é 日本", "nginx: worker é 日本"},
		{"a cleared screen", "\x1b[2J", `\u001b[2J`, `\u001b[2J`},
		{"a second line", "x\ny) Z\r\n", `x\ny) Z\r\n`, "x y) Z"},
		{"a tab", "tab\there", `tab\there`, "tab here"},
		{"C1 controls and DEL", "\u009b31m\u0085\x7f", `\u009b31m\u0085\u007f`, `\u009b31m \u007f`},
		{"not UTF-8", "\xff\xfe\x9b", `\xff\xfe\x9b`, `\xff\xfe\x9b`},
		{"half a character", "\xe6\x97", `\xe6\x97`, `\xe6\x97`},
		{"the replacement character itself", "\ufffd", "\ufffd", "\ufffd"},
		{"the other direction", "\u202egnp\u2066.\u200f", `\u202egnp\u2066.\u200f`, `\u202egnp\u2066.\u200f`},
		{"no width", "a\u200bb\ufeff\u00ad", `a\u200bb\ufeff\u00ad`, `a\u200bb\ufeff\u00ad`},
		{"separators", "a\u2028b\u2029", `a\u2028b\u2029`, "a b"},
		{"beyond 16 bits", "\U000e0041", `\udb40\udc41`, `\udb40\udc41`},
		{"a backslash", `back\012slash`, `back\012slash`, `back\012slash`},
	} {
		if got := terminal.Escape(c.text); got != c.escaped {
			t.Errorf("%s: %q, want %q", c.what, got, c.escaped)
		}
		if got := terminal.Line(c.text); got != c.line {
			t.Errorf("%s, a line: %q, want %q", c.what, got, c.line)
		}
	}
}

// steers finds what a terminal would obey.
func steers(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) })
}

func FuzzEscape(f *testing.F) {
	f.Add("\x1b[2J\n\u009b\xff\u202e\U000e0041\\")
	f.Fuzz(func(t *testing.T, text string) {
		once := terminal.Escape(text)
		if steers(once) {
			t.Errorf("%q becomes %q", text, once)
		}
		if again := terminal.Escape(once); again != once {
			t.Errorf("%q becomes %q, and that %q", text, once, again)
		}
		// Escaped JSON is the same JSON.
		var whole, part bytes.Buffer
		stream := terminal.To(&whole)
		if err := json.NewEncoder(stream).Encode(text); err != nil {
			t.Fatal(err)
		}
		var back string
		if err := json.Unmarshal(whole.Bytes(), &back); err != nil || back != strings.ToValidUTF8(text, "\ufffd") && !strings.ContainsRune(back, '\ufffd') {
			t.Errorf("%q comes back as %q (%v)", text, back, err)
		}
		// In pieces it is the same as at once.
		whole.Reset()
		fmt.Fprint(stream, text)
		pieces := terminal.To(&part)
		for i := range len(text) {
			if _, err := pieces.Write([]byte{text[i]}); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = stream.End(), pieces.End()
		if whole.String() != part.String() {
			t.Errorf("%q at once is %q, in pieces %q", text, whole.String(), part.String())
		}
	})
}

// What is printed is escaped, what the format says is not; an error's lines are one.
func TestFprintf(t *testing.T) {
	var b strings.Builder
	terminal.Fprintf(&b, "%s\t%d\t%5.1f %q %v %-4s|\n", "a\nb\x1b", 7, 1.25, "\x1b", errors.Join(errors.New("one"), errors.New("two\x1b")), "é")
	terminal.Fprintln(&b, "forged:", "\ny", 3)
	if want := "a\\nb\\u001b\t7\t  1.2 \"\\x1b\" one two\\u001b é   |\nforged: \\ny 3\n"; b.String() != want {
		t.Errorf("printed %q, want %q", b.String(), want)
	}
}

// Our own styling reaches the stream, whatever the words are; nobody else's does.
func TestText(t *testing.T) {
	var b bytes.Buffer
	out := terminal.To(&b)
	var text terminal.Text
	text.Words(terminal.Red, "\x1b[0mred\n")
	text.Words(terminal.Bold, "")
	text.Newline()
	if err := text.Print(out); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(out, "\x1b[31m\ttaken\r\n")
	terminal.Overwrite(out, "a\x1b long name", 10)
	terminal.Overwrite(out, "", 0)
	terminal.LeaveScreen.Print(out)
	want := "\x1b[31m" + `\u001b[0mred\n` + "\x1b[0m\n" + `\u001b[31m` + "\ttaken" + `\r` + "\n\r\x1b[K" + `a\u001b ~` + "\r\x1b[K\x1b[?25h\x1b[?1049l"
	if b.String() != want {
		t.Errorf("printed\n%q, want\n%q", b.String(), want)
	}
}

// A program that reads a document gets its bytes.
func TestDocument(t *testing.T) {
	var b bytes.Buffer
	if _, err := io.WriteString(terminal.Document(terminal.To(&b)), "\u202e\xff\x1b"); err != nil || b.String() != "\u202e\xff\x1b" {
		t.Errorf("%q, %v", b.String(), err)
	}
}
