package docker

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"tare/image"
	"tare/platform"
)

// stack is an image whose root has a tree, in so many layers.
func stack(t *testing.T, layers int) image.Image {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make an image")
	}
	root := t.TempDir()
	for name, size := range map[string]int{"tree/hidden": 300_000, "kept": 10} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	store, err := image.OpenStore(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	img, err := store.FromRootfs(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if img, err = store.Layered(t.Context(), img, "/tree", layers); err != nil {
		t.Fatal(err)
	}
	return img
}

func TestFlatten(t *testing.T) {
	p, ledger, _ := real(t)
	const layers = 4
	img := stack(t, layers)
	if err := p.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	before := len(ledger.open())
	flat, err := p.Flatten(t.Context(), img)
	if err != nil {
		t.Fatal(err)
	}
	if flat.Before.Layers != layers || flat.After.Layers != 1 || flat.Took <= 0 {
		t.Errorf("flattened as %+v", flat)
	}
	if flat.Before.Bytes < layers*300_000 || flat.After.Bytes < 300_000 || flat.After.Bytes >= 2*300_000 {
		t.Errorf("%d bytes became %d, of %d layers of 300000 and more", flat.Before.Bytes, flat.After.Bytes, layers)
	}
	if n := len(ledger.open()); n != before+1 {
		t.Errorf("%d entries in the ledger, want one more than %d: %+v", n, before, ledger.open())
	}
	// It is launched by the reference alone, and its config is given anew.
	if present, err := p.holds(t.Context(), flat.Image.Reference); err != nil || !present {
		t.Errorf("the engine has the flattened image: %t, %v", present, err)
	}
	again, err := p.Flatten(t.Context(), img)
	if err != nil {
		t.Fatal(err)
	}
	if again.Image.Reference == flat.Image.Reference {
		t.Error("two flattened images have one name")
	}
	if err := p.Discard(t.Context(), flat.Image); err != nil {
		t.Error(err)
	}
	if present, err := p.holds(t.Context(), flat.Image.Reference); err != nil || present {
		t.Errorf("the engine has the discarded image: %t, %v", present, err)
	}
	if err := p.Discard(t.Context(), img); err == nil || !strings.Contains(err.Error(), "left alone") {
		t.Errorf("an image that was not flattened was discarded: %v", err)
	}
	if err := p.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if left := ledger.open(); len(left) > 0 {
		t.Errorf("left after the release: %+v", left)
	}
	for _, reference := range []string{again.Image.Reference, img.Reference} {
		if present, err := p.holds(t.Context(), reference); err != nil || present {
			t.Errorf("%s is there after the release: %t, %v", reference, present, err)
		}
	}
}

// What a killed tare leaves of a flattening, another removes by the ledger.
func TestFlattenedIsRemovedByItsEntry(t *testing.T) {
	p, ledger, _ := real(t)
	img := stack(t, 2)
	if err := p.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	flat, err := p.Flatten(t.Context(), img)
	if err != nil {
		t.Fatal(err)
	}
	other := New(Options{StateDir: t.TempDir()})
	for _, e := range ledger.open() {
		if err := other.Remove(t.Context(), e); err != nil {
			t.Errorf("%+v: %v", e, err)
		}
	}
	if present, err := p.holds(t.Context(), flat.Image.Reference); err != nil || present {
		t.Errorf("it is there still: %t, %v", present, err)
	}
}

func TestFlattenThatFailsLeavesNothing(t *testing.T) {
	no := refuse(http.StatusInternalServerError, "no such luck")
	for name, c := range map[string]struct {
		at    string
		fault func(http.ResponseWriter, *http.Request)
		says  string
	}{
		"the container cannot be made": {stepCreate, no, "no such luck"},
		"the export is refused":        {stepExport, no, "no such luck"},
		"the import is refused":        {stepImport, no, "no such luck"},
		"the import fails within": {stepImport, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"error":"bad tar","errorDetail":{"message":"bad tar"}}`)
		}, "bad tar"},
		"the export breaks off": {stepExport, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, "short")
		}, "flatten image x"},
		"the engine dies": {stepImport, die, "went away"},
	} {
		t.Run(name, func(t *testing.T) {
			engine, p, ledger := newFakeEngine(t, map[string]func(http.ResponseWriter, *http.Request){
				c.at: c.fault,
				stepImage: func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodDelete {
						fmt.Fprint(w, "[]")
						return
					}
					fmt.Fprint(w, `{"Size":1000,"RootFS":{"Layers":["one","two"]}}`)
				},
			})
			if _, ok := engine.fault[stepExport]; !ok {
				engine.fault[stepExport] = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a tar") }
			}
			if _, ok := engine.fault[stepImport]; !ok {
				engine.fault[stepImport] = func(w http.ResponseWriter, r *http.Request) {
					if _, err := io.Copy(io.Discard, r.Body); err == nil {
						fmt.Fprint(w, `{"status":"sha256:0"}`)
					}
				}
			}
			_, err := p.Flatten(t.Context(), image.Image{Name: "x", Reference: "tare.local/x:1"})
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%v, want %q", err, c.says)
			}
			// Where the engine refused, nothing came to be; where it went, it may
			// have the image yet, and the entry stays for tare clean.
			var left []string
			for _, e := range ledger.open() {
				left = append(left, e.Kind)
			}
			if want := map[bool][]string{true: {kindImage}}[errors.Is(err, platform.ErrGone)]; !slices.Equal(left, want) {
				t.Errorf("after %v the ledger has %q, want %q", err, left, want)
			}
		})
	}
}

func TestLayering(t *testing.T) {
	p, _, _ := real(t)
	got, err := p.Layering(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	info, err := p.client.Info(t.Context(), client.InfoOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Driver == "" || got.Driver != info.Info.Driver {
		t.Errorf("%+v, the engine says %q", got, info.Info.Driver)
	}
}

func TestNoRoom(t *testing.T) {
	_, p, ledger := newFakeEngine(t, nil)
	err := p.room(t.Context(), image.Image{Name: "huge", Size: 1 << 60})
	if _, serr := os.Stat("/var/lib/docker"); serr != nil {
		t.Skip("needs the directory that the fake engine names, /var/lib/docker")
	}
	if err == nil || !strings.Contains(err.Error(), "load image huge into the engine: it takes up to 1.5EiB") || !strings.Contains(err.Error(), "/var/lib/docker") {
		t.Errorf("an image larger than any disk: %v", err)
	}
	if err := p.room(t.Context(), image.Image{Name: "small", Size: 1}); err != nil {
		t.Errorf("an image of one byte: %v", err)
	}
	if len(ledger.open()) > 0 {
		t.Error("something was entered in the ledger")
	}
}
