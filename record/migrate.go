package record

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// Each file holds the statements that take a store from the version before to
// its own, which its name begins with. A file that was ever released is never
// changed: what it made is out there.
//
//go:embed migrations/*.sql
var migrationFiles embed.FS

// embedded gives the migrations in order; the element at i leads to version i+1.
func embedded() ([]string, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql") // sorted
	if err != nil {
		return nil, err
	}
	migrations := make([]string, len(names))
	for i, name := range names {
		number, _, _ := strings.Cut(path.Base(name), "_")
		if version, err := strconv.Atoi(number); err != nil || version != i+1 {
			return nil, fmt.Errorf("%s: want a name that begins with %04d_", name, i+1)
		}
		text, err := migrationFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		migrations[i] = string(text)
	}
	return migrations, nil
}

// migrate brings the store up to date, in one transaction: it is either at its
// old version or at the newest.
func migrate(db *sql.DB, path string, migrations []string) error {
	return transact(context.Background(), db, func(tx *sql.Tx) error {
		have, err := inspect(tx, path)
		if err != nil || have == len(migrations) {
			return err
		}
		if have > len(migrations) {
			return &Newer{Have: have, Want: len(migrations), Path: path}
		}
		for v := have; v < len(migrations); v++ {
			if _, err := tx.Exec(migrations[v]); err != nil {
				return fmt.Errorf("to schema %d: %w", v+1, err)
			}
		}
		// Pragmas take no parameters.
		_, err = tx.Exec(fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, len(migrations)))
		return err
	})
}

// current reports, by its error, whether the store can be read as it stands.
func current(db *sql.DB, path string, migrations []string) error {
	return transact(context.Background(), db, func(tx *sql.Tx) error {
		have, err := inspect(tx, path)
		switch {
		case err != nil:
			return err
		case have == 0:
			return &Damaged{Path: path, What: "it is empty"}
		case have > len(migrations):
			return &Newer{Have: have, Want: len(migrations), Path: path}
		case have < len(migrations):
			return &Older{Have: have, Want: len(migrations), Path: path}
		}
		return nil
	})
}

// inspect gives the store's schema version, 0 for an empty file. Another
// program's database is refused, and one that was cut short.
func inspect(tx *sql.Tx, path string) (int, error) {
	var application, version, tables int
	var bytes int64
	err := tx.QueryRow(`SELECT application_id, user_version, page_count * page_size, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_application_id, pragma_user_version, pragma_page_count, pragma_page_size`).
		Scan(&application, &version, &bytes, &tables)
	if err != nil {
		return 0, err
	}
	if application != applicationID && (version != 0 || application != 0 || tables != 0) {
		return 0, &Damaged{Path: path, What: "it is another program's database"}
	}
	// SQLite notices missing pages, but reads the missing end of the last one
	// as zeros. The transaction keeps the file from changing meanwhile.
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	if info.Size() < bytes && version != 0 {
		return 0, &Damaged{Path: path, What: fmt.Sprintf("it is cut short: %d bytes of %d", info.Size(), bytes)}
	}
	return version, nil
}
