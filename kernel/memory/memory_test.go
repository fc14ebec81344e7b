package memory

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMapAnonymous(t *testing.T) {
	m, err := MapAnonymous(2 * os.Getpagesize())
	if err != nil {
		t.Fatal(err)
	}
	m.Bytes()[8] = 7
	if len(m.Words()) != 2*os.Getpagesize()/8 || m.Words()[1] == 0 || m.Address()%uint64(os.Getpagesize()) != 0 {
		t.Errorf("%d words, the second is %d, at %#x", len(m.Words()), m.Words()[1], m.Address())
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := m.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	if _, err := MapAnonymous(0); err == nil {
		t.Error("nothing was mapped without an error")
	}
}

func TestMapShared(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(int64(os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	m, err := MapShared(int(f.Fd()), os.Getpagesize())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := f.WriteAt([]byte("tare"), 0); err != nil {
		t.Fatal(err)
	}
	if got := string(m.Bytes()[:4]); got != "tare" {
		t.Errorf("what was written reads as %q", got)
	}
}
