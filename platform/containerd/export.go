package containerd

import (
	"context"
	"fmt"
	"io"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/archive"
	"github.com/containerd/platforms"
	"github.com/distribution/reference"
)

// UnknownImage says that containerd does not have an image, or not enough of it to export.
type UnknownImage struct{ Name, Why string }

func (u *UnknownImage) Error() string {
	return fmt.Sprintf("containerd has no image %q: %s", u.Name, u.Why)
}

// Export gives an image that containerd has, as an OCI layout's tar. Its name may be short, as Docker's and the
// kubelet's are ("redis:7"). The error may be an *UnknownImage. The reader is to be closed.
func (p *Platform) Export(ctx context.Context, name string) (io.ReadCloser, error) {
	named, err := reference.ParseDockerRef(name)
	if err != nil {
		return nil, fmt.Errorf("image %q: %w", name, err)
	}
	full, doing := named.String(), "export image "+name+" from containerd"
	own := platforms.DefaultStrict() // of others, a node has not pulled the layers
	err = p.call(ctx, doing, func(ctx context.Context, c *client.Client) error {
		img, err := c.ImageService().Get(ctx, full)
		if gone(err) {
			return &UnknownImage{name, "crictl pull fetches it"}
		}
		if err != nil {
			return err
		}
		whole, _, _, lacking, err := images.Check(ctx, c.ContentStore(), img.Target, own)
		if err == nil && (!whole || len(lacking) > 0) {
			return &UnknownImage{name, "its layers were discarded after they were unpacked, as discard_unpacked_layers " +
				"in containerd's config.toml says (EKS and GKE set it): give --image-archive, of a file on each node"}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	go func() {
		_ = w.CloseWithError(p.transfer(ctx, doing, func(ctx context.Context, c *client.Client) error {
			return c.Export(ctx, w, archive.WithImage(c.ImageService(), full), archive.WithPlatform(own))
		}))
	}()
	return r, nil
}
