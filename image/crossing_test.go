package image

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/continuity/sysx"
)

// furnished is a root with one of each kind of thing that a program could notice.
func furnished(t *testing.T) (root string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to keep owners of files")
	}
	root = t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(root, "dir/sub"), 0o755),
		os.WriteFile(filepath.Join(root, "dir/file"), []byte("content\n"), 0o640),
		os.Link(filepath.Join(root, "dir/file"), filepath.Join(root, "dir/other")),
		os.Symlink("file", filepath.Join(root, "dir/link")),
		exec.Command("mkfifo", filepath.Join(root, "fifo")).Run(),
		os.WriteFile(filepath.Join(root, ".wh.odd"), nil, 0o644), // no whiteout here
		os.Lchown(filepath.Join(root, "dir/file"), 12, 34),
		os.Chmod(filepath.Join(root, "dir/file"), 0o640|fs.ModeSetgid),
		os.Chmod(filepath.Join(root, "dir/sub"), 0o777|fs.ModeSticky),
		sysx.LSetxattr(filepath.Join(root, "dir/file"), "user.kept", []byte("value"), 0),
	} {
		if err != nil && !errors.Is(err, syscall.ENOTSUP) {
			t.Fatal(err)
		}
	}
	return root
}

// An image arrives in another store as it left: its digest is made anew there.
func TestAnImageArrivesAsItLeft(t *testing.T) {
	root := furnished(t)
	var layer bytes.Buffer
	digest, err := WriteLayer(t.Context(), &layer, root)
	if err != nil {
		t.Fatal(err)
	}
	store, err := OpenStore(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	sent := Image{Name: "sent", Digest: digest, Config: Config{Env: []string{"A=1"}}}
	if _, err := store.Lookup(sent); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before: %v", err)
	}
	got, err := store.Receive(t.Context(), sent, bytes.NewReader(layer.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := WriteLayer(t.Context(), &bytes.Buffer{}, got.Root); err != nil || again != digest {
		t.Errorf("it arrived as %s (%v), and left as %s", again, err, digest)
	}
	if has, err := store.HasRoot(digest); err != nil || !has {
		t.Errorf("has it: %v, %v", has, err)
	}
	if found, err := store.Lookup(sent); err != nil || found.Root != got.Root || found.Reference == "" {
		t.Errorf("found %+v, %v", found, err)
	}
	// Under another name and configuration it need not come again.
	sent.Name, sent.Config = "renamed", Config{Env: []string{"A=2"}}
	renamed, err := store.Receive(t.Context(), sent, nil)
	if err != nil || renamed.Root != got.Root || renamed.Reference == got.Reference {
		t.Errorf("renamed: %+v, %v", renamed, err)
	}
}

// Engines do not show what is called like a removal mark, and a root that has it says so.
func TestNamesLikeRemovalMarks(t *testing.T) {
	root := furnished(t)
	img, err := openTestStore(t).FromRootfs(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if len(img.Warnings) != 1 || !strings.Contains(img.Warnings[0], `1 of its names begin with .wh. (".wh.odd")`) {
		t.Errorf("warned of %q", img.Warnings)
	}
	if _, err := os.Stat(filepath.Join(img.Root, ".wh.odd")); err != nil {
		t.Error(err)
	}
}

// What is not what it is said to be, or does not come whole, is refused, and nothing of
// it is kept.
func TestAnImageThatIsNotWhatItIsSaidToBe(t *testing.T) {
	root := furnished(t)
	var layer bytes.Buffer
	digest, err := WriteLayer(t.Context(), &layer, root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	store, err := OpenStore(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := "sha256:" + strings.Repeat("0", 64)
	whole := layer.Bytes()
	for name, c := range map[string]struct {
		digest string
		layer  []byte
	}{
		"another digest": {other, whole},
		"no digest":      {"../../etc", whole},
		"cut in a file":  {digest, whole[:len(whole)/3]},
		"no tar":         {digest, []byte(strings.Repeat("nonsense", 1000))},
		"nothing":        {digest, []byte{}},
	} {
		_, err := store.Receive(t.Context(), Image{Name: "x", Digest: c.digest}, bytes.NewReader(c.layer))
		if err == nil {
			t.Errorf("%s: taken", name)
		}
		for _, part := range []string{"roots", "archives", "index", "tmp"} {
			if left, _ := os.ReadDir(filepath.Join(dir, part)); len(left) > 0 {
				t.Errorf("%s: left %v in %s", name, left, part)
			}
		}
	}
	if _, err := store.Receive(t.Context(), Image{Name: "x", Digest: digest}, nil); err == nil {
		t.Error("took what never came")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.Receive(ctx, Image{Name: "x", Digest: digest}, bytes.NewReader(whole)); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
}
