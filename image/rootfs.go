package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	kernelfile "tare/kernel/file"
)

// FromRootfs imports a directory that holds a root file system. It is copied,
// byte for byte, so that later changes of the directory change no image. The
// host's own root, and one in use (with file systems mounted in it), are
// refused; sockets are left out.
func (s *Store) FromRootfs(ctx context.Context, dir string) (Image, error) {
	img, err := s.fromRootfs(ctx, dir)
	return img, s.fault("import root file system "+dir, err)
}

func (s *Store) fromRootfs(ctx context.Context, dir string) (Image, error) {
	if err := needRoot("importing a root file system"); err != nil {
		return Image{}, err
	}
	real, err := filepath.Abs(dir)
	if err != nil {
		return Image{}, err
	}
	if real, err = filepath.EvalSymlinks(real); err != nil {
		return Image{}, err
	}
	if err := s.refuseLive(real); err != nil {
		return Image{}, err
	}
	w, err := s.begin(ctx)
	if err != nil {
		return Image{}, err
	}
	defer w.end()
	defer s.step("copying "+real, 0, nil)()
	u, err := newUnpacker(real, w.root, &budget{Limits: s.Limits}, copied)
	if err != nil {
		return Image{}, err
	}
	defer u.close()
	from, err := kernelfile.Pin(real)
	if err != nil {
		return Image{}, err
	}
	defer from.Close()
	if err := copyTree(ctx, from, u); err != nil {
		return Image{}, err
	}
	img := Image{Name: filepath.Base(real)}
	if n := len(u.likeMarks); n > 0 {
		img.Warnings = []string{fmt.Sprintf("%d of its names begin with %s (%q): engines take these for removal marks",
			n, whiteout, u.likeMarks[0])}
	}
	return s.adopt(ctx, w, real, img)
}

// refuseLive refuses directories that are no root file system at rest.
func (s *Store) refuseLive(dir string) error {
	refuse := func(entry, format string, args ...any) error {
		return &Refused{Archive: dir, Entry: entry, Reason: fmt.Sprintf(format, args...)}
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return refuse("", "not a directory")
	}
	host, err := os.Stat("/")
	if err != nil {
		return err
	}
	if os.SameFile(info, host) {
		return refuse("", "the host's own root file system")
	}
	store, err := filepath.EvalSymlinks(s.dir)
	if err != nil {
		return err
	}
	if store == dir || strings.HasPrefix(store, dir+"/") {
		return refuse("", "it holds the image store itself")
	}
	// /proc of a root at rest is empty, whatever device it is on. A link there
	// would show another directory; furnish refuses it.
	proc := filepath.Join(dir, "proc")
	if at, err := os.Lstat(proc); err == nil && at.IsDir() {
		if names, err := os.ReadDir(proc); err == nil && len(names) > 0 {
			return refuse("proc", "not empty: it is mounted, so the root is in use; unmount it first")
		}
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || path == dir {
			return err
		}
		at, err := d.Info()
		if err != nil {
			return err
		}
		if device(at) != device(info) {
			name, _ := filepath.Rel(dir, path)
			return refuse(name, "another file system is mounted there; unmount it first")
		}
		return nil
	})
}

func device(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Dev)
	}
	return 0
}

// copyTree copies a tree through the same form and the same checks
// that archives pass.
func copyTree(ctx context.Context, from *kernelfile.Pinned, u *unpacker) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := writeMarked(ctx, w, from)
		_ = w.CloseWithError(err) // EOF where it is nil
		written <- err
	}()
	err := u.layer(ctx, r)
	_ = r.CloseWithError(errStopped) // the writer need not go on
	if werr := <-written; werr != nil && !errors.Is(werr, errStopped) {
		return werr // the cause of what the reader saw
	}
	return err
}

var errStopped = errors.New("stopped reading")
