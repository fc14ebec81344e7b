package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// finish makes the image whose root file system stands in w: the canonical
// layer, its digest, the archive for engines, and its place in the store.
func (s *Store) finish(ctx context.Context, w *work, img Image) (Image, error) {
	l, err := writeLayer(ctx, w.path("layer.tar"), w.root, w.root)
	if err != nil {
		return Image{}, err
	}
	img.Digest, img.Size = l.digest, l.size
	return s.finishLayers(ctx, w, img, l)
}

// finishLayers makes the archive of an image from its layers, the lowest first,
// and enters the image in the store.
func (s *Store) finishLayers(ctx context.Context, w *work, img Image, layers ...writtenLayer) (Image, error) {
	config, err := json.Marshal(engineConfig(img, s.arch, layers))
	if err != nil {
		return Image{}, err
	}
	id := sha256.Sum256(config)
	hexID := hex.EncodeToString(id[:])
	// The tag is the engine's own image ID, so that two images that differ in
	// nothing but a command do not take each other's name.
	img.Reference = "tare.local/" + referenceName(img.Name) + ":" + hexID[:12]
	if err := writeArchive(w.path("archive.tar"), layers, config, hexID, img.Reference); err != nil {
		return Image{}, fmt.Errorf("write archive of %s: %w", img.Name, err)
	}
	return s.commit(ctx, w, img, hexID)
}

// writtenLayer is a layer as it lies in a file.
type writtenLayer struct {
	layer
	path string
}

// writeLayer writes what lies at from, the root or below it, as a layer.
func writeLayer(ctx context.Context, path, root, from string) (l writtenLayer, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return l, err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	l.path = path
	holes := &holeWriter{file: f}
	buffered := bufio.NewWriterSize(holes, 1<<20)
	if l.layer, err = writeCanonicalFrom(ctx, buffered, root, from); err != nil {
		return l, err
	}
	return l, errors.Join(buffered.Flush(), holes.finish())
}

// engineConfig is the OCI image configuration. It holds nothing that differs
// from one build to the next.
func engineConfig(img Image, arch string, layers []writtenLayer) v1.ConfigFile {
	c := v1.ConfigFile{
		Architecture: arch,
		OS:           "linux",
		Created:      v1.Time{Time: canonicalTime.UTC()},
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			Env:        img.Config.Env,
			Entrypoint: img.Config.Entrypoint,
			Cmd:        img.Config.Cmd,
			WorkingDir: img.Config.WorkingDir,
			User:       img.Config.User,
		},
	}
	for _, l := range layers {
		digest, _ := v1.NewHash(l.digest) // ours, well-formed
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, digest)
		c.History = append(c.History, v1.History{Created: v1.Time{Time: canonicalTime.UTC()}, CreatedBy: "tare: " + img.Name})
	}
	for _, v := range img.Config.Volumes {
		if c.Config.Volumes == nil {
			c.Config.Volumes = map[string]struct{}{}
		}
		c.Config.Volumes[v] = struct{}{}
	}
	for _, p := range img.Config.Ports {
		if c.Config.ExposedPorts == nil {
			c.Config.ExposedPorts = map[string]struct{}{}
		}
		c.Config.ExposedPorts[strconv.Itoa(p)+"/tcp"] = struct{}{}
	}
	return c
}

// writeArchive writes a docker-archive, not compressed: it is loaded from the
// local disk, where compression only costs time. A layer that is there several
// times is written once, and named each time.
func writeArchive(path string, layers []writtenLayer, config []byte, id, reference string) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	var names []string
	for _, l := range layers {
		names = append(names, strings.TrimPrefix(l.digest, "sha256:")+".tar")
	}
	manifest, err := json.Marshal(tarball.Manifest{{
		Config:   id + ".json",
		RepoTags: []string{reference},
		Layers:   names,
	}})
	if err != nil {
		return err
	}
	holes := &holeWriter{file: f}
	buffered := bufio.NewWriterSize(holes, 1<<20)
	tw := tar.NewWriter(buffered)
	// The manifest comes first, so that a reader of a stream need not keep the rest.
	if err := addPart(tw, "manifest.json", int64(len(manifest)), bytes.NewReader(manifest)); err != nil {
		return err
	}
	if err := addPart(tw, id+".json", int64(len(config)), bytes.NewReader(config)); err != nil {
		return err
	}
	for i, l := range layers {
		if slices.Contains(names[:i], names[i]) {
			continue
		}
		if err := addFile(tw, names[i], l); err != nil {
			return err
		}
	}
	if err := tw.Close(); err != nil {
		return err
	}
	return errors.Join(buffered.Flush(), holes.finish())
}

func addFile(tw *tar.Writer, name string, l writtenLayer) error {
	content, err := os.Open(l.path)
	if err != nil {
		return err
	}
	defer content.Close()
	return addPart(tw, name, l.bytes, content)
}

func addPart(tw *tar.Writer, name string, size int64, content io.Reader) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size, ModTime: canonicalTime}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(tw, content)
	return err
}

// referenceName makes a repository name of a name for people: runs of what
// repository names may not hold become one '-'.
func referenceName(name string) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(name) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			if gap && b.Len() > 0 {
				b.WriteByte('-')
			}
			gap = false
			b.WriteRune(r)
			continue
		}
		gap = true
	}
	const longest = 100 // of the 255 that a whole reference may have
	switch out := b.String(); {
	case out == "":
		return "image"
	case len(out) > longest:
		return strings.Trim(out[:longest], "-")
	default:
		return out
	}
}
