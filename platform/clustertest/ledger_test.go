package clustertest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/kernel/file"
	"tare/kernel/process"
)

// Clean ends the processes of a ledger, and none that has got such an id since. It passes over a line
// that was not written whole.
func TestCleanEndsWhatTheLedgerNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := file.Private(dir); err != nil {
		t.Fatal(err)
	}
	program := exec.Command("sleep", "1000")
	if err := program.Start(); err != nil {
		t.Skip(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- program.Wait() }()
	sleeper, err := process.Identify(program.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	// This test's own id, as if another process had had it.
	lines := fmt.Sprintf("%d %d\n%d 1\n%d", sleeper.PID, sleeper.StartTicks, os.Getpid(), os.Getppid())
	for name, text := range map[string]string{"0a.ledger": lines, "0a/node1/file": "", "0b.ledger": ""} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	held, err := file.Lock(filepath.Join(dir, "0b.ledger"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	removed, err := Clean(t.Context(), dir)
	if err != nil || !slices.Equal(removed, []string{"0a"}) {
		t.Errorf("removed %v, %v; want the one whose starter has ended", removed, err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the process of the ledger ended with %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "0a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cluster's directory is left (%v)", err)
	}
	if running, err := Running(dir); err != nil || !slices.Equal(running, []string{"0b"}) {
		t.Errorf("running: %v, %v", running, err)
	}
}
