package record

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the "sqlite" driver

	"tare/kernel/file"
	"tare/kernel/procfs"
)

// Store is one file of runs. One process writes at a time and any number read
// beside it. Its methods may be called from several goroutines.
//
// The file is kept with a rollback journal rather than a write-ahead log: a
// reader then needs to write nothing beside it, so that a user who may only
// read the file can show what root measured. The price, a sync or two a
// trial, is paid between trials.
//
// Whoever may read the file may lock it, too: another user, or a reader that was stopped.
// So writers wait for one another by a lock file that only the store's owner can open, and
// for readers no longer than readerPatience ([Store.moveAside]).
type Store struct {
	path     string
	db       *sql.DB
	now      func() time.Time
	query    url.Values
	patience patience
	readOnly bool

	// OnBusy is asked whether to try again where another writer has the store for long.
	// What is to be written is kept meanwhile. Nil gives up.
	OnBusy func(*Busy) bool
	// Waits, where not nil, bounds the wait for another writer: once it has ended, only a
	// store that nobody writes is written. Both are set before the first write.
	Waits context.Context

	within context.Context // what is done with the store ends with it

	mu      sync.Mutex  // one access at a time, and what follows
	at      fs.FileInfo // the file that is open
	moved   int         // how often the file was moved aside
	closing *os.File    // keeps it closed to other users, until the end; nil is open to them
}

// patience is how long a writer waits for another one, and for readers.
type patience struct{ writers, readers time.Duration }

// applicationID marks a SQLite file as ours (PRAGMA application_id): "tare".
const applicationID = 0x74617265

// lockPatience is how long one process waits for another's transaction, and readerPatience
// how long a writer waits for those who read.
const lockPatience, readerPatience = 20 * time.Second, 5 * time.Second

// Open opens the store at path for reading and writing. It makes the file and
// its directories where they are missing, and migrates a store that an older
// tare wrote. The error may be *Newer, *Damaged, *NotAllowed, *DiskFull or *Busy.
func Open(path string) (*Store, error) {
	return openFor(path, patience{lockPatience, readerPatience})
}

func openFor(path string, p patience) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	if err := create(path); err != nil {
		return nil, explain(path, "make the store", err)
	}
	// What is moved aside and locked lies beside the file, and not beside a link to it.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	s, err := connect(path, p, url.Values{
		"mode":    {"rw"},
		"_txlock": {"immediate"}, // a transaction that will write says so at once and waits in line
		"_pragma": {
			"foreign_keys(1)",
			// EXTRA syncs the directory too when the journal goes, so that
			// what was acknowledged survives a loss of power.
			"synchronous(EXTRA)",
		},
	})
	if err != nil {
		return nil, err
	}
	migrations, err := embedded()
	if err == nil {
		_, err = s.mend(false)
	}
	if err == nil {
		err = s.alone("bring the store up to date", func() error { return migrate(s.db, path, migrations) })
	}
	if err != nil {
		s.db.Close()
		return nil, err
	}
	return s, nil
}

// OpenReadOnly opens an existing store for reading. It writes nothing, there
// or beside it, and may be used while another process writes. The error may be
// *Newer, *Older, *Damaged, *NotAllowed, *Unsettled, or wrap fs.ErrNotExist.
func OpenReadOnly(path string) (*Store, error) {
	s, err := connectToRead(path)
	if err != nil {
		return nil, err
	}
	path = s.path
	migrations, err := embedded()
	if err == nil {
		err = s.alone("read the store", func() error { return current(s.db, path, migrations) })
	}
	if err != nil {
		s.db.Close()
		return nil, err
	}
	return s, nil
}

// connectToRead opens a store of which nothing is known yet.
func connectToRead(path string) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	if err := readable(path); err != nil {
		return nil, err
	}
	return connect(path, patience{readers: lockPatience}, url.Values{
		"mode":    {"ro"},
		"_pragma": {"query_only(1)"},
	})
}

// Close closes the store.
func (s *Store) Close() error {
	err := s.db.Close()
	if s.closing != nil {
		err = errors.Join(err, s.closing.Close()) // from here on anybody may mend it
		_, mending := s.mend(false)
		err = errors.Join(err, mending)
	}
	return explain(s.path, "close the store", err)
}

// Path is the file's absolute path.
func (s *Store) Path() string { return s.path }

// newMode is that of a store that was just made.
const newMode fs.FileMode = 0o644

// create makes an empty file, and the directories to it, readable by all
// whatever the umask, unless there is one. SQLite gives its journals the same mode.
func create(path string) error {
	if err := createDirectory(filepath.Dir(path)); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, newMode)
	if errors.Is(err, fs.ErrExist) {
		f, err = os.OpenFile(path, os.O_RDWR, 0) // may this user write it?
		if err != nil {
			return err
		}
		defer f.Close()
		return refuseIrregular(f, path)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Chmod(newMode)
}

func createDirectory(path string) error {
	err := os.Mkdir(path, 0o755)
	if errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != path {
		if err := createDirectory(filepath.Dir(path)); err != nil {
			return err
		}
		err = os.Mkdir(path, 0o755)
	}
	if errors.Is(err, fs.ErrExist) { // whoever made it says who may enter
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(path, 0o755)
}

func readable(path string) error {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("no store at %s yet: `tare weigh` makes one: %w", path, fs.ErrNotExist)
	case errors.Is(err, fs.ErrPermission):
		return &NotAllowed{Path: path, What: "read", Err: err}
	case err != nil:
		return fmt.Errorf("open the store: %w", err)
	}
	defer f.Close()
	return refuseIrregular(f, path)
}

func refuseIrregular(f *os.File, path string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return &Damaged{Path: path, What: "it is not a file"}
	}
	return nil
}

func connect(path string, p patience, query url.Values) (*Store, error) {
	query.Add("_pragma", fmt.Sprintf("busy_timeout(%d)", p.readers.Milliseconds()))
	// The file may come from elsewhere: believe neither its schema nor its cells.
	query.Add("_pragma", "trusted_schema(0)")
	query.Add("_pragma", "cell_size_check(1)")
	s := &Store{
		path: path, now: time.Now, query: query, patience: p, readOnly: query.Get("mode") == "ro",
		within: context.Background(),
	}
	return s, explain(path, "open the store", s.connect())
}

// connect opens the file that is at the path now.
func (s *Store) connect() (err error) {
	if s.at, err = os.Stat(s.path); err != nil {
		return err
	}
	dsn := url.URL{Scheme: "file", Path: s.path, RawQuery: s.query.Encode()}
	if s.db, err = sql.Open("sqlite", dsn.String()); err != nil {
		return err
	}
	// One connection: SQLite has one writer in any case, and a second reader in
	// this process would only contend with it.
	s.db.SetMaxOpenConns(1)
	return nil
}

// change runs f in one durable transaction. It may run it again, where the first time was
// undone.
func (s *Store) change(doing string, f func(tx *sql.Tx) error) error {
	return s.alone(doing, func() error { return transact(s.within, s.db, f) })
}

// alone does something to the store while no other writer does, and none that reads keeps it
// from it.
func (s *Store) alone(doing string, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readOnly {
		return explain(s.path, doing, s.read(do))
	}
	for {
		err := explain(s.path, doing, s.attempt(do))
		busy := new(Busy)
		if !errors.As(err, &busy) || s.OnBusy == nil || !s.OnBusy(busy) {
			return err
		}
	}
}

// read does something to the file that is at the path now. Of one that was moved aside SQLite
// would take the journal of the file in its place for its own.
func (s *Store) read(do func() error) error {
	for {
		if err := s.follow(); err != nil {
			return err
		}
		if err := do(); err == nil || !s.isMoved() {
			return err
		}
	}
}

func (s *Store) attempt(do func() error) error {
	return s.locked(func(lock *os.File) error {
		if err := s.follow(); err != nil {
			return err
		}
		err := do()
		if !isBusy(err) || isWritten(s.path) {
			return err
		}
		if moving := s.moveAside(lock); moving != nil {
			return errors.Join(err, moving)
		}
		return do()
	})
}

// locked runs f while no other writer has the store. The error is a *Busy where one has it for
// too long.
func (s *Store) locked(f func(lock *os.File) error) error {
	waits := s.Waits
	if waits == nil {
		waits = context.Background()
	}
	waiting, cancel := context.WithTimeout(waits, s.patience.writers)
	defer cancel()
	var ran bool
	err := file.Hold(waiting, s.path+lockSuffix, func(lock *os.File) error {
		ran = true
		return f(lock)
	})
	if err == nil || ran || waiting.Err() == nil || !errors.Is(err, context.Cause(waiting)) {
		return err
	}
	busy := &Busy{Path: s.path, Err: err}
	if holders, err := procfs.Host.FileLocks(s.path + lockSuffix); err == nil && len(holders) > 0 {
		busy.PID = holders[0].PID
	}
	return busy
}

// isMoved tells that a writer has put another file in the place of the one that is open.
func (s *Store) isMoved() bool {
	now, err := os.Stat(s.path)
	return err == nil && !os.SameFile(now, s.at)
}

// follow opens the file that is at the path now, where another one is open.
func (s *Store) follow() error {
	if !s.isMoved() {
		return nil
	}
	if s.readOnly {
		if err := readable(s.path); err != nil {
			return err
		}
	}
	return errors.Join(s.db.Close(), s.connect())
}

func transact(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing once committed
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		_, _ = db.Exec("ROLLBACK") // a commit that a reader kept waiting leaves the transaction open
		return err
	}
	return nil
}
