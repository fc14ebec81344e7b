package record

import (
	"context"
	"errors"
	"testing"
	"time"
)

// What is imported is there whole or not at all, and counts as imported.
func TestImport(t *testing.T) {
	s := open(t)
	run := example("import-1")
	run.Plan.Imported = &Import{Format: "csv", Sources: []Source{{Name: "a.csv", SHA256: "00"}}, Order: "one after the other"}
	for block := range 3 {
		run.Trials = append(run.Trials, Trial{Condition: "redis@bare", Block: block + 1, Attempt: 1, Started: epoch, Samples: []Sample{{"get", 70_000}},
			Slices: []Slice{{Strip: 1, Part: "get", Started: epoch, Window: time.Second, Amount: 70_000}}})
	}
	if err := s.Import(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	got, err := s.Run("import-1")
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != Imported || len(got.Trials) != 3 || len(got.Trials[2].Slices) != 1 || got.Plan.Imported == nil || got.Plan.Imported.Order != "one after the other" || !got.Plan.Unpaired() {
		t.Errorf("status %s, %d trials, %+v", got.Status, len(got.Trials), got.Plan.Imported)
	}

	bad := example("import-2")
	bad.Trials = []Trial{{Condition: "redis@bare", Block: 1, Attempt: 1, Started: epoch}, {Condition: "redis@moon", Block: 1, Attempt: 1, Started: epoch}}
	var invalid *Invalid
	if err := s.Import(t.Context(), bad); !errors.As(err, &invalid) {
		t.Errorf("a trial of no condition: %v", err)
	}
	var notFound *NotFound
	if _, err := s.Run("import-2"); !errors.As(err, &notFound) {
		t.Errorf("something of it is left: %v", err)
	}
	if err := s.Resume("import-1"); !errors.As(err, &invalid) {
		t.Errorf("resumed: %v", err)
	}
}

// What is interrupted leaves nothing behind.
func TestImportEndsWithItsContext(t *testing.T) {
	s := open(t)
	because := errors.New("a test's")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(because)
	run := example("import-1")
	run.Trials = []Trial{{Condition: "redis@bare", Block: 1, Attempt: 1, Started: epoch}}
	if err := s.Import(ctx, run); !errors.Is(err, because) {
		t.Errorf("%v, want %v", err, because)
	}
	var notFound *NotFound
	if _, err := s.Run("import-1"); !errors.As(err, &notFound) {
		t.Errorf("something of it is left: %v", err)
	}
}
