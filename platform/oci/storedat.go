package oci

import (
	"context"

	"tare/platform"
)

var _ platform.Storing = (*oci)(nil)

// StoredAt implements [platform.Storing]: all lies below tare's own directory.
func (p *oci) StoredAt(_ context.Context, s platform.Storage) (dir string, err error) {
	if s == platform.StorageTmpfs {
		return "", nil
	}
	return p.options.StateDir, nil
}
