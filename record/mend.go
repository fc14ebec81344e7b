package record

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"tare/kernel/file"
)

// mend puts right, while no other writer has the store, what one that was killed has left, and names
// it; with dry it only names it.
func (s *Store) mend(dry bool) (names []string, err error) {
	err = s.locked(func(lock *os.File) error {
		all := left(s.path, lock)
		for _, l := range all {
			names = append(names, l.name)
		}
		if dry {
			return nil
		}
		if err := giveTo(lock, s.path); err != nil {
			return err
		}
		for _, l := range all {
			if err := l.mend(); err != nil {
				return err
			}
		}
		return nil
	})
	return names, explain(s.path, "put the store right", err)
}

// Mend removes what a writer that was killed has left of the store at path, and names it; with
// dry it only names it.
func Mend(path string, dry bool) ([]string, error) {
	// What a writer leaves lies beside the file that a link leads to.
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if _, err := os.Lstat(path + lockSuffix); errors.Is(err, fs.ErrNotExist) {
		return nil, nil // no writer has been there
	}
	s := &Store{path: path, patience: patience{writers: lockPatience}}
	return s.mend(dry)
}

// leftover is one thing that a killed writer has left.
type leftover struct {
	name string
	mend func() error
}

// left lists what killed writers have left. The lock is held.
func left(path string, lock *os.File) (all []leftover) {
	if _, err := os.Lstat(path + nextSuffix); err == nil {
		all = append(all, leftover{"file " + path + nextSuffix, func() error { return os.Remove(path + nextSuffix) }})
	}
	mode, err := readMode(lock)
	if err != nil || mode == 0 || isKeptClosed(path) {
		return all
	}
	return append(all, leftover{
		fmt.Sprintf("mode 0600 of %s, which was %04o", path, mode),
		func() error {
			if err := reopenTo(path, mode); err != nil {
				return err
			}
			return lock.Truncate(0)
		},
	})
}

// writeMode notes in the lock's file which mode the store is to have again.
func writeMode(lock *os.File, mode fs.FileMode) error {
	_, err := lock.WriteAt(fmt.Appendf(nil, "%04o\n", mode), 0)
	return errors.Join(err, lock.Sync())
}

// readMode reads that mode; 0 is none. It is noted only of stores that others can read: so a text that is
// no mode gives the one of a new store.
func readMode(lock *os.File) (fs.FileMode, error) {
	text, err := io.ReadAll(io.NewSectionReader(lock, 0, 6))
	if err != nil || len(text) == 0 {
		return 0, err
	}
	mode, err := strconv.ParseUint(strings.TrimSuffix(string(text), "\n"), 8, 9)
	if err != nil || len(text) != len("0644\n") || mode == 0 {
		return newMode, nil
	}
	return fs.FileMode(mode), nil
}

// closing is the range of the lock's file that a writer locks for as long as it wants the store closed
// to other users.
var closing = file.Range{From: 1 << 20, Length: 1}

// keepClosed keeps others from giving the store its mode back, until the file is closed.
func keepClosed(path string) (*os.File, error) {
	f, err := os.OpenFile(path+lockSuffix, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := file.LockRange(f, closing, true); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func isKeptClosed(path string) bool {
	is, err := file.WriteLocked(path+lockSuffix, closing)
	return err != nil || is
}

// reopenTo gives a store that is closed its mode back; never another file, to which somebody
// made a link, nor one whose mode somebody has changed since.
func reopenTo(path string, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm() != 0o600 || hasOtherNames(info) {
		return nil
	}
	return f.Chmod(mode &^ 0o002) // whoever owns the lock may have written any mode there
}

func hasOtherNames(info fs.FileInfo) bool {
	is, ok := info.Sys().(*syscall.Stat_t)
	return ok && is.Nlink != 1
}

// giveTo gives a lock that root has made to the owner of the store, who could not open it
// otherwise. It gives away no file that has other names.
func giveTo(lock *os.File, path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	store, err := os.Stat(path)
	if err != nil {
		return err
	}
	is, err := lock.Stat()
	if err != nil {
		return err
	}
	to, from := store.Sys().(*syscall.Stat_t), is.Sys().(*syscall.Stat_t)
	if from.Uid == to.Uid || from.Uid != 0 || from.Nlink != 1 || !is.Mode().IsRegular() {
		return nil
	}
	return lock.Chown(int(to.Uid), int(to.Gid))
}
