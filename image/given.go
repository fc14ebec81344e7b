package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	kernelfile "tare/kernel/file"
)

// Given is a directory of the host whose content an image is given, in place of what it has
// at a directory of its own.
type Given struct {
	Source string // on the host
	Target string // inside, from its root
	// Was is what the source was when it was chosen: another in its place is refused. Nil takes any.
	Was os.FileInfo
}

// With gives the image with directories of the host copied into it, owners and modes kept.
// Sockets are left out. A file that changes while it is read ends it with an error.
func (s *Store) With(ctx context.Context, img Image, given []Given) (Image, error) {
	made, err := s.with(ctx, img, given)
	return made, s.fault("copy directories of the host into image "+img.Name, err)
}

func (s *Store) with(ctx context.Context, img Image, given []Given) (Image, error) {
	if err := needRoot("adding to an image"); err != nil {
		return Image{}, err
	}
	w, err := s.begin(ctx)
	if err != nil {
		return Image{}, err
	}
	defer w.end()
	limits := &budget{Limits: s.Limits}
	if err := copyInto(ctx, Given{Source: img.Root}, w.root, limits); err != nil {
		return Image{}, err
	}
	for _, g := range given {
		target, err := Resolve(w.root, g.Target)
		if err != nil {
			return Image{}, err
		}
		to := filepath.Join(w.root, target)
		if to == w.root {
			return Image{}, fmt.Errorf("%s: want a directory below the root", g.Target)
		}
		if err := os.RemoveAll(to); err != nil {
			return Image{}, err
		}
		if err := os.MkdirAll(to, 0o755); err != nil {
			return Image{}, err
		}
		ended := s.step("copying "+g.Source, 0, nil)
		err = copyInto(ctx, g, to, limits)
		ended()
		if err != nil {
			return Image{}, fmt.Errorf("copy %s: %w", g.Source, err)
		}
	}
	return s.adopt(ctx, w, img.Name, Image{Name: img.Name, Config: img.Config})
}

// copyInto copies a directory's content, and gives its owner and mode to the one that receives it.
func copyInto(ctx context.Context, g Given, to string, limits *budget) error {
	u, err := newUnpacker(g.Source, to, limits, copied)
	if err != nil {
		return err
	}
	defer u.close()
	from, err := kernelfile.Pin(g.Source)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Lstat()
	if err != nil {
		return err
	}
	if g.Was != nil && !os.SameFile(g.Was, info) {
		return errors.New("another directory has been put in its place meanwhile")
	}
	if err := copyTree(ctx, from, u); err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		if err := os.Chown(to, int(stat.Uid), int(stat.Gid)); err != nil {
			return err
		}
	}
	return os.Chmod(to, info.Mode())
}
