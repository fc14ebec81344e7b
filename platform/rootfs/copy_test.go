package rootfs

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Data directories are copied for every instance, into memory where they lie on a tmpfs.
func TestCopiesKeepHoles(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	const length = 64 << 20
	if err := os.WriteFile(filepath.Join(from, "sparse"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(from, "sparse"), length); err != nil {
		t.Fatal(err)
	}
	if err := copyTree(from, to); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(to, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	if used := info.Sys().(*syscall.Stat_t).Blocks * 512; info.Size() != length || used > length/2 {
		t.Errorf("%d bytes that take %d, want %d in a hole", info.Size(), used, length)
	}
}
