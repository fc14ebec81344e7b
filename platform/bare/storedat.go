package bare

import (
	"context"

	"tare/platform"
)

var _ platform.Storing = (*host)(nil)

// StoredAt implements [platform.Storing]: all lies below tare's own directory.
func (h *host) StoredAt(_ context.Context, s platform.Storage) (dir string, err error) {
	if s == platform.StorageTmpfs {
		return "", nil
	}
	return h.options.StateDir, nil
}
