package small

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRead holds what is read against what the library reads.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	for _, size := range []int{0, 1, first - 1, first, first + 1, 2 * first, 100_000} {
		file := filepath.Join(dir, "file")
		if err := os.WriteFile(file, []byte(strings.Repeat("x\ny ", size/4+1)[:size]), 0o600); err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Read(file)
		if err != nil || string(got) != string(want) {
			t.Errorf("of %d bytes %d came, %v", size, len(got), err)
		}
	}
	for _, file := range []string{"/proc/self/status", "/proc/filesystems", "/proc/self/mountinfo"} {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Read(file)
		// What the first line is does not change.
		if line, _, _ := strings.Cut(string(want), "\n"); err != nil || !strings.HasPrefix(string(got), line+"\n") || len(got) < len(want)/2 {
			t.Errorf("%s: %d bytes, %v: want some %d", file, len(got), err, len(want))
		}
	}
}

func TestReadMost(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	text := strings.Repeat("x", 3*first)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, most := range []int{0, 1, first, len(text) - 1, len(text), len(text) + 1} {
		want := min(most, len(text))
		got, isCut, err := ReadMost(file, most)
		if err != nil || string(got) != text[:want] || isCut != (want < len(text)) {
			t.Errorf("at most %d of %d bytes: %d came, cut %v, %v", most, len(text), len(got), isCut, err)
		}
	}
	// A file without an end.
	if got, isCut, err := ReadMost("/dev/zero", 10_000); err != nil || len(got) != 10_000 || !isCut {
		t.Errorf("of /dev/zero %d bytes came, cut %v, %v", len(got), isCut, err)
	}
}

func TestReadNothing(t *testing.T) {
	var where *fs.PathError
	if _, err := Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &where) || where.Op != "open" {
		t.Errorf("no such file: %v", err)
	}
	if _, err := Read(t.TempDir()); !errors.As(err, &where) || where.Op != "read" {
		t.Errorf("a directory: %v", err)
	}
}

// BenchmarkRead is beside the library's.
func BenchmarkRead(b *testing.B) {
	for b.Loop() {
		if _, err := Read("/proc/swaps"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadFile(b *testing.B) {
	for b.Loop() {
		if _, err := os.ReadFile("/proc/swaps"); err != nil {
			b.Fatal(err)
		}
	}
}
