package guest

import (
	"context"
	"errors"

	"tare/image"
)

// ImageDisk makes a read-only disk of an image's root at path, whole: owners, modes,
// times, extended attributes, device nodes. A disk that is there already is kept: a
// path is to name its image's digest. It is made beside path and renamed.
func ImageDisk(ctx context.Context, img image.Image, path string) error {
	return errors.ErrUnsupported
}

// ScratchDisk makes an empty disk of that size at path, sparse.
func ScratchDisk(ctx context.Context, path string, size int64) error {
	return errors.ErrUnsupported
}
