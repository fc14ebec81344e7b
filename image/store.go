package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/gofrs/flock"

	kernelfile "tare/kernel/file"
)

// Store keeps images in one directory:
//
//	roots/HEX       unpacked root file systems, named by their digest
//	archives/ID.tar the same for engines, named by the engine's image ID
//	index/          what is complete: an image's description, a recipe's image
//	debs/           distribution packages, named by their SHA-256
//	tmp/            work in progress; whatever a crash left there is swept
//	locks/          one file for each thing that only one process may make
//
// An image exists once its description stands in index; everything is made in
// tmp and renamed, so that a crash at any moment leaves either a whole image
// or something that the next [OpenStore] sweeps. Several processes may share a
// store, and a Store's methods may be called from several goroutines.
type Store struct {
	// Limits bounds what is accepted from foreign archives and directories.
	// It is set before the first use, if at all.
	Limits Limits
	// OnStep is called every second with the progress of a slow step; it may be nil. It is set before the first use.
	OnStep func(Step)

	dir      string
	arch     string
	progress func(string)
}

// OpenStore opens the store in dir, makes it if need be, and removes what
// crashed processes left unfinished. progress receives a line for each slow
// step; it may be nil.
func OpenStore(dir string, progress func(string)) (*Store, error) {
	if progress == nil {
		progress = func(string) {}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open image store: %w", err)
	}
	s := &Store{Limits: DefaultLimits, dir: dir, arch: runtime.GOARCH, progress: progress}
	// Images hold set-user-ID programs, old ones too, and whatever secrets were built into
	// them: no other user of the host reaches them. Root, who alone enters one by chroot
	// or mount, passes.
	for _, d := range []string{"", "archives", "index", "debs", "locks", "roots", "tmp"} {
		if err := kernelfile.Private(filepath.Join(dir, d)); err != nil {
			return nil, s.fault("open image store", err)
		}
	}
	if err := s.sweep(); err != nil {
		return nil, s.fault("sweep image store", err)
	}
	return s, nil
}

// fault wraps an error with what was being done; a full disk becomes [Full],
// and answers that are complete in themselves stay as they are.
func (s *Store) fault(doing string, err error) error {
	var refused *Refused
	var missing *Missing
	var full *Full
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused), errors.As(err, &missing), errors.As(err, &full):
		return err
	case diskFull(err):
		return &Full{Dir: s.dir, Err: err}
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func (s *Store) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

// lock takes the named lock, waiting for whoever holds it. The lock goes with
// the process that holds it, so a crash leaves none.
func (s *Store) lock(ctx context.Context, name string) (release func(), err error) {
	l := flock.New(s.path("locks", name))
	if _, err := l.TryLockContext(ctx, lockPoll); err != nil {
		return nil, fmt.Errorf("wait for lock %s: %w", l.Path(), err)
	}
	return func() { _ = l.Close() }, nil
}

// entry is what index holds of an image: paths are left out, so that a store
// can be moved.
type entry struct {
	Image Image  `json:"image"`
	ID    string `json:"id"` // of the image configuration: names the archive
}

var imageID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// load reads the description of image id; fs.ErrNotExist where there is no
// such image, or not all of it.
func (s *Store) load(id string) (Image, error) {
	if !imageID.MatchString(id) {
		return Image{}, fs.ErrNotExist
	}
	data, err := os.ReadFile(s.path("index", id+".json"))
	if err != nil {
		return Image{}, err
	}
	var e entry
	if err := json.Unmarshal(data, &e); err != nil {
		// Torn by a power cut: as good as absent, and made anew.
		return Image{}, fs.ErrNotExist
	}
	img := s.place(e.Image, id)
	for _, p := range []string{img.Root, img.Archive} {
		if _, err := os.Stat(p); err != nil {
			return Image{}, err
		}
	}
	return img, nil
}

// place fills in where the parts of an image lie in this store.
func (s *Store) place(img Image, id string) Image {
	img.Root = s.path("roots", strings.TrimPrefix(img.Digest, "sha256:"))
	img.Archive = s.path("archives", id+".tar")
	return img
}

// commit turns what stands in w (root, and archive.tar) into an image of the
// store. A root that an image of the store already has is kept, since programs
// may be running in it.
func (s *Store) commit(ctx context.Context, w *work, img Image, id string) (Image, error) {
	release, err := s.lock(ctx, "store")
	if err != nil {
		return Image{}, err
	}
	defer release()

	if known, err := s.load(id); err == nil {
		return s.describe(known, img, id)
	}
	img = s.place(img, id)
	inUse, err := s.rootInUse(img.Digest)
	if err != nil {
		return Image{}, err
	}
	if !inUse {
		// Without a description it is a torn commit's.
		if err := os.RemoveAll(img.Root); err != nil {
			return Image{}, err
		}
		if err := os.Rename(w.root, img.Root); err != nil {
			return Image{}, err
		}
	}
	if err := os.Rename(w.path("archive.tar"), img.Archive); err != nil {
		return Image{}, err
	}
	return s.describe(img, img, id)
}

// describe writes the description of image id; what was learnt anew (warnings,
// the name) replaces what was known.
func (s *Store) describe(known, learnt Image, id string) (Image, error) {
	img := s.place(learnt, id)
	img.Reference = known.Reference
	bare := img
	bare.Root, bare.Archive = "", ""
	data, err := json.MarshalIndent(entry{Image: bare, ID: id}, "", "  ")
	if err != nil {
		return Image{}, err
	}
	return img, s.writeFile(s.path("index", id+".json"), data)
}

// writeFile replaces a small file of the index, wholly or not at all.
func (s *Store) writeFile(path string, data []byte) (err error) {
	f, err := os.CreateTemp(s.path("tmp"), "file-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(data); err != nil {
		_ = f.Close()
		return err
	}
	if err = f.Chmod(0o644); err != nil {
		_ = f.Close()
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// rootInUse reports whether a complete image has the root with this digest.
func (s *Store) rootInUse(digest string) (bool, error) {
	found := false
	err := s.each(func(e entry) error {
		found = found || e.Image.Digest == digest
		return nil
	})
	if err != nil || !found {
		return false, err
	}
	_, err = os.Stat(s.place(Image{Digest: digest}, "").Root)
	return err == nil, nil
}

// each calls f for every image described in the index.
func (s *Store) each(f func(entry) error) error {
	names, err := filepath.Glob(s.path("index", "*.json"))
	if err != nil {
		return err
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		var e entry
		if json.Unmarshal(data, &e) != nil || e.ID+".json" != filepath.Base(name) {
			continue
		}
		if err := f(e); err != nil {
			return err
		}
	}
	return nil
}

var imageDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Remove removes the images with this digest from the store. Removing what is
// not there succeeds.
func (s *Store) Remove(ctx context.Context, digest string) error {
	if !imageDigest.MatchString(digest) {
		return fmt.Errorf("remove image %q: not a digest: want sha256: and 64 hexadecimal digits", digest)
	}
	release, err := s.lock(ctx, "store")
	if err != nil {
		return err
	}
	defer release()
	// The description goes first: what a crash leaves after that is unnamed,
	// and replaced when the same image is made again.
	err = s.each(func(e entry) error {
		if e.Image.Digest != digest {
			return nil
		}
		if err := os.Remove(s.path("index", e.ID+".json")); err != nil {
			return err
		}
		err := os.Remove(s.place(e.Image, e.ID).Archive)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("remove image %s: %w", digest, err)
	}
	if err := os.RemoveAll(s.place(Image{Digest: digest}, "").Root); err != nil {
		return fmt.Errorf("remove image %s: %w", digest, err)
	}
	return nil
}

// idOf is the ID under which an image stands in the index.
func idOf(img Image) string {
	base := filepath.Base(img.Archive)
	return strings.TrimSuffix(base, filepath.Ext(base))
}
