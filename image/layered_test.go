package image

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// layeredBase is an image with a tree of its own.
func layeredBase(t *testing.T, s *Store) Image {
	t.Helper()
	root := t.TempDir()
	for name, content := range map[string]string{"tree/a/one": "one", "tree/two": "three", "other/file": "not hidden"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	img, err := s.FromRootfs(t.Context(), root)
	if missing := new(Missing); errors.As(err, &missing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// archiveParts reads an archive's small parts whole, and of its layers the names inside.
func archiveParts(t *testing.T, path string) (layers []string, config v1.ConfigFile, entries map[string][]string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	entries = map[string][]string{}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return layers, config, entries
		}
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case h.Name == "manifest.json":
			var manifest []struct{ Layers []string }
			if err := json.NewDecoder(r).Decode(&manifest); err != nil {
				t.Fatal(err)
			}
			layers = manifest[0].Layers
		case strings.HasSuffix(h.Name, ".json"):
			if err := json.NewDecoder(r).Decode(&config); err != nil {
				t.Fatal(err)
			}
		default:
			if entries[h.Name] != nil {
				t.Errorf("%s is in the archive twice", h.Name)
			}
			for inner := tar.NewReader(r); ; {
				h2, err := inner.Next()
				if err != nil {
					break
				}
				entries[h.Name] = append(entries[h.Name], h2.Name)
			}
		}
	}
}

func TestLayered(t *testing.T) {
	s := openTestStore(t)
	base := layeredBase(t, s)
	img, err := s.Layered(t.Context(), base, "/tree", 5)
	if err != nil {
		t.Fatal(err)
	}
	if img.Reference == base.Reference || img.Archive == base.Archive || img.Digest != base.Digest || img.Root != base.Root {
		t.Errorf("%+v of %+v", img, base)
	}
	if want := base.Size + 4*int64(len("one")+len("three")); img.Size != want {
		t.Errorf("its size is %d, want %d", img.Size, want)
	}
	if n, err := Layers(img); err != nil || n != 5 {
		t.Errorf("%d layers, %v", n, err)
	}
	layers, config, entries := archiveParts(t, img.Archive)
	if len(entries) != 2 || len(config.RootFS.DiffIDs) != 5 || len(config.History) != 5 {
		t.Fatalf("%d layers in the archive, %+v", len(entries), config)
	}
	for i, name := range layers {
		if config.RootFS.DiffIDs[i].Hex+".tar" != name {
			t.Errorf("layer %d is %s and has the digest %s", i, name, config.RootFS.DiffIDs[i])
		}
		if i > 0 && !slices.Equal(entries[name], []string{"tree/", "tree/a/", "tree/a/one", "tree/two"}) {
			t.Errorf("layer %d holds %q", i, entries[name])
		}
	}
	// Made once.
	before, err := os.Stat(img.Archive)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Layered(t.Context(), base, "tree", 5)
	if err != nil || again.Reference != img.Reference {
		t.Errorf("again: %+v, %v", again, err)
	}
	if after, err := os.Stat(again.Archive); err != nil || !os.SameFile(before, after) {
		t.Errorf("it was made a second time (%v)", err)
	}
	if one, err := s.Layered(t.Context(), base, "/tree", 1); err != nil || one.Reference != base.Reference {
		t.Errorf("one layer is %+v, %v; want the image itself", one, err)
	}
	// The base goes with it, having the same root.
	if err := s.Remove(t.Context(), base.Digest); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(img.Archive); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the archive outlives its root: %v", err)
	}
}

func TestLayeredRefuses(t *testing.T) {
	s := openTestStore(t)
	base := layeredBase(t, s)
	for name, c := range map[string]struct {
		dir    string
		layers int
		says   string
	}{
		"no layer":          {"/tree", 0, "want 1 to 125"},
		"more than allowed": {"/tree", MostLayers + 1, "want 1 to 125"},
		"the whole root":    {"/", 2, "top directories"},
		"one below":         {"/tree/a", 2, "top directories"},
		"out of the root":   {"..", 2, "top directories"},
		"one that is not":   {"/absent", 2, "absent"},
		"one without files": {"/proc", 2, "no file"},
	} {
		_, err := s.Layered(t.Context(), base, c.dir, c.layers)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	if err := os.WriteFile(filepath.Join(base.Root, "tree/two"), []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Layered(t.Context(), base, "/tree", 2); err == nil || !strings.Contains(err.Error(), "somebody wrote to it") {
		t.Errorf("a root that was written to: %v", err)
	}
}

// The recipe's files are as many as its names say, the same each time, and the
// tree is a tree.
func TestFilesOfNoise(t *testing.T) {
	var sums []string
	for range 2 {
		dir := t.TempDir()
		for _, d := range []string{FilesShelf, FilesLower, FilesTree} {
			if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := fillFiles(dir); err != nil {
			t.Fatal(err)
		}
		l, err := writeCanonical(t.Context(), io.Discard, dir)
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, l.digest)
		if l.size > 120<<20 {
			t.Errorf("%d bytes of files", l.size)
		}
		directories, files, deepest := 0, 0, 0
		err = filepath.WalkDir(filepath.Join(dir, FilesTree), func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				directories++
				rest, _ := filepath.Rel(filepath.Join(dir, FilesTree), path)
				deepest = max(deepest, strings.Count(rest, "/")+1)
			} else {
				files++
			}
			return nil
		})
		if err != nil || directories != FilesTreeDirectories+1 || files != FilesTreeFiles || deepest > treeDepth {
			t.Errorf("%d directories, %d files, %d deep, %v", directories, files, deepest, err)
		}
	}
	if sums[0] != sums[1] {
		t.Error("made twice, they differ")
	}
}
