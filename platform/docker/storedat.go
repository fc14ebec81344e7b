package docker

import (
	"context"

	"tare/platform"
)

var _ platform.Storing = (*Platform)(nil)

// StoredAt implements [platform.Storing]. Layers and volumes lie below the engine's
// own directory, what is bound in ours.
func (p *Platform) StoredAt(ctx context.Context, s platform.Storage) (dir string, err error) {
	switch s {
	case platform.StorageTmpfs:
		return "", nil
	case platform.StorageBind:
		return p.stateDir, nil
	}
	info, err := p.engine(ctx)
	if err != nil {
		return "", err
	}
	return info.DockerRootDir, nil
}
