package cli

import (
	"strings"
	"testing"
)

func TestAdviseWithoutRuns(t *testing.T) {
	home := t.TempDir()
	for _, c := range []struct {
		line string
		code int
		says string
	}{
		{"advise", exitFailure, "nothing has been measured yet"},
		{"advise --as nomad", exitUsage, "want one of compose, docker, kubernetes, systemd"},
		{"advise a b", exitUsage, "at most 1 argument"},
	} {
		code, _, stderr := tare(t, home, strings.Fields(c.line)...)
		if code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: code %d: %s; want %d, %q", c.line, code, stderr, c.code, c.says)
		}
	}
}
