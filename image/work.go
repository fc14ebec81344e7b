package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// lockPoll is how often a lock that someone else holds is tried again. Images
// take seconds to make, so a tenth of one adds nothing that is felt.
const lockPoll = 100 * time.Millisecond

// work is one unfinished image: a directory of its own in tmp, whose lock file
// beside it is held as long as the process lives.
type work struct {
	dir  string
	root string // dir/root
	held *flock.Flock
}

// begin makes a new place to work in. The caller calls end when done, whatever
// came of it.
func (s *Store) begin(ctx context.Context) (*work, error) {
	// Under the store's lock, so that no sweep sees the lock file before it is held.
	release, err := s.lock(ctx, "store")
	if err != nil {
		return nil, err
	}
	defer release()
	dir, err := os.MkdirTemp(s.path("tmp"), "work-*")
	if err != nil {
		return nil, err
	}
	w := &work{dir: dir, root: filepath.Join(dir, "root"), held: flock.New(dir + ".lock")}
	if _, err := w.held.TryLock(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	// The root directory's mode is part of what programs see; the umask is not.
	if err := errors.Join(os.Mkdir(w.root, 0o755), os.Chmod(w.root, 0o755)); err != nil {
		w.end()
		return nil, err
	}
	return w, nil
}

func (w *work) path(elem ...string) string {
	return filepath.Join(append([]string{w.dir}, elem...)...)
}

// end removes what is left of the work.
func (w *work) end() {
	// What cannot be removed now is swept at the next opening.
	_ = os.RemoveAll(w.dir)
	_ = os.Remove(w.held.Path())
	_ = w.held.Close()
}

// sweep removes what crashed processes left in tmp: work whose lock nobody
// holds, and anything else there that no work owns.
func (s *Store) sweep() error {
	release, err := s.lock(context.Background(), "store")
	if err != nil {
		return err
	}
	defer release()
	entries, err := os.ReadDir(s.path("tmp"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := s.path("tmp", e.Name())
		if filepath.Ext(path) == ".lock" {
			continue // goes with its directory, below
		}
		if e.IsDir() {
			held := flock.New(path + ".lock")
			got, err := held.TryLock()
			if err != nil {
				return err
			}
			if !got {
				_ = held.Close()
				continue
			}
			err = os.RemoveAll(path)
			_ = os.Remove(held.Path()) // its owner may have been quicker
			_ = held.Close()
			if err != nil {
				return err
			}
			continue
		}
		// Half-written files of the index are made under the store's lock,
		// which we hold.
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return s.sweepLocks()
}

// sweepLocks removes lock files whose directory is gone.
func (s *Store) sweepLocks() error {
	locks, err := filepath.Glob(s.path("tmp", "*.lock"))
	if err != nil {
		return err
	}
	for _, path := range locks {
		if _, err := os.Lstat(path[:len(path)-len(".lock")]); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// subdir makes an empty directory of that name.
func (w *work) subdir(name string) (string, error) {
	dir := w.path(name)
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.Mkdir(dir, 0o755)
}
