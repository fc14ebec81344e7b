package record

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

func TestMigrationsRunInOrderAndOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	db := raw(t, path)
	steps := []string{"CREATE TABLE a (x); INSERT INTO a VALUES (1)", "ALTER TABLE a ADD y; UPDATE a SET y = x + 1", "UPDATE a SET y = y * 10"}
	for _, upTo := range []int{1, 1, 3, 3} {
		must(t, migrate(db, path, steps[:upTo]))
	}
	var y, version int
	must(t, db.QueryRow("SELECT y, user_version FROM a, pragma_user_version").Scan(&y, &version))
	if y != 20 || version != 3 {
		t.Errorf("y is %d at version %d, want 20 at 3", y, version)
	}
}

func TestAFailedMigrationLeavesTheStoreAsItWas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	db := raw(t, path)
	must(t, migrate(db, path, []string{"CREATE TABLE a (x)"}))
	err := migrate(db, path, []string{"CREATE TABLE a (x)", "DROP TABLE a", "CREATE nonsense"})
	if err == nil || !strings.Contains(err.Error(), "to schema 3") {
		t.Errorf("got %v", err)
	}
	var tables, version int
	must(t, db.QueryRow("SELECT (SELECT count(*) FROM a) + 1, user_version FROM pragma_user_version").Scan(&tables, &version))
	if version != 1 {
		t.Errorf("version %d, want 1", version)
	}
}

func TestAStoreFromANewerVersion(t *testing.T) {
	s := open(t)
	_, err := s.db.Exec("PRAGMA user_version = 99")
	must(t, err)
	for name, open := range map[string]func(string) (*Store, error){"Open": Open, "OpenReadOnly": OpenReadOnly} {
		_, err := open(s.path)
		newer, ok := errors.AsType[*Newer](err)
		if !ok || newer.Have != 99 || newer.Path != s.path || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAStoreFromAnOlderVersionIsNotMigratedByAReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	db := raw(t, path)
	must(t, migrate(db, path, []string{"CREATE TABLE a (x)"}))
	err := current(db, path, []string{"", ""})
	if older, ok := errors.AsType[*Older](err); !ok || older.Have != 1 || older.Want != 2 {
		t.Errorf("got %v", err)
	}
}

func TestAnotherProgramsDatabaseIsLeftAlone(t *testing.T) {
	for name, make := range map[string]string{
		"tables":      "CREATE TABLE bookmarks (x)",
		"version":     "PRAGMA user_version = 1",
		"application": "PRAGMA application_id = 7",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "other.db")
			db := raw(t, path)
			_, err := db.Exec(make)
			must(t, err)
			for _, open := range []func(string) (*Store, error){Open, OpenReadOnly} {
				_, err := open(path)
				if _, ok := errors.AsType[*Damaged](err); !ok || !strings.Contains(err.Error(), "another program's") {
					t.Errorf("got %v", err)
				}
			}
			var ours int
			must(t, db.QueryRow("SELECT count(*) FROM sqlite_schema WHERE name = 'runs'").Scan(&ours))
			if ours != 0 {
				t.Error("our tables are in it")
			}
		})
	}
}

func TestEmbeddedMigrationsMakeTheSchemaOfToday(t *testing.T) {
	steps, err := embedded()
	must(t, err)
	s := open(t)
	var version int
	must(t, s.db.QueryRow("SELECT user_version FROM pragma_user_version").Scan(&version))
	if version != len(steps) || version == 0 {
		t.Errorf("version %d after %d migrations", version, len(steps))
	}
}

func raw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", fmt.Sprintf("file:%s", path))
	must(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}
