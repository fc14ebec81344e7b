package faults

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

func numbers(t *testing.T, path string) File {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	return File{stat.Dev, stat.Ino}
}

// What lies at a file's path is up to the container: only the very file is read.
func TestOnlyTheFileItselfIsRead(t *testing.T) {
	dir := t.TempDir()
	one, other := filepath.Join(dir, "one"), filepath.Join(dir, "other")
	for _, path := range []string{one, other} {
		if err := os.WriteFile(path, []byte(path), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("one", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	f, err := open(dir, "/one", numbers(t, one))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	wrong := map[string]File{"/other": numbers(t, one), "/link": numbers(t, one), "/absent": numbers(t, one)}
	pipe := filepath.Join(dir, "pipe")
	if exec.Command("mkfifo", pipe).Run() == nil {
		wrong["/pipe"] = numbers(t, pipe) // to open it would wait for ever
	}
	for path, want := range wrong {
		if f, err := open(dir, path, want); err == nil {
			f.Close()
			t.Errorf("%s is opened for %+v", path, want)
		}
	}
}
