package image

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestLayers(t *testing.T) {
	archive := func(files map[string]string) Image {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, name := range []string{"layer/layer.tar", "manifest.json"} {
			text, ok := files[name]
			if !ok {
				continue
			}
			if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: 0o644}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "image.tar")
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return Image{Name: "x", Archive: path}
	}
	n, err := Layers(archive(map[string]string{"layer/layer.tar": "....", "manifest.json": `[{"Config":"c","Layers":["a","b","c"]}]`}))
	if err != nil || n != 3 {
		t.Errorf("%d layers, %v; want 3", n, err)
	}
	for name, files := range map[string]map[string]string{
		"no manifest": {"layer/layer.tar": "...."},
		"two images":  {"manifest.json": `[{"Layers":["a"]},{"Layers":["b"]}]`},
		"no JSON":     {"manifest.json": `[{"Layers":`},
	} {
		if n, err := Layers(archive(files)); err == nil {
			t.Errorf("%s: %d layers and no error", name, n)
		}
	}
}
