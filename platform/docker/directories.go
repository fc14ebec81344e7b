package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/moby/moby/client"

	"tare/image"
	"tare/platform"
	"tare/platform/engine"
)

// archiveOf is an archive of empty directories, parents first.
func archiveOf(directories []string) (io.Reader, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, dir := range directories {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}); err != nil {
			return nil, fmt.Errorf("data directory /%s: %w", dir, err)
		}
	}
	return &archive, w.Close()
}

// withDirectories gives the reference of the image with empty directories in it,
// as one more layer. It is made once, and removed by Release.
func (p *Platform) withDirectories(ctx context.Context, img image.Image, directories []string) (_ string, err error) {
	p.load.Lock()
	defer p.load.Unlock()
	sum := sha256.Sum256([]byte(img.Reference + "\x00" + strings.Join(directories, "\x00")))
	name, _, _ := strings.Cut(strings.TrimPrefix(img.Reference, ourImages), ":")
	reference := ourImages + name + "-directories:" + hex.EncodeToString(sum[:8])
	if present, err := p.holds(ctx, reference); err != nil || present {
		return reference, err
	}
	container, remove, err := p.atRest(ctx, img, engine.NewMark())
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, remove()) }()
	archive, err := archiveOf(directories)
	if err != nil {
		return "", err
	}
	err = p.call(ctx, "add data directories to image "+img.Name, func(ctx context.Context) error {
		_, err := p.client.CopyToContainer(
			ctx,
			container,
			client.CopyToContainerOptions{DestinationPath: "/", Content: archive},
		)
		return err
	})
	if err != nil {
		return "", err
	}
	done, err := p.ledger.Add(platform.Entry{Platform: p.name, Kind: kindImage, ID: reference})
	if err != nil {
		return "", fmt.Errorf("enter image %s in the ledger: %w", reference, err)
	}
	p.mu.Lock()
	if p.images[reference] == nil { // else somebody removed it, and the entry stands
		p.images[reference] = done
	} else {
		defer done()
	}
	p.made[reference] = true
	p.mu.Unlock()
	return reference, p.requests.Transfer(ctx, "add data directories to image "+img.Name, func(ctx context.Context) error {
		_, err := p.client.ContainerCommit(ctx, container, client.ContainerCommitOptions{Reference: reference})
		return err
	})
}
