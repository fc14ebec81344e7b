package pagetable

import (
	"errors"
	"os"
	"testing"

	"tare/probe"
)

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("reading page tables needs root")
	}
}

func TestDirectMap(t *testing.T) {
	needRoot(t)
	base, levels, err := DirectMap()
	if missing := new(probe.Missing); errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	if base%gibibyte != 0 || levels != 4 && levels != 5 {
		t.Errorf("base %#x, %d levels", base, levels)
	}
	t.Logf("base %#x, %d levels", base, levels)
}
