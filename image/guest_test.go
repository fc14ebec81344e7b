package image

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// What machines are made of is nothing to weigh, and no list offers it.
func TestGuestPartsAreNoWorkloads(t *testing.T) {
	s, err := OpenStore(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []GuestPart{GuestKernel, GuestTools, GuestDebian} {
		if slices.Contains(s.Recipes(), string(part)) {
			t.Errorf("%s is offered as a recipe", part)
		}
		if _, err := s.Recipe(t.Context(), string(part)); err == nil {
			t.Errorf("%s was built as a workload's image", part)
		}
		if !slices.Contains(LockedRecipes(), string(part)) {
			t.Errorf("%s is not locked", part)
		}
	}
	if _, err := s.Guest(t.Context(), "compiler"); err == nil {
		t.Error("a compiler was given as a part of virtual machines")
	}
	s.arch = "riscv64"
	var missing *Missing
	if _, err := s.Guest(t.Context(), GuestKernel); !errors.As(err, &missing) {
		t.Errorf("%v, want a *Missing", err)
	}
}

// However a distribution compresses modules, a machine gets them plain.
func TestPlainModule(t *testing.T) {
	content := bytes.Repeat([]byte("a module of the kernel's "), 1000)
	gz := func() []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(content)
		_ = w.Close()
		return b.Bytes()
	}
	zst := func() []byte {
		w, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		return w.EncodeAll(content, nil)
	}
	xz := func() []byte {
		cmd := exec.Command("xz", "-c")
		cmd.Stdin = bytes.NewReader(content)
		out, err := cmd.Output()
		if err != nil {
			t.Skip("no xz: apt-get install xz-utils")
		}
		return out
	}
	for name, packed := range map[string]func() []byte{
		"x.ko": func() []byte { return content }, "x.ko.gz": gz, "x.ko.zst": zst, "x.ko.xz": xz,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			from, to := filepath.Join(dir, name), filepath.Join(dir, "plain")
			if err := os.WriteFile(from, packed(), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := plainModule(t.Context(), from, to); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%d bytes came out, %v", len(got), err)
			}
		})
	}
	// A frame of one byte, whose window of 256 MiB would be taken in memory (RFC 8878, 3.1.1.1.2).
	wide := filepath.Join(t.TempDir(), "x.ko.zst")
	if err := os.WriteFile(wide, []byte("\x28\xb5\x2f\xfd\x00\x90\x09\x00\x00x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := plainModule(t.Context(), wide, wide+".plain"); !errors.Is(err, zstd.ErrWindowSizeExceeded) {
		t.Errorf("a window of 256 MiB: %v", err)
	}
	odd := filepath.Join(t.TempDir(), "x.ko.lzma")
	if err := os.WriteFile(odd, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := plainModule(t.Context(), odd, odd+".plain"); err == nil || !strings.Contains(err.Error(), "x.ko.lzma") {
		t.Errorf("%v, want the file named", err)
	}
}

// Of two kernels, none is chosen by chance.
func TestOnlyMatch(t *testing.T) {
	root := t.TempDir()
	for i, name := range []string{"boot/vmlinuz-1", "boot/vmlinuz-2"} {
		if err := os.MkdirAll(filepath.Join(root, "boot"), 0o755); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if _, err := onlyMatch(root, "boot/vmlinuz-*"); err == nil {
				t.Error("a kernel was found where there is none")
			}
		}
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		found, err := onlyMatch(root, "boot/vmlinuz-*")
		if one := i == 0; one != (err == nil) || one && found != filepath.Join(root, name) {
			t.Errorf("of %d kernels: %q, %v", i+1, found, err)
		}
	}
}

// Nothing of the packages' other files stays in a machine's kernel.
func TestReplaceRoot(t *testing.T) {
	root, kept := t.TempDir(), t.TempDir()
	for _, name := range []string{"usr/share/much", "usr/lib/more"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(kept, "boot"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := replaceRoot(root, kept); err != nil {
		t.Fatal(err)
	}
	var names []string
	err := filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
		names = append(names, strings.TrimPrefix(name, root))
		return err
	})
	if err != nil || !slices.Equal(names, []string{"", "/boot"}) {
		t.Errorf("%q, %v", names, err)
	}
}
