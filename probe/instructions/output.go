package instructions

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// parse reads what cachegrind says at its end, a line a process:
//
//	==2925== I   refs:      40,378,947
//
// A process that was forked says one, too, with all that was before the fork in it:
// then no sum is right, and it is refused.
func parse(r io.Reader) (uint64, error) {
	var found bool
	var count uint64
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), "==")
		if !ok {
			continue
		}
		_, text, _ = strings.Cut(text, "== ")
		what, number, ok := strings.Cut(text, ":")
		if !ok || strings.Join(strings.Fields(what), " ") != "I refs" {
			continue
		}
		if found {
			return 0, fmt.Errorf("several processes were counted, whose counts cannot be distinguished; a program that forks cannot be counted so")
		}
		n, err := strconv.ParseUint(strings.ReplaceAll(strings.TrimSpace(number), ",", ""), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("line %q: %w", lines.Text(), err)
		}
		found, count = true, n
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	if !found {
		return 0, fmt.Errorf("no line with a count of instructions (I refs)")
	}
	return count, nil
}
