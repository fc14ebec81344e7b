package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"

	kernelfile "tare/kernel/file"
)

// WriteLayer writes a root file system as its canonical layer, by which an image is
// carried to another host, and gives the layer's digest: the image's own, where the
// root is what it was.
func WriteLayer(ctx context.Context, out io.Writer, root string) (digest string, err error) {
	l, err := writeCanonical(ctx, out, root)
	return l.digest, err
}

// SendLayer is [WriteLayer] with marks at the files that have holes, for [Store.Receive].
func SendLayer(ctx context.Context, out io.Writer, root string) error {
	dir, err := kernelfile.Pin(root)
	if err != nil {
		return err
	}
	defer dir.Close()
	return writeMarked(ctx, out, dir)
}

// Lookup gives the image of the store that is this one: the same root file system,
// name and configuration. The error wraps fs.ErrNotExist where there is none.
func (s *Store) Lookup(img Image) (Image, error) {
	found := Image{}
	err := s.each(func(e entry) error {
		if e.Image.Digest == img.Digest && e.Image.Name == img.Name && reflect.DeepEqual(e.Image.Config, img.Config) {
			if whole, err := s.load(e.ID); err == nil {
				found = whole
			}
		}
		return nil
	})
	if err == nil && found.Root == "" {
		err = fmt.Errorf("image %s (%s) is not in the store %s: %w", img.Name, img.Digest, s.dir, fs.ErrNotExist)
	}
	return found, err
}

// HasRoot reports whether the store has the root file system of that digest, whatever
// images there are of it.
func (s *Store) HasRoot(digest string) (bool, error) {
	if !imageDigest.MatchString(digest) {
		return false, fmt.Errorf("%q is no digest: want sha256: and 64 hexadecimal digits", digest)
	}
	return s.rootInUse(digest)
}

// Receive takes an image over from another store: its description, and its root as
// [SendLayer] writes it. What was unpacked is held to the image's digest, and nothing
// of it is kept where it differs or does not come whole. A nil layer says that the
// store has the root already.
func (s *Store) Receive(ctx context.Context, img Image, layer io.Reader) (Image, error) {
	img, err := s.receive(ctx, img, layer)
	return img, s.fault("receive an image", err)
}

func (s *Store) receive(ctx context.Context, img Image, layer io.Reader) (Image, error) {
	if !imageDigest.MatchString(img.Digest) {
		return Image{}, &Refused{Archive: "image " + img.Name, Reason: fmt.Sprintf("%q is no digest: want sha256: and 64 hexadecimal digits", img.Digest)}
	}
	if err := needRoot("receiving an image"); err != nil {
		return Image{}, err
	}
	w, err := s.begin(ctx)
	if err != nil {
		return Image{}, err
	}
	defer w.end()
	root := w.root
	if layer == nil {
		root = s.place(Image{Digest: img.Digest}, "").Root
	} else if err := s.unpackReceived(ctx, w, img, layer); err != nil {
		return Image{}, err
	}
	// Written anew from what lies there now: that, and not what was sent, is what runs.
	l, err := writeLayer(ctx, w.path("layer.tar"), root, root)
	if err != nil {
		return Image{}, err
	}
	if l.digest != img.Digest {
		return Image{}, &Refused{Archive: "image " + img.Name, Reason: fmt.Sprintf("it is said to be %s and is %s", img.Digest, l.digest)}
	}
	img.Size = l.size
	return s.finishLayers(ctx, w, img, l)
}

func (s *Store) unpackReceived(ctx context.Context, w *work, img Image, layer io.Reader) error {
	source := "image " + img.Name
	u, err := newUnpacker(source, w.root, &budget{Limits: s.Limits}, copied)
	if err != nil {
		return err
	}
	defer u.close()
	if err := u.layer(ctx, layer); err != nil {
		return err
	}
	// The tar's end is not the stream's: who sends must be able to end.
	if _, err := io.Copy(io.Discard, io.LimitReader(layer, 1<<20)); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return refuseClimbingLinks(ctx, source, w.root)
}
