package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A program of the host's goes in with its loader and its libraries, wherever it lay.
func TestHostRoot(t *testing.T) {
	program, err := filepath.EvalSymlinks("/bin/ls")
	if err != nil {
		t.Skip("this host has no ls")
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(t.TempDir(), "mine")
	if err := os.WriteFile(mine, text, 0o700); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	root := HostRoot{Programs: map[string]string{"/gpu/exact/lu": mine, "/gpu/ptx/lu": mine}, Directories: []string{"/usr/local/nvidia/lib64"}}
	if err := root.Lay(to); err != nil {
		t.Fatal(err)
	}
	for _, inside := range []string{"gpu/exact/lu", "gpu/ptx/lu"} {
		info, err := os.Stat(filepath.Join(to, inside))
		if err != nil || info.Mode().Perm() != 0o755 || info.Size() != int64(len(text)) {
			t.Errorf("%s: %v, %v", inside, info, err)
		}
	}
	if info, err := os.Stat(filepath.Join(to, "usr/local/nvidia/lib64")); err != nil || !info.IsDir() {
		t.Errorf("a directory is %v, %v", info, err)
	}
	// What the program needs is there as it finds it: by following from the new root alone.
	again, err := reach(to, []string{"/gpu/exact/lu"})
	if err != nil {
		t.Fatalf("it cannot start from what was laid: %v", err)
	}
	libc := false
	for name := range again.files {
		libc = libc || strings.Contains(name, "libc.so")
	}
	if !libc {
		t.Errorf("no C library among %v", again.files)
	}
	if _, err := os.Stat(filepath.Join(to, mine)); err == nil {
		t.Error("the program's place on the host is inside")
	}
}

func TestHostRootRefuses(t *testing.T) {
	if err := (HostRoot{Programs: map[string]string{"/x": filepath.Join(t.TempDir(), "none")}}).Lay(t.TempDir()); err == nil {
		t.Error("a program that is not there")
	}
	if err := (HostRoot{Libraries: []string{"/etc/hostname"}}).Lay(t.TempDir()); err == nil {
		t.Error("a library that is none")
	}
}
