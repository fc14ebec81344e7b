package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// MostLayers is how many layers an image may have: what Docker's layer store
// takes (moby, layer/layer_store.go, maxLayerDepth), and less than the 128 that its
// overlay2 driver mounts over one another.
const MostLayers = 125

// Layered gives the image with so many layers in which one of its top directories
// is there again and again, each copy whole and at the same place, so that the
// uppermost hides all below: what building an image upon an image leaves. A
// program inside sees the same file system in all of them, so that the digest is
// the image's own and the root is shared; only its archive, its reference and its
// size are another's. The archive holds the copy once.
func (s *Store) Layered(ctx context.Context, img Image, dir string, layers int) (Image, error) {
	top := strings.Trim(dir, "/")
	switch {
	case layers < 1 || layers > MostLayers:
		return Image{}, fmt.Errorf("image %s in %d layers: want 1 to %d, which is what Docker takes", img.Name, layers, MostLayers)
	case layers == 1:
		return img, nil
	case top == "" || strings.Contains(top, "/") || top == "." || top == "..":
		return Image{}, fmt.Errorf("image %s in %d layers: %q is not one of its top directories", img.Name, layers, dir)
	}
	if err := needRoot("adding layers to an image"); err != nil {
		return Image{}, err
	}
	sum := sha256.Sum256([]byte(img.Reference + "\x00" + top))
	pointer := fmt.Sprintf("layered-%s-%d", hex.EncodeToString(sum[:8]), layers)
	release, err := s.lock(ctx, "layered-"+idOf(img))
	if err != nil {
		return Image{}, err
	}
	defer release()
	if known, err := s.built(pointer); err == nil {
		known.Config = img.Config
		return known, nil
	}
	made, err := s.layer(ctx, img, top, layers)
	if err == nil {
		err = s.point(ctx, pointer, made)
	}
	return made, s.fault(fmt.Sprintf("make image %s in %d layers", img.Name, layers), err)
}

// layer makes the layered image's archive.
func (s *Store) layer(ctx context.Context, img Image, top string, layers int) (Image, error) {
	defer s.step(fmt.Sprintf("making %s in %d layers", img.Name, layers), 0, nil)()
	w, err := s.begin(ctx)
	if err != nil {
		return Image{}, err
	}
	defer w.end()
	base, err := writeLayer(ctx, w.path("base.tar"), img.Root, img.Root)
	if err != nil {
		return Image{}, err
	}
	if base.digest != img.Digest {
		return Image{}, fmt.Errorf("its root %s is not what it was when the image was made: somebody wrote to it; remove the image store", img.Root)
	}
	copied, err := writeLayer(ctx, w.path("copy.tar"), img.Root, filepath.Join(img.Root, top))
	if err != nil {
		return Image{}, err
	}
	if copied.size == 0 {
		return Image{}, errors.New("/" + top + " holds no file")
	}
	of := make([]writtenLayer, layers)
	of[0] = base
	for i := 1; i < layers; i++ {
		of[i] = copied
	}
	img.Name = fmt.Sprintf("%s, %d layers", img.Name, layers)
	img.Size += int64(layers-1) * copied.size
	return s.finishLayers(ctx, w, img, of...)
}
