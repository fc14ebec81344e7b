package hugepages

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// planted is a directory as a kernel has it.
func planted(t *testing.T, files map[string]string) Directory {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Directory(dir)
}

func TestWhatIsInForce(t *testing.T) {
	const pmd, own, all = "hpage_pmd_size", "hugepages-2048kB/enabled", "enabled"
	for name, c := range map[string]struct {
		files    map[string]string
		inForce  string
		settable string // the reason why not
	}{
		"an older kernel":         {map[string]string{all: "[always] madvise never\n"}, "always", ""},
		"a size that inherits":    {map[string]string{all: "always [madvise] never\n", pmd: "2097152\n", own: "always [inherit] madvise never\n"}, "madvise", ""},
		"a size of its own":       {map[string]string{all: "[always] madvise never\n", pmd: "2097152\n", own: "always inherit madvise [never]\n"}, "never", "inherit"},
		"another size of its own": {map[string]string{all: "[always] madvise never\n", pmd: "2097152\n", "hugepages-64kB/enabled": "always inherit madvise [never]\n"}, "always", ""},
		"a size that is no size":  {map[string]string{all: "[always] madvise never\n", pmd: "huge\n"}, "always", ""},
	} {
		d := planted(t, c.files)
		if got, err := d.InForce(); got != c.inForce || err != nil {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.inForce)
		}
		if err := d.Settable(); (err == nil) != (c.settable == "") || err != nil && !strings.Contains(err.Error(), c.settable) {
			t.Errorf("%s: settable: %v, want %q", name, err, c.settable)
		}
	}
	none := planted(t, nil)
	if _, err := none.InForce(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without huge pages: %v", err)
	}
	if err := none.Settable(); err == nil || !strings.Contains(err.Error(), "no transparent huge pages") {
		t.Errorf("without huge pages: settable: %v", err)
	}
	if _, err := planted(t, map[string]string{all: "always madvise\n"}).Set(); err == nil {
		t.Error("no word is chosen, and one was read")
	}
}
