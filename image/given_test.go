package image

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	kernelfile "tare/kernel/file"
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
	was, err := os.Stat(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.With(t.Context(), base, []Given{{Source: data, Target: "/data", Was: was}}); err == nil {
		t.Error("a directory that took the place of another was copied")
	}
	if _, err := s.With(t.Context(), base, []Given{{Source: filepath.Join(data, "gone"), Target: "/data"}}); err == nil {
		t.Error("a directory that is gone was copied")
	}
}

// changing is a writer that changes what is copied, as soon as a name has been written: at that moment its file or
// directory has been looked at.
type changing struct {
	bytes.Buffer
	name   string
	change func()
}

func (c *changing) Write(p []byte) (int, error) {
	if c.change != nil && bytes.Contains(p, []byte(c.name)) {
		c.change()
		c.change = nil
	}
	return c.Buffer.Write(p)
}

// TestCopyOfAChangingTree: a container that lays links in its volume while root copies that has no file of the host's
// copied, and keeps nobody waiting.
func TestCopyOfAChangingTree(t *testing.T) {
	const secret = "a secret of the host's"
	host := t.TempDir()
	if err := os.WriteFile(filepath.Join(host, "secret"), []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, laid := range map[string]struct {
		instead string // of which name
		lay     func(at string) error
	}{
		"a link for a file":      {"file", func(at string) error { return os.Symlink(filepath.Join(host, "secret"), at) }},
		"a link for a directory": {"directory", func(at string) error { return os.Symlink(host, at) }},
		"a link for all":         {"", func(at string) error { return os.Symlink(host, at) }},
		"a pipe":                 {"file", func(at string) error { return exec.Command("mkfifo", at).Run() }},
	} {
		volume := filepath.Join(t.TempDir(), "volume")
		other := strings.Repeat("x", len(secret))
		err := errors.Join(os.MkdirAll(filepath.Join(volume, "directory"), 0o755),
			os.WriteFile(filepath.Join(volume, "directory/secret"), []byte(other), 0o600),
			os.WriteFile(filepath.Join(volume, "secret"), []byte(other), 0o600),
			os.WriteFile(filepath.Join(volume, "file"), []byte(other), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(volume, laid.instead)
		out := &changing{name: cmp.Or(laid.instead, "directory"), change: func() {
			if err := errors.Join(os.Rename(at, volume+"-before"), laid.lay(at)); err != nil {
				t.Error(err)
			}
		}}
		pinned, err := kernelfile.Pin(volume)
		if err != nil {
			t.Fatal(err)
		}
		defer pinned.Close()
		err = writeMarked(t.Context(), out, pinned)
		if out.change != nil || strings.Contains(out.String(), secret) {
			t.Errorf("%s: changed %t, copied the secret %t, %v", what, out.change == nil, strings.Contains(out.String(), secret), err)
		}
	}
}
