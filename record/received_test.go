package record

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestAReceivedStore(t *testing.T) {
	whole := open(t)
	must(t, whole.Begin(example("weigh-1")))
	for block := range 40 {
		mustTrial(t, whole, "weigh-1", exampleTrial(t, "redis@bare", block))
	}
	good, err := os.ReadFile(whole.Path())
	must(t, err)
	write := func(t *testing.T, data []byte) string {
		path := filepath.Join(t.TempDir(), "run.db")
		must(t, os.WriteFile(path, data, 0o644))
		return path
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	s, err := OpenReceived(ctx, write(t, good))
	must(t, err)
	defer s.Close()
	if _, err := s.Run("weigh-1"); err != nil {
		t.Error(err)
	}
	cancel(nil)
	if _, err := s.Run("weigh-1"); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v", err)
	}

	older := write(t, nil)
	migrations, err := embedded()
	must(t, err)
	must(t, migrate(raw(t, older), older, migrations[:2]))
	brought, err := OpenReceived(t.Context(), older)
	must(t, err)
	defer brought.Close()
	if runs, err := brought.Runs(); err != nil || len(runs) > 0 {
		t.Errorf("an older one: %v, %v", runs, err)
	}

	for what, change := range map[string]string{
		"a view without an end": `PRAGMA legacy_alter_table = 1; ALTER TABLE runs RENAME TO others;
			CREATE VIEW runs AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT
			id, '' AS study, '' AS command_json, '' AS version, 0 AS seed, 0 AS started, 0 AS finished,
			'' AS status, '' AS reason, '' AS plan_json, '' AS host_json FROM n`,
		"a trigger":           "CREATE TRIGGER t AFTER UPDATE ON runs BEGIN DELETE FROM samples; END",
		"one more table":      "CREATE TABLE more (id TEXT)",
		"one more index":      "CREATE INDEX more ON samples (value)",
		"a table less":        "DROP TABLE slices",
		"a generated column":  "ALTER TABLE runs ADD COLUMN more BLOB AS (zeroblob(100))",
		"a version of before": "PRAGMA user_version = 1",
		"no version":          "PRAGMA user_version = 0",
		"less than none":      "PRAGMA user_version = -1",
	} {
		t.Run(what, func(t *testing.T) {
			path := write(t, good)
			_, err := raw(t, path).Exec(change)
			must(t, err)
			refused(t, path)
		})
	}
	t.Run("pages that are there twice", func(t *testing.T) {
		const page, interior = 4096, 2
		data, twice := append([]byte(nil), good...), 0
		for at := page; at < len(data); at += page {
			if data[at] != interior {
				continue
			}
			cells := data[at+12:]
			first := binary.BigEndian.Uint16(cells)
			for i := range int(binary.BigEndian.Uint16(data[at+3:])) {
				cell := binary.BigEndian.Uint16(cells[2*i:])
				copy(data[at+int(cell):][:4], data[at+int(first):])
				twice++
			}
		}
		if twice < 2 {
			t.Fatal("no page points to two")
		}
		refused(t, write(t, data))
	})
}

func refused(t *testing.T, path string) {
	t.Helper()
	s, err := OpenReceived(t.Context(), path)
	if err == nil {
		s.Close()
	}
	if _, ok := errors.AsType[*Damaged](err); !ok {
		t.Errorf("got %T %v, want a *Damaged", err, err)
	}
}
