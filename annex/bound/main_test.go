package bound

import (
	"fmt"
	"os"
	"testing"

	"tare/annex/annextest"
	"tare/annex/guard"
	"tare/kernel/advise"
	"tare/kernel/cgroup"
	"tare/kernel/process"
	"tare/kernel/swap/swaptest"
)

// This test binary is the guard process, and a program that has memory, too.

func TestMain(m *testing.M) {
	if code, ours := guard.Main(os.Args); ours {
		os.Exit(code)
	}
	if group := os.Getenv(daemonVariable); group != "" {
		if err := reclaimForEver(group, os.Getenv(journalVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if code, ours := annextest.Main(); ours {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// holder is a program whose pages leave.
type holder struct {
	*annextest.Program
	handle *process.Handle
	size   int
}

func hold(t *testing.T, g cgroup.Group, size int) holder {
	t.Helper()
	h := holder{Program: annextest.Hold(t, g, size), size: size}
	id, err := process.Identify(h.PID)
	if err != nil {
		t.Fatal(err)
	}
	if h.handle, err = id.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.handle.Close() })
	return h
}

// evict has its first bytes leave.
func (h holder) evict(t *testing.T, bytes int) {
	t.Helper()
	if _, err := advise.Give(h.handle, advise.PageOut, []advise.Range{{Start: h.Address, Length: uint64(bytes)}}); err != nil {
		t.Fatal(err)
	}
}

// area puts a swap file to use, before all others.
func area(t *testing.T, size int64) string { t.Helper(); return swaptest.File(t, "bound", size) }
