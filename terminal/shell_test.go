package terminal_test

import (
	"os/exec"
	"strings"
	"testing"

	"tare/terminal"
)

func TestShell(t *testing.T) {
	for _, c := range []struct{ word, want string }{
		{"--vary", "--vary"},
		{"a b", "'a b'"},
		{"it's", `'it'\''s'`},
		{"", "''"},
		{"$(id)", "'$(id)'"},
		{"lxc.payload.x;id>y", "'lxc.payload.x;id>y'"},
		{"~root", "'~root'"},
		{"é", "'é'"},
		{"\x1b[2J", `$'\x1b[2J'`},
		{"a\nb", `$'a\x0ab'`},
		{"two  spaces", `$'two\x20\x20spaces'`},
	} {
		if got := terminal.Shell(c.word); got != c.want {
			t.Errorf("%q is quoted %s, want %s", c.word, got, c.want)
		}
	}
}

// A shell makes the same word of it, also when it was shown on a page's line.
func FuzzShell(f *testing.F) {
	for _, word := range []string{"web", "$(id)`id`", "a'b\"c\\", "x\n;id", "\u202e\xff", "!!", "-n", "{a,b}", "a  b "} {
		f.Add(word)
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		f.Skip(err)
	}
	f.Fuzz(func(t *testing.T, word string) {
		if strings.ContainsRune(word, 0) || len(word) > 1<<12 {
			return // no argument of a program
		}
		shown := terminal.Line(terminal.Shell(word))
		got, err := exec.Command(bash, "-c", "printf %s "+shown).Output()
		if strings.HasPrefix(word, "-") { // printf's own flag
			got, err = exec.Command(bash, "-c", "printf %s x"+shown).Output()
			word = "x" + word
		}
		if err != nil || string(got) != word {
			t.Errorf("%q is shown as %s, which is %q (%v)", word, shown, got, err)
		}
	})
}
