package record

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"tare/kernel/file"
)

// lockSuffix names the file by which writers wait for one another: nobody else can open it.
// It holds the mode that the store had, in octal digits, while the store is closed to other
// users. nextSuffix names a copy that will take the place of the store.
const lockSuffix, nextSuffix = ".lock", ".next"

func isBusy(err error) bool {
	var word *sqlite.Error
	return errors.As(err, &word) && word.Code()&0xff == sqlite3.SQLITE_BUSY
}

// isWritten tells whether a program that knows nothing of the lock file is writing, as an
// older tare: its locks are for writing, which readers cannot take.
func isWritten(path string) bool {
	locked, err := file.WriteLocked(path, file.Range{From: lockedFrom, Length: lockedBytes})
	return err != nil || locked
}

// SQLite locks the bytes from PENDING_BYTE on: that, the reserved one and 510 shared ones
// (https://sqlite.org/fileformat.html#the_lock_byte_page).
const lockedFrom, lockedBytes = 0x40000000, 2 + 510

// moveAside puts a copy of the store in its place, so that those who lock the file have one
// that nobody writes: a transaction that reads goes on with what was there. The caller is the only writer, and
// no transaction of its own is open. If somebody locks the copy, too, the next one is closed
// to other users until [Store.Close].
//
// A journal that a killed writer has left belongs to the copy as it did to the file: it is
// found by its name.
func (s *Store) moveAside(lock *os.File) (err error) {
	if err := s.db.Close(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.connect()) }()
	from, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	next := s.path + nextSuffix
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	to, err := os.OpenFile(next, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	mode := info.Mode().Perm()
	if s.moved > 0 && mode&0o077 != 0 {
		if s.closing == nil {
			s.closing, err = keepClosed(s.path)
		}
		if err == nil {
			err = writeMode(lock, mode)
		}
		if err != nil {
			return errors.Join(err, to.Close(), os.Remove(next))
		}
		mode = 0o600
	}
	_, err = io.Copy(to, from)
	owner := info.Sys().(*syscall.Stat_t)
	err = errors.Join(err, to.Chown(int(owner.Uid), int(owner.Gid)), to.Chmod(mode), to.Sync(), to.Close())
	if err == nil {
		err = os.Rename(next, s.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next))
	}
	s.moved++
	return syncDirectory(filepath.Dir(s.path))
}

func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
