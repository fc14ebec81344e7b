package record

import (
	"context"
	"database/sql"
	"errors"
	"slices"
)

// OpenReceived opens a store that is anybody's work, as [Open] does. Its schema has to be to the letter what the
// migrations make, without a view or trigger of its own, and its pages have to be sound: so no query goes on for ever.
// Whatever is done with the store ends with the context.
func OpenReceived(ctx context.Context, path string) (*Store, error) {
	s, err := connectToRead(path)
	if err != nil {
		return nil, err
	}
	path = s.path
	err = explain(path, "read the store", verify(ctx, s.db, path))
	if err := errors.Join(err, s.db.Close()); err != nil {
		return nil, err
	}
	if s, err = Open(path); err != nil {
		return nil, err
	}
	s.within = ctx
	return s, nil
}

func verify(ctx context.Context, db *sql.DB, path string) error {
	migrations, err := embedded()
	if err != nil {
		return err
	}
	var version int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	switch {
	case version > len(migrations):
		return &Newer{Have: version, Want: len(migrations), Path: path}
	case version <= 0:
		return &Damaged{Path: path, What: "it is no tare store"}
	}
	want, err := schemaOf(ctx, migrations[:version])
	if err != nil {
		return err
	}
	have, err := schema(ctx, db)
	if err != nil {
		return err
	}
	if !slices.Equal(have, want) {
		return &Damaged{Path: path, What: "it has other tables, indexes, views or triggers than a store"}
	}
	// Of pages that point to one another a small file may have rows without an end.
	var found string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return &Damaged{Path: path, What: "its pages are not sound", Err: errors.New(found)}
	}
	return nil
}

// schemaOf is the schema that migrations make.
func schemaOf(ctx context.Context, migrations []string) ([]object, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection has a memory of its own
	for _, m := range migrations {
		if _, err := db.ExecContext(ctx, m); err != nil {
			return nil, err
		}
	}
	return schema(ctx, db)
}

// object is a table, index, view or trigger.
type object struct{ kind, name, table, sql string }

func schema(ctx context.Context, db *sql.DB) ([]object, error) {
	rows, err := db.QueryContext(ctx, "SELECT type, name, tbl_name, ifnull(sql, '') FROM sqlite_schema ORDER BY type, name")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []object
	for rows.Next() {
		var o object
		if err := rows.Scan(&o.kind, &o.name, &o.table, &o.sql); err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, rows.Err()
}
