package faults

import (
	"context"
	"errors"
	"os"
	"testing"
)

func TestCost(t *testing.T) {
	costs, err := Cost(t.Context(), t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[Type]bool{}
	for _, c := range costs {
		seen[c.Type] = true
		if n := c.Nanoseconds; n.Value <= 0 || n.Interval.Low > n.Value || n.Interval.High < n.Value || c.Faults != costPages*costRounds {
			t.Errorf("%s %s: %+v of %d", c.Type, c.What, n, c.Faults)
		}
		t.Logf("%-15s %-20s %6.0f ns [%.0f, %.0f], recorded %6.0f ns", c.Type, c.What, c.Nanoseconds.Value, c.Nanoseconds.Interval.Low, c.Nanoseconds.Interval.High, c.Recorded.Value)
	}
	for _, typ := range []Type{Anonymous, Read, CopyOnWrite, Shared, WriteProtect} {
		if !seen[typ] {
			t.Errorf("what %s faults cost is not reported", typ)
		}
	}
}

// What is timed as a type is of that type.
func TestCostsAreOfTheirTypes(t *testing.T) {
	all, closing, err := makings(t.TempDir())
	defer closing()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if err := m.prepare(m); err != nil {
			t.Fatal(err)
		}
		r := start(t, []Target{{Name: "own", PIDs: []int{os.Getpid()}}}, Options{})
		m.touch(m.write)
		rec := stop(t, r)
		n := 0
		for f := range rec.All() {
			if at := m.memory.Address(); f.Address >= at && f.Address < at+uint64(len(m.memory.Bytes())) {
				n++
				if f.Type != m.typ {
					t.Errorf("%s %s: a %s fault", m.typ, m.what, f.Type)
				}
			}
		}
		if n != costPages {
			t.Errorf("%s %s: %d faults, want %d", m.typ, m.what, n, costPages)
		}
	}
}

func TestCostEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Cost(ctx, t.TempDir(), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was cancelled", err)
	}
}
