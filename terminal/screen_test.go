package terminal

import (
	"strings"
	"testing"
	"testing/iotest"
)

func TestKeys(t *testing.T) {
	for in, unread := range map[string]int{"": 0, "abc": 0, "q": 0, "xyQz": 1, "\x03": 0, "\x1b[A\x04zz": 2} {
		r := strings.NewReader(in)
		gone := false
		keys(iotest.OneByteReader(r), func() { gone = true })
		if !gone || r.Len() != unread {
			t.Errorf("%q: left %t with %d keys unread, want %d", in, gone, r.Len(), unread)
		}
	}
}

func TestWidths(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Fit("abcdef", 4, false), "abc~"}, {Fit("ab", 4, true), "  ab"}, {Fit("ab", 4, false), "ab  "}, {Fit("ab", 1, false), "a"},
		{Fit("日本語", 4, false), "日~ "}, {Fit("日本", 4, false), "日本"}, {Fit("ab", 0, false), ""},
		{CutMiddle("/system.slice/web-1", 10), "/sy~/web-1"}, {CutMiddle("日本語日本語", 6), "~本語"}, {CutMiddle("web", 3), "web"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// A name that another chose may be of any length: what it takes grows with that, and not with its square.
func TestLongNamesAreCut(t *testing.T) {
	long := strings.Repeat("日", 1<<20)
	if got := CutMiddle(long+"end", 8); got != "日~日end" {
		t.Errorf("%q", got)
	}
}

func TestFrameCutsAndEscapes(t *testing.T) {
	rows := []Row{{{Bold, "日本"}, {Plain, "a\x1b[2Jb"}}, {{Red, "hidden"}}}
	if got, want := Frame(rows, 8, 1).String(), "\x1b[H\x1b[1m日本\x1b[0ma\\u~"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := Frame(rows[1:], 8, 2).String(), "\x1b[H\x1b[31mhidden\x1b[0m\x1b[K\r\n\x1b[J"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
