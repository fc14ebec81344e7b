package image

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	kernelfile "tare/kernel/file"
)

// FromArchive imports an image from a docker archive or an OCI layout, as a
// tar (compressed by gzip or zstd, or not) or, the latter, as a directory.
// What is hostile or broken is answered by [Refused], and nothing of it stays.
func (s *Store) FromArchive(ctx context.Context, path string) (Image, error) {
	img, err := s.fromArchive(ctx, path)
	return img, s.fault("import image "+path, err)
}

func (s *Store) fromArchive(ctx context.Context, path string) (Image, error) {
	if err := needRoot("importing an image"); err != nil {
		return Image{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return Image{}, err
	}
	w, err := s.begin(ctx)
	if err != nil {
		return Image{}, err
	}
	defer w.end()
	if info.IsDir() {
		d, err := openDirectory(path)
		if err != nil {
			return Image{}, err
		}
		defer d.close()
		return s.unbundle(ctx, w, path, d)
	}
	if !info.Mode().IsRegular() {
		return Image{}, &Refused{Archive: path, Reason: "neither a file nor a directory"}
	}
	f, err := kernelfile.Open(path)
	if err != nil {
		return Image{}, err
	}
	defer f.Close()
	compressed, err := isCompressed(f)
	if err != nil {
		return Image{}, err
	}
	if compressed {
		return s.spool(ctx, w, path, f)
	}
	return s.untar(ctx, w, path, f)
}

// FromReader imports an image from a stream in docker-archive format (or an
// OCI layout's tar), such as "docker save" writes. name is what errors call
// it, and the image where the archive has no name for it.
func (s *Store) FromReader(ctx context.Context, name string, r io.Reader) (Image, error) {
	img, err := s.fromReader(ctx, name, r)
	return img, s.fault("import image "+name, err)
}

func (s *Store) fromReader(ctx context.Context, name string, r io.Reader) (Image, error) {
	if err := needRoot("importing an image"); err != nil {
		return Image{}, err
	}
	w, err := s.begin(ctx)
	if err != nil {
		return Image{}, err
	}
	defer w.end()
	return s.spool(ctx, w, name, r)
}

// isCompressed looks at a file's first bytes, and leaves it at its start.
func isCompressed(f *os.File) (bool, error) {
	start := make([]byte, 6)
	n, err := io.ReadFull(f, start)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	return compression(start[:n]) != "", nil
}

// spool keeps a stream in the store's own place for work, decompressed: the
// manifest that says what to do with the rest may come last.
func (s *Store) spool(ctx context.Context, w *work, source string, r io.Reader) (Image, error) {
	f, err := os.OpenFile(w.path("spool.tar"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return Image{}, err
	}
	defer f.Close()
	unpacked, done, err := plain(contextReader{ctx, r}, s.Limits)
	if err != nil {
		return Image{}, refusal(ctx, source, "", err)
	}
	defer done()
	if _, err := io.Copy(f, sourceReader{unpacked}); err != nil {
		return Image{}, refusal(ctx, source, "", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return Image{}, err
	}
	return s.untar(ctx, w, source, f)
}

// sourceError is a failure to read what is imported, as against one of ours to
// keep it.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

type sourceReader struct{ r io.Reader }

func (s sourceReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		err = &sourceError{err}
	}
	return n, err
}

// contextReader ends a long read when the user does.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// refusal turns a failure to read a source into an answer; an end by the user
// and a full disk stay what they are.
func refusal(ctx context.Context, source, entry string, err error) error {
	var refused *Refused
	switch {
	case errors.As(err, &refused), ctx.Err() != nil, diskFull(err):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &Refused{Archive: source, Entry: entry, Reason: "cut off"}
	}
	return &Refused{Archive: source, Entry: entry, Reason: err.Error()}
}

func (s *Store) untar(ctx context.Context, w *work, source string, f *os.File) (Image, error) {
	t, err := openTarFile(ctx, source, f, s.Limits)
	if err != nil {
		return Image{}, err
	}
	defer t.close()
	return s.unbundle(ctx, w, source, t)
}

// unbundle unpacks a foreign image's layers and makes an image of them.
func (s *Store) unbundle(ctx context.Context, w *work, source string, b bundle) (Image, error) {
	r := &reader{bundle: b, source: source, arch: s.arch, limits: s.Limits}
	d, err := r.describe()
	if err != nil {
		return Image{}, err
	}
	if d.name == "" {
		d.name = sourceName(source)
	}
	if len(d.name) > longestPath {
		return Image{}, r.refuse("", "its name has %d bytes, more than %d", len(d.name), longestPath)
	}
	u, err := newUnpacker(source, w.root, &budget{Limits: s.Limits}, foreign)
	if err != nil {
		return Image{}, err
	}
	defer u.close()
	for i, l := range d.layers {
		ended := s.step(fmt.Sprintf("unpacking layer %d of %d of %s", i+1, len(d.layers), d.name), 0, nil)
		err := unpackLayer(ctx, u, b, l, s.Limits)
		ended()
		if err != nil {
			return Image{}, err
		}
	}
	return s.adopt(ctx, w, source, Image{Name: d.name, Config: d.config, Warnings: d.warnings})
}

// adopt makes an image of a foreign root that stands in w.
func (s *Store) adopt(ctx context.Context, w *work, source string, img Image) (Image, error) {
	if err := refuseClimbingLinks(ctx, source, w.root); err != nil {
		return Image{}, err
	}
	if err := furnish(source, w.root); err != nil {
		var missing *Missing
		var refused *Refused
		if errors.As(err, &missing) || errors.As(err, &refused) || diskFull(err) {
			return Image{}, err
		}
		return Image{}, &Refused{Archive: source, Reason: err.Error()}
	}
	if err := settle(w.root); err != nil {
		return Image{}, err
	}
	return s.finish(ctx, w, img)
}

// sourceName makes a name for people of a path: "app" of "/tmp/app.tar.gz".
func sourceName(source string) string {
	name := filepath.Base(source)
	for _, ext := range []string{".gz", ".tgz", ".zst", ".tar"} {
		name = strings.TrimSuffix(name, ext)
	}
	return name
}

// unpackLayer unpacks one layer and holds it to its digests.
func unpackLayer(ctx context.Context, u *unpacker, b bundle, l layerPart, limits Limits) error {
	part, size, err := b.open(l.name)
	if errors.Is(err, fs.ErrNotExist) {
		return u.refuse(l.name, "a layer that is named, but not there")
	}
	if err != nil {
		return u.refuse(l.name, "%s", err)
	}
	defer part.Close()
	if l.size >= 0 && l.size != size {
		return u.refuse(l.name, "it has %d bytes, not %d", size, l.size)
	}
	packedSum, sum := sha256.New(), sha256.New()
	packed := io.TeeReader(contextReader{ctx, part}, packedSum)
	unpacked, done, err := plain(packed, limits)
	if err != nil {
		return u.refuse(l.name, "%s", err)
	}
	defer done()
	// Hashed in large pieces: tar reads headers by half a kilobyte.
	content := bufio.NewReaderSize(io.TeeReader(sourceReader{unpacked}, sum), 256<<10)
	if err := u.layer(ctx, content); err != nil {
		return err
	}
	// What lies behind a tar's end belongs to the digests.
	if _, err := io.Copy(io.Discard, content); err != nil {
		return refusal(ctx, u.source, l.name, fmt.Errorf("what follows its files cannot be read: %w", err))
	}
	if _, err := io.Copy(io.Discard, packed); err != nil {
		return refusal(ctx, u.source, l.name, fmt.Errorf("what follows its files cannot be read: %w", err))
	}
	if l.digest != "" {
		if err := checkSum(u, l.name, packedSum, l.digest); err != nil {
			return err
		}
	}
	return checkSum(u, l.name, sum, l.diffID)
}

func checkSum(u *unpacker, name string, h hash.Hash, want string) error {
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return u.refuse(name, "its SHA-256 is %s, not %s: damaged, or cut off", got, want)
	}
	return nil
}
