package image

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// An image with a directory of the host has that in place of its own, owners and modes kept, and
// the image that it was made of stays as it was.
func TestWithDirectoriesOfTheHost(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making images needs root")
	}
	s, err := OpenStore(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	root, data := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(root, "bin/program"), "program")
	write(filepath.Join(root, "data/of-the-image"), "old")
	write(filepath.Join(data, "below/now"), "new")
	if err := os.Chown(filepath.Join(data, "below/now"), 33, 44); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(data, 0o700); err != nil {
		t.Fatal(err)
	}
	base, err := s.FromRootfs(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	made, err := s.With(t.Context(), base, []Given{{Source: data, Target: "/data"}, {Source: data, Target: "/made/for/it"}})
	if err != nil {
		t.Fatal(err)
	}
	if made.Digest == base.Digest || made.Root == base.Root {
		t.Errorf("the image is the same: %s", made.Digest)
	}
	for _, dir := range []string{"data", "made/for/it"} {
		info, err := os.Stat(filepath.Join(made.Root, dir, "below/now"))
		if err != nil {
			t.Fatal(err)
		}
		if stat := info.Sys().(*syscall.Stat_t); stat.Uid != 33 || stat.Gid != 44 || info.Mode().Perm() != 0o640 {
			t.Errorf("%s: owner %d:%d, mode %v", dir, stat.Uid, stat.Gid, info.Mode())
		}
		if info, err := os.Stat(filepath.Join(made.Root, dir)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", dir, info.Mode(), err)
		}
	}
	if _, err := os.Stat(filepath.Join(made.Root, "data/of-the-image")); err == nil {
		t.Error("what the image has there is still seen")
	}
	if _, err := os.Stat(filepath.Join(base.Root, "data/of-the-image")); err != nil {
		t.Error(err)
	}
	if _, err := s.With(t.Context(), base, []Given{{Source: filepath.Join(data, "gone"), Target: "/data"}}); err == nil {
		t.Error("a directory that is gone was copied")
	}
}
