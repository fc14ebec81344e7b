package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"tare/kernel/filesystem/fusetest"
	"tare/kernel/mount"
	"tare/kernel/procfs"
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

func TestFewFilesAreRead(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	r := &Recording{files: map[File]string{}}
	for _, path := range []string{first, second} {
		if err := os.WriteFile(path, text, 0o755); err != nil {
			t.Fatal(err)
		}
		r.files[numbers(t, path)] = path
	}
	names, err := r.Names()
	if err != nil {
		t.Fatal(err)
	}
	device := numbers(t, first).Device
	numbered := fmt.Sprintf("%d:%d", device>>8&0xfff, device&0xff|device>>12&^0xff)
	names.mounts = []procfs.Mount{{Device: numbered, Point: "/", Root: "/"}}
	names.left = 1
	names.Function(Site{File: numbers(t, first)})
	names.Function(Site{File: numbers(t, second)})
	if names.files[numbers(t, first)] == nil || names.files[numbers(t, second)] != nil {
		t.Error("not the first alone is read")
	}
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

// The way to a mount may lead through one that does not answer.
func TestAMountBehindOneThatIsServed(t *testing.T) {
	if !fusetest.Apart(t) {
		return
	}
	s := fusetest.Mount(t, 4096)
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := mount.Bind(plain, s.File(), false); err != nil {
		t.Fatal(err)
	}
	s.Silence()
	s.Ends(t, "a mount", func() {
		if f, err := open(s.File(), "", numbers(t, plain)); err == nil {
			f.Close()
			t.Error("it is opened")
		}
	})
}
