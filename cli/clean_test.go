package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The help of clean names all that it takes away.
func TestCleanSaysWhatItRemoves(t *testing.T) {
	long := new(app).clean().Long
	for _, want := range []string{"processes", "cgroups", "mounts", "containers", "images", "swapoff", "swap files", "zram", "settings", "tare place"} {
		if !strings.Contains(long, want) {
			t.Errorf("nothing is said of %s:\n%s", want, long)
		}
	}
}

// What a killed writer has left of the store goes, too.
func TestCleanMendsTheStore(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, as clean does")
	}
	home := t.TempDir()
	store := filepath.Join(home, storeFile)
	for path, text := range map[string]string{store: "", store + ".next": "", store + ".lock": "0644\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	left := "file " + store + ".next\nVERB mode 0600 of " + store + ", which was 0644\n"
	for _, c := range []struct{ verb, flag string }{{"would remove", "--dry-run"}, {"removed", "--dry-run=false"}} {
		want := c.verb + " " + strings.ReplaceAll(left, "VERB", c.verb)
		if code, out, errOut := tare(t, home, "clean", c.flag); code != exitSuccess || out != want {
			if strings.Contains(out, "a run goes on") {
				t.Skip(out)
			}
			t.Errorf("%s: code %d, %q, want %q: %s", c.flag, code, out, want, errOut)
		}
	}
	if info, err := os.Stat(store); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("the store has %v: %v", info, err)
	}
}
