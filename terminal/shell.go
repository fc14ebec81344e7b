package terminal

import (
	"fmt"
	"strings"
)

// Shell writes words as a shell takes them: a command that is shown to be copied may hold names that
// others chose.
func Shell(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = shellWord(w)
	}
	return strings.Join(quoted, " ")
}

func shellWord(w string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("@%_+=:,./-", r)
	}
	switch {
	case w != "" && strings.IndexFunc(w, func(r rune) bool { return !plain(r) }) < 0:
		return w
	case Line(w) != w:
		return shellBytes(w)
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// shellBytes quotes a word that must not be shown as it is, or whose spaces a page would join.
func shellBytes(w string) string {
	var b strings.Builder
	b.WriteString("$'")
	for i := range len(w) {
		if c := w[i]; c <= ' ' || c >= 0x7f || c == '\'' || c == '\\' {
			fmt.Fprintf(&b, "\\x%02x", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String() + "'"
}
