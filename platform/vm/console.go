package vm

import (
	"slices"
	"strings"
	"tare/kernel/process"
	"unicode"
)

// consoleSize is how much of what a machine says is kept.
const consoleSize = 16 << 10

// console keeps the end of what a machine and its engine say.
type console struct{ process.Tail }

func newConsole() *console { return &console{process.Tail{Most: consoleSize}} }

// tailLines is how many lines of a console an error shows.
const tailLines = 4

// telling are what begins the reason of a machine's end, wherever it stands: the kernel's
// own, tare's in the machine, the engine's.
var telling = []string{"Kernel panic", "tare: ", "qemu-system-", "KVM internal error"}

// tail is the end of the console in one line, for an error: a machine's last words, and
// before them the reason of its end, where an earlier line tells it. What moves a
// terminal's cursor is left out.
func (c *console) tail() string {
	var lines []string
	for line := range strings.Lines(string(c.Bytes())) {
		if line = plain(line); line != "" {
			lines = append(lines, line)
		}
	}
	last := max(0, len(lines)-tailLines)
	shown := lines[last:]
	for i := last - 1; i >= 0; i-- {
		if slices.ContainsFunc(telling, func(word string) bool { return strings.Contains(lines[i], word) }) {
			shown = append([]string{lines[i]}, shown...)
			break
		}
	}
	return strings.Join(shown, " | ")
}

// plain leaves out what is no text: escape sequences (ECMA-48) and control characters.
func plain(line string) string {
	var b strings.Builder
	escape := 0 // 1: after ESC, 2: within a control sequence
	for _, r := range line {
		switch {
		case r == '\x1b':
			escape = 1
		case escape == 1 && r == '[':
			escape = 2
		case escape == 1:
			escape = 0
		case escape == 2:
			if r >= '@' && r <= '~' {
				escape = 0
			}
		case unicode.IsPrint(r):
			b.WriteRune(r)
		}
	}
	return strings.TrimSpace(b.String())
}
