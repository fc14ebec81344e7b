package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/kernel/procfs"
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

// Where the links of the first process cannot be read, tare's own network is the host's.
func TestOwnNetwork(t *testing.T) {
	const name = "net:[1]"
	for _, c := range []struct {
		first, self, container string
		want                   bool
	}{
		{name, "net:[2]", name, false},
		{name, name, "net:[2]", true},
		{"", name, name, false},
		{"", name, "net:[2]", true},
		{name, name, "", true},
		{"", "", "", true},
	} {
		proc := procfs.FS(t.TempDir())
		for pid, link := range map[int]string{1: c.first, os.Getpid(): c.self, 7: c.container} {
			path := proc.Process(pid).Path("ns/net")
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if link != "" {
				if err := os.Symlink(link, path); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := ownNetwork(proc, 7); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
