package docker

import (
	"context"
	"fmt"
	"os"

	"github.com/docker/go-units"

	"tare/image"
	"tare/kernel/mount"
	"tare/platform/engine"
)

// room refuses an image that the engine's disk could not hold, before the engine
// has filled it. An engine whose disk cannot be seen from here is not asked.
func (p *Platform) room(ctx context.Context, img image.Image) error {
	info, err := p.engine(ctx)
	if err != nil {
		return err
	}
	free, err := mount.Free(info.DockerRootDir)
	if err != nil {
		return nil
	}
	packed := int64(0)
	if archive, err := os.Stat(img.Archive); err == nil {
		packed = archive.Size()
	}
	if need := uint64(needs(img.Size, packed)); free < need {
		return &engine.Error{
			Doing: "load image " + img.Name + " into the engine",
			Message: fmt.Sprintf("it takes up to %s, and the engine's disk (%s) has %s left; free some, such as by docker image prune",
				units.BytesSize(float64(need)), info.DockerRootDir, units.BytesSize(float64(free))),
		}
	}
	return nil
}

// needs is how much loading takes at most: the archive, which the engine puts
// beside its images first, and the files, of which small ones take half as much
// again for the blocks that they do not fill.
func needs(files, archive int64) int64 { return archive + files + files/2 }
