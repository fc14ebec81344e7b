package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Newer says that a store was written by a newer tare than this one.
type Newer struct {
	Have, Want int // schema versions: the file's, and the newest that this tare knows
	Path       string
}

func (e *Newer) Error() string {
	return fmt.Sprintf("%s was written by a newer tare (schema %d, this one knows %d): use that tare, or name another store", e.Path, e.Have, e.Want)
}

// Older says that a store must be migrated before it can be read, which needs
// permission to write it.
type Older struct {
	Have, Want int
	Path       string
}

func (e *Older) Error() string {
	return fmt.Sprintf("%s was written by an older tare (schema %d, this one wants %d): run `tare runs` once as a user who may write it", e.Path, e.Have, e.Want)
}

// Damaged says that a file is no store, or no longer a whole one.
type Damaged struct {
	Path string
	What string // what is wrong with it: "it is not a tare store"
	Err  error  // SQLite's word, or nil
}

func (e *Damaged) Error() string {
	return fmt.Sprintf("%s cannot be used: %s: move it away, or name another store", e.Path, e.What)
}

func (e *Damaged) Unwrap() error { return e.Err }

// DiskFull says that nothing more could be written. What was committed before
// is in the store and stays readable.
type DiskFull struct {
	Path string
	Err  error
}

func (e *DiskFull) Error() string {
	return fmt.Sprintf("the disk that holds %s is full: what was measured so far is kept; free some space, or prune with `tare runs prune`", e.Path)
}

func (e *DiskFull) Unwrap() error { return e.Err }

// NotAllowed says that this user may not do with the store what was asked.
type NotAllowed struct {
	Path string
	What string // "written", "read"
	Err  error
}

func (e *NotAllowed) Error() string {
	return fmt.Sprintf("%s cannot be %s by this user: run as root, or name another store", e.Path, e.What)
}

func (e *NotAllowed) Unwrap() error { return e.Err }

// Unsettled says that the last writer was killed in the midst of writing, so
// that the file must be rolled back, by someone who may write it, before it
// can be read.
type Unsettled struct {
	Path string
	Err  error
}

func (e *Unsettled) Error() string {
	return fmt.Sprintf("%s was left in the midst of a write: run `tare runs` once as a user who may write it, which puts it right", e.Path)
}

func (e *Unsettled) Unwrap() error { return e.Err }

// Busy says that another process held the store for longer than this one
// would wait.
type Busy struct {
	Path string
	PID  int // of that process; 0 where it is not known
	Err  error
}

func (e *Busy) Error() string {
	who := "another process"
	if e.PID > 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("%s is held by %s: wait until it ends, then try again", e.Path, who)
}

func (e *Busy) Unwrap() error { return e.Err }

// NotFound says that the store has no such run.
type NotFound struct {
	ID      string
	Similar []string // run ids that may have been meant, nearest first
}

func (e *NotFound) Error() string {
	if e.ID == Latest {
		return "the store has no run yet: `tare weigh` makes one"
	}
	if len(e.Similar) == 0 {
		return fmt.Sprintf("no run %q: `tare runs` lists them", e.ID)
	}
	return fmt.Sprintf("no run %q: did you mean %s? `tare runs` lists them all", e.ID, strings.Join(e.Similar, " or "))
}

// Ambiguous says that an abbreviated id stands for several runs.
type Ambiguous struct {
	ID      string
	Matches []string // newest first
}

func (e *Ambiguous) Error() string {
	const shown = 3
	list := e.Matches
	more := ""
	if len(list) > shown {
		more = fmt.Sprintf(" and %d more", len(list)-shown)
		list = list[:shown]
	}
	return fmt.Sprintf("%q stands for %d runs (%s%s): write more of the id", e.ID, len(e.Matches), strings.Join(list, ", "), more)
}

// Invalid says that something cannot be kept as it is: a mistake of the
// caller, not of the store.
type Invalid struct {
	What string // "run \"weigh-...\""
	Why  string
}

func (e *Invalid) Error() string { return e.What + ": " + e.Why }

// explain turns what SQLite or the file system says into the typed errors
// above; doing names what was being done, for errors that have no type.
func explain(path string, doing string, err error) error {
	var done explained
	if err == nil || errors.As(err, &done) {
		return err
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &DiskFull{Path: path, Err: err}
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return &NotAllowed{Path: path, What: "written", Err: err}
	}
	var word *sqlite.Error
	if !errors.As(err, &word) {
		return fmt.Errorf("%s: %s: %w", path, doing, err)
	}
	if word.Code() == sqlite3.SQLITE_READONLY_ROLLBACK || word.Code() == sqlite3.SQLITE_READONLY_CANTLOCK {
		return &Unsettled{Path: path, Err: err}
	}
	switch word.Code() & 0xff { // the primary code; the rest says where it arose
	case sqlite3.SQLITE_FULL:
		return &DiskFull{Path: path, Err: err}
	case sqlite3.SQLITE_NOTADB:
		return &Damaged{Path: path, What: "it is not a tare store", Err: err}
	case sqlite3.SQLITE_CORRUPT:
		return &Damaged{Path: path, What: "it is damaged or cut short", Err: err}
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return &Busy{Path: path, Err: err}
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		return &NotAllowed{Path: path, What: "written", Err: err}
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR:
		// SQLite does not tell why a journal cannot be made or synced: ask the
		// disk, where this user may write the store at all.
		f, notOurs := os.OpenFile(path, os.O_RDWR, 0)
		if notOurs != nil {
			break
		}
		f.Close()
		cause := tryWriting(filepath.Dir(path))
		if errors.Is(cause, syscall.ENOSPC) || errors.Is(cause, syscall.EDQUOT) {
			return &DiskFull{Path: path, Err: err}
		} else if cause != nil {
			return &NotAllowed{Path: path, What: "written", Err: cause}
		}
	}
	return fmt.Errorf("%s: %s: %w", path, doing, err)
}

// explained marks the errors of this package that say all there is to say.
type explained interface{ explained() }

func (*Newer) explained()      {}
func (*Older) explained()      {}
func (*Damaged) explained()    {}
func (*DiskFull) explained()   {}
func (*NotAllowed) explained() {}
func (*Unsettled) explained()  {}
func (*Busy) explained()       {}
func (*NotFound) explained()   {}
func (*Ambiguous) explained()  {}
func (*Invalid) explained()    {}

// tryWriting writes a page to a file of its own in dir and removes it again,
// for the error that this may yield.
func tryWriting(dir string) (err error) {
	f, err := os.CreateTemp(dir, ".tare-store-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(make([]byte, 4096))
	if syncErr := f.Sync(); err == nil {
		err = syncErr
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
