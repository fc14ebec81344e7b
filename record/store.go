package record

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the "sqlite" driver
)

// Store is one file of runs. One process writes at a time and any number read
// beside it. Its methods may be called from several goroutines.
//
// The file is kept with a rollback journal rather than a write-ahead log: a
// reader then needs to write nothing beside it, so that a user who may only
// read the file can show what root measured. The price, a sync or two a
// trial, is paid between trials.
type Store struct {
	path string
	db   *sql.DB
	now  func() time.Time
}

// applicationID marks a SQLite file as ours (PRAGMA application_id): "tare".
const applicationID = 0x74617265

// lockPatience is how long one process waits for another's transaction.
const lockPatience = 20 * time.Second

// Open opens the store at path for reading and writing. It makes the file and
// its directories where they are missing, and migrates a store that an older
// tare wrote. The error may be *Newer, *Damaged, *NotAllowed, *DiskFull or *Busy.
func Open(path string) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	if err := create(path); err != nil {
		return nil, explain(path, "make the store", err)
	}
	s, err := connect(path, url.Values{
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
		err = explain(path, "bring the store up to date", migrate(s.db, path, migrations))
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
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	if err := readable(path); err != nil {
		return nil, err
	}
	s, err := connect(path, url.Values{
		"mode":    {"ro"},
		"_pragma": {"query_only(1)"},
	})
	if err != nil {
		return nil, err
	}
	migrations, err := embedded()
	if err == nil {
		err = explain(path, "read the store", current(s.db, path, migrations))
	}
	if err != nil {
		s.db.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the store.
func (s *Store) Close() error {
	return explain(s.path, "close the store", s.db.Close())
}

// Path is the file's absolute path.
func (s *Store) Path() string { return s.path }

// create makes an empty file, and the directories to it, readable by all
// whatever the umask, unless there is one. SQLite gives its journals the same mode.
func create(path string) error {
	if err := createDirectory(filepath.Dir(path)); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
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
	return f.Chmod(0o644)
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

func connect(path string, query url.Values) (*Store, error) {
	query.Add("_pragma", fmt.Sprintf("busy_timeout(%d)", lockPatience.Milliseconds()))
	// The file may come from elsewhere: believe neither its schema nor its cells.
	query.Add("_pragma", "trusted_schema(0)")
	query.Add("_pragma", "cell_size_check(1)")
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, explain(path, "open the store", err)
	}
	// One connection: SQLite has one writer in any case, and a second reader in
	// this process would only contend with it.
	db.SetMaxOpenConns(1)
	return &Store{path: path, db: db, now: time.Now}, nil
}

// change runs f in one durable transaction.
func (s *Store) change(doing string, f func(tx *sql.Tx) error) error {
	return explain(s.path, doing, transact(s.db, f))
}

func transact(db *sql.DB, f func(tx *sql.Tx) error) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing once committed
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}
