package image

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// finish makes the image whose root file system stands in w: the canonical
// layer, its digest, the archive for engines, and its place in the store.
func (s *Store) finish(ctx context.Context, w *work, img Image) (Image, error) {
	l, err := writeLayer(ctx, w.path("layer.tar"), w.root)
	if err != nil {
		return Image{}, err
	}
	img.Digest, img.Size = l.digest, l.size
	config, err := json.Marshal(engineConfig(img, s.arch))
	if err != nil {
		return Image{}, err
	}
	id := sha256.Sum256(config)
	hexID := hex.EncodeToString(id[:])
	// The tag is the engine's own image ID, so that two images that differ in
	// nothing but a command do not take each other's name.
	img.Reference = "tare.local/" + referenceName(img.Name) + ":" + hexID[:12]
	if err := writeArchive(w.path("archive.tar"), w.path("layer.tar"), l, config, hexID, img.Reference); err != nil {
		return Image{}, fmt.Errorf("write archive of %s: %w", img.Name, err)
	}
	return s.commit(ctx, w, img, hexID)
}

func writeLayer(ctx context.Context, path, root string) (l layer, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return layer{}, err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	buffered := bufio.NewWriterSize(f, 1<<20)
	if l, err = writeCanonical(ctx, buffered, root); err != nil {
		return layer{}, err
	}
	return l, buffered.Flush()
}

// engineConfig is the OCI image configuration. It holds nothing that differs
// from one build to the next.
func engineConfig(img Image, arch string) v1.ConfigFile {
	digest, _ := v1.NewHash(img.Digest) // ours, well-formed
	c := v1.ConfigFile{
		Architecture: arch,
		OS:           "linux",
		Created:      v1.Time{Time: canonicalTime.UTC()},
		RootFS:       v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{digest}},
		History:      []v1.History{{Created: v1.Time{Time: canonicalTime.UTC()}, CreatedBy: "tare: " + img.Name}},
		Config: v1.Config{
			Env:        img.Config.Env,
			Entrypoint: img.Config.Entrypoint,
			Cmd:        img.Config.Cmd,
			WorkingDir: img.Config.WorkingDir,
			User:       img.Config.User,
		},
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

// writeArchive writes a docker-archive with one layer, not compressed: it is
// loaded from the local disk, where compression only costs time.
func writeArchive(path, layerPath string, l layer, config []byte, id, reference string) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	layerName := strings.TrimPrefix(l.digest, "sha256:") + ".tar"
	manifest, err := json.Marshal(tarball.Manifest{{
		Config:   id + ".json",
		RepoTags: []string{reference},
		Layers:   []string{layerName},
	}})
	if err != nil {
		return err
	}
	content, err := os.Open(layerPath)
	if err != nil {
		return err
	}
	defer content.Close()
	buffered := bufio.NewWriterSize(f, 1<<20)
	tw := tar.NewWriter(buffered)
	for _, part := range []struct {
		name string
		size int64
		r    io.Reader
	}{
		// The manifest comes first, so that a reader of a stream need not keep the rest.
		{"manifest.json", int64(len(manifest)), strings.NewReader(string(manifest))},
		{id + ".json", int64(len(config)), strings.NewReader(string(config))},
		{layerName, l.bytes, content},
	} {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: part.name, Mode: 0o644, Size: part.size, ModTime: canonicalTime}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(tw, part.r); err != nil {
			return err
		}
	}
	if err := tw.Close(); err != nil {
		return err
	}
	return buffered.Flush()
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
