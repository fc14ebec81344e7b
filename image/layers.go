package image

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Layers counts the layers of an image's archive, as an engine that loads it
// mounts them.
func Layers(img Image) (int, error) {
	f, err := os.Open(img.Archive)
	if err != nil {
		return 0, fmt.Errorf("image %s: %w", img.Name, err)
	}
	defer f.Close()
	// A tar.Reader seeks over what it is not asked to read.
	n, err := countLayers(tar.NewReader(f))
	if err != nil {
		return 0, fmt.Errorf("image %s: archive %s: %w", img.Name, img.Archive, err)
	}
	return n, nil
}

func countLayers(t *tar.Reader) (int, error) {
	const manifestLimit = 1 << 20
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return 0, errors.New("it has no manifest.json")
		}
		if err != nil {
			return 0, err
		}
		if h.Name != "manifest.json" {
			continue
		}
		var manifest []struct{ Layers []string }
		if err := json.NewDecoder(io.LimitReader(t, manifestLimit)).Decode(&manifest); err != nil {
			return 0, fmt.Errorf("manifest.json: %w", err)
		}
		if len(manifest) != 1 {
			return 0, fmt.Errorf("manifest.json names %d images, want one", len(manifest))
		}
		return len(manifest[0].Layers), nil
	}
}
