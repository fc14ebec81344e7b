package bpf

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every committed object is of the committed sources, and of all that they may include: whoever
// changes one has to make the object anew.
func TestObjectsAreOfTheirSources(t *testing.T) {
	headers, err := filepath.Glob("*.h")
	if err != nil {
		t.Fatal(err)
	}
	objects := 0
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != "../.." && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir // not of the sources, and written by others meanwhile
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_bpfel.o") {
			return err
		}
		objects++
		pkg := filepath.Dir(path)
		sources, err := filepath.Glob(filepath.Join(pkg, "bpf", "*.c"))
		if err != nil {
			return err
		}
		of := sums(t, strings.TrimSuffix(path, ".o")+".sha256")
		for _, source := range append(sources, headers...) {
			text, err := os.ReadFile(source)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(text)
			if of[source] != hex.EncodeToString(sum[:]) {
				t.Errorf("%s is not what %s was compiled from: go generate ./%s", source, path, strings.TrimPrefix(pkg, "../../"))
			}
			delete(of, source)
		}
		for source := range of {
			t.Errorf("%s was compiled from %s, which is no more", path, source)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if objects == 0 || len(headers) == 0 {
		t.Errorf("found %d objects and %d headers: this says nothing", objects, len(headers))
	}
}

// sums are what sha256sum wrote in the directory that the file is in: by path from here.
func sums(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	of := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok {
			t.Fatalf("%s: %q is no line of sha256sum's", file, lines.Text())
		}
		if inside, ok := strings.CutPrefix(name, "../../kernel/bpf/"); ok {
			of[inside] = sum
		} else {
			of[filepath.Join(filepath.Dir(file), name)] = sum
		}
	}
	return of
}
