package agent

import (
	"context"
	"errors"
	"io"

	"tare/platform"
)

// Server is what an agent has to give.
type Server struct {
	// Version is tare's own; a client of another is refused.
	Version string
	// Platforms gives a platform by its name, over the agent's own ledger.
	Platforms func(name string) (platform.Platform, error)
	// ImageDir is where images that cross are kept.
	ImageDir string
	// Mount mounts the image that lies on a block device of the agent's host and gives
	// its root; nil where images come by the stream alone.
	Mount func(ctx context.Context, device, digest string) (root string, err error)
	// Phases are what it took until the agent was there.
	Phases []Phase
	// PowerOff ends the agent's machine; nil where that is refused.
	PowerOff func()
}

// Serve serves one client until the stream ends.
func (s *Server) Serve(ctx context.Context, conn io.ReadWriteCloser) error {
	return errors.ErrUnsupported
}
