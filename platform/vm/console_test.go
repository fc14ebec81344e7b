package vm

import (
	"fmt"
	"strings"
	"testing"
)

func TestAConsolesEndIsOneLineOfText(t *testing.T) {
	c := newConsole()
	if c.tail() != "" {
		t.Errorf("of nothing: %q", c.tail())
	}
	fmt.Fprint(c, "\x1bc\x1b[?7l\x1b[2J\r\n\r\n[    0.5] Kernel panic - not syncing\r\n\x1b[0mend\x00\x07 of it")
	if got := c.tail(); got != "[    0.5] Kernel panic - not syncing | end of it" {
		t.Errorf("%q", got)
	}
	fmt.Fprint(c, "\n1\n2\n3\n4\n5\n")
	if got := c.tail(); got != "[    0.5] Kernel panic - not syncing | 2 | 3 | 4 | 5" {
		t.Errorf("%q", got)
	}
	for i := range 100_000 {
		fmt.Fprintf(c, "line %d\n", i)
	}
	if kept := c.Bytes(); len(kept) > consoleSize {
		t.Errorf("%d bytes are kept", len(kept))
	}
	if got := c.tail(); strings.Count(got, "|") != tailLines-1 || !strings.HasSuffix(got, "line 99999") {
		t.Errorf("%q", got)
	}
}
