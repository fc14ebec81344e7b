package containerd

import (
	"context"
	"errors"

	"github.com/containerd/containerd/v2/client"

	"tare/platform"
)

var _ platform.Storing = (*Platform)(nil)

// errNoRoot: containerd need not tell where a snapshotter keeps what it holds.
var errNoRoot = errors.New("containerd does not tell where its " + snapshotter + " snapshotter keeps layers")

// StoredAt implements [platform.Storing]. Layers lie where the snapshotter says that it
// keeps them, what is bound in our own directory.
func (p *Platform) StoredAt(ctx context.Context, s platform.Storage) (dir string, err error) {
	switch s {
	case platform.StorageTmpfs:
		return "", nil
	case platform.StorageBind:
		return p.options.StateDir, nil
	}
	err = p.call(ctx, "ask containerd where it keeps layers", func(ctx context.Context, c *client.Client) error {
		answer, err := c.IntrospectionService().Plugins(ctx, "type==io.containerd.snapshotter.v1,id=="+snapshotter)
		if err != nil {
			return err
		}
		for _, plugin := range answer.Plugins {
			if dir = plugin.Exports["root"]; dir != "" {
				return nil
			}
		}
		return errNoRoot
	})
	return dir, err
}
