package platform

import (
	"context"
	"time"

	"tare/image"
)

// Layerer is a platform whose engine keeps images as layers, and can make one
// layer of all.
type Layerer interface {
	Platform
	// Layering says how the engine keeps images.
	Layering(ctx context.Context) (Layering, error)
	// Flatten makes one layer of an image that was prepared: what a container of
	// it sees is exported, and imported as another image. It is removed by Discard,
	// and else by Release.
	Flatten(ctx context.Context, img image.Image) (Flattened, error)
	// Discard removes an image that Flatten made.
	Discard(ctx context.Context, img image.Image) error
}

// Layering is how an engine keeps images.
type Layering struct {
	Driver  string // of its storage: "overlay2"
	Backing string // the file system below it, as the engine names it: "extfs"; empty where it does not say
	// MostLayers is how many layers an image may have, as far as that is
	// documented; 0 is not known.
	MostLayers int
}

// Flattened is an image of one layer, and what it took to make it.
type Flattened struct {
	Image         image.Image   // launched as any other; it has no archive
	Took          time.Duration // to export and import, the making of the container left out
	Before, After Stored
}

// Stored is an image as the engine has it.
type Stored struct {
	Bytes  int64 // the engine's own account, what upper layers hide included
	Layers int
}
