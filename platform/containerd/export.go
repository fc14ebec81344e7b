package containerd

import (
	"context"
	"fmt"
	"io"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images/archive"
	"github.com/containerd/platforms"
	"github.com/distribution/reference"
)

// Export gives an image that containerd has, as an OCI layout's tar. found is false where it has none of that name,
// which may be short, as Docker's and the kubelet's are ("redis:7"). The reader is to be closed.
func (p *Platform) Export(ctx context.Context, name string) (stream io.ReadCloser, found bool, err error) {
	named, err := reference.ParseDockerRef(name)
	if err != nil {
		return nil, false, fmt.Errorf("image %q: %w", name, err)
	}
	full, doing := named.String(), "export image "+name+" from containerd"
	err = p.call(ctx, doing, func(ctx context.Context, c *client.Client) error {
		_, err := c.ImageService().Get(ctx, full)
		return err
	})
	if err != nil {
		if gone(err) {
			err = nil
		}
		return nil, false, err
	}
	r, w := io.Pipe()
	go func() {
		_ = w.CloseWithError(p.transfer(ctx, doing, func(ctx context.Context, c *client.Client) error {
			whole := archive.WithImage(c.ImageService(), full)
			// Of other platforms, a node has not pulled the layers.
			return c.Export(ctx, w, whole, archive.WithPlatform(platforms.DefaultStrict()))
		}))
	}()
	return r, true, nil
}
