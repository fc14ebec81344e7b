package nodes

import (
	"bytes"
	"compress/gzip"
	"database/sql"
	"errors"
	"os"
	"testing"

	"tare/record"
)

// endless is a node that goes on writing one line.
type endless struct{ bytes int }

func (e *endless) Read(p []byte) (int, error) {
	if e.bytes += len(p); e.bytes > 1<<20 {
		panic("a MiB of a line was read")
	}
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestANodesTimeIsShort(t *testing.T) {
	if _, _, err := receive(t.Context(), new(endless), open(t), record.Part{}); err == nil {
		t.Error("it is accepted")
	}
}

// A node's store may have a view in the place of a table, which gives rows for ever.
func TestANodesStoreHasNoView(t *testing.T) {
	theirs := open(t)
	db, err := sql.Open("sqlite", "file:"+theirs.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`DROP TABLE runs; CREATE VIEW runs AS WITH RECURSIVE
		n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id FROM n`); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(theirs.Path())
	if err != nil {
		t.Fatal(err)
	}
	sent := bytes.NewBufferString("2026-01-02T15:04:05Z\n")
	packed := gzip.NewWriter(sent)
	if _, err := packed.Write(file); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, err = receive(t.Context(), sent, open(t), record.Part{})
	if _, ok := errors.AsType[*record.Damaged](err); !ok {
		t.Errorf("got %T %v, want a *record.Damaged", err, err)
	}
}
