package memory

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMapFile(t *testing.T) {
	for _, shared := range []bool{false, true} {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, []byte("before"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m, err := MapFile(f, os.Getpagesize(), shared)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if err := m.SmallPages(); err != nil {
			t.Error(err)
		}
		copy(m.Bytes(), "after.")
		if err := m.Forget(); err != nil {
			t.Fatal(err)
		}
		want := map[bool]string{false: "before", true: "after."}[shared]
		if got := string(m.Bytes()[:6]); got != want {
			t.Errorf("shared %t: %q, want %q", shared, got, want)
		}
		if b, err := os.ReadFile(name); err != nil || string(b) != want {
			t.Errorf("shared %t: the file is %q, want %q", shared, b, want)
		}
	}
}
