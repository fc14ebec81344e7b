package causes

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"
)

// WriteFolded writes stacks as the tools that draw flame graphs read them: a line a
// stack, "PROGRAM;OUTERMOST;...;INNERMOST MICROSECONDS".
func WriteFolded(w io.Writer, stacks []Stack) error {
	b := bufio.NewWriter(w)
	for _, s := range stacks {
		frames := []string{foldable(s.Program)}
		for i := len(s.Frames) - 1; i >= 0; i-- {
			frames = append(frames, foldable(s.Frames[i]))
		}
		if s.Waiting {
			frames = append(frames, "[preempted]")
		}
		if _, err := fmt.Fprintf(b, "%s %d\n", strings.Join(frames, ";"), s.Time/time.Microsecond); err != nil {
			return err
		}
	}
	return b.Flush()
}

// foldable keeps what parts frames and lines out of a name: a thread may be called
// anything.
func foldable(name string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case ';', '\n', '\r':
			return '_'
		}
		return r
	}, name)
}
