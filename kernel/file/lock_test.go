package file

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// A lock is held by whoever has a copy of the file, and free with the last of them.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	heir := exec.Command("cat")
	heir.ExtraFiles = []*os.File{first}
	in, err := heir.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := heir.Start(); err != nil {
		t.Skipf("cat: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	var locked *Locked
	if _, err := Lock(path); !errors.As(err, &locked) {
		t.Errorf("while another holds it: %v", err)
	}
	in.Close()
	if err := heir.Wait(); err != nil {
		t.Fatal(err)
	}
	again, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// A lock that is let go of leaves no file, and one at a time has it all the same: who opened
// the file before it was removed does not take what nobody else finds.
func TestUnlock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var held, taken atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 500 {
				f, err := Lock(path)
				if locked := new(Locked); errors.As(err, &locked) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				taken.Add(1)
				if n := held.Add(1); n != 1 {
					t.Errorf("%d have it", n)
				}
				held.Add(-1)
				if err := Unlock(f); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) || taken.Load() == 0 {
		t.Errorf("taken %d times; the file is there still: %v", taken.Load(), err)
	}
}

// Who has opened a file that is then removed with its lock takes it for no lock.
func TestALockOfARemovedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if err := Unlock(first); err != nil {
		t.Fatal(err)
	}
	if held, err := take(opened); held || err != nil {
		t.Errorf("the removed one: %v, %v", held, err)
	}
	second, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if held, err := take(opened); held || err != nil {
		t.Errorf("the removed one, beside the one in its place: %v, %v", held, err)
	}
	if err := Unlock(second); err != nil {
		t.Error(err)
	}
}

// What somebody else has put in the place of a lock's file is not removed with it.
func TestUnlockLeavesAnothersFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := Unlock(f); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
}

// One at a time holds a lock, and who waits for it does so as long as its time.
func TestHold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	err := Hold(t.Context(), path, func(*os.File) error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := Hold(ctx, path, func(*os.File) error { return errors.New("ran") }); !errors.Is(err, context.Canceled) {
			t.Errorf("a second holder: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A lock's file that others could open, as an older version made it, is closed to them.
func TestLockIsClosedToOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v: %v", info.Mode(), err)
	}
}

// A range that is locked for writing is distinguished from one that is locked for reading.
func TestWriteLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	at := Range{10, 5}
	for _, writing := range []bool{false, true} {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := LockRange(f, at, writing); err != nil {
			t.Fatal(err)
		}
		if locked, err := WriteLocked(path, Range{0, 0}); locked != writing || err != nil {
			t.Errorf("writing %v: %v, %v", writing, locked, err)
		}
		if locked, err := WriteLocked(path, Range{15, 1}); locked || err != nil {
			t.Errorf("beside it: %v, %v", locked, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
