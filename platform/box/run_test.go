package box

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/kernel/file"
	"tare/kernel/process"
	"tare/platform"
	"tare/platform/crashtest"
)

// What tests make on this host is listed too: a run of them that is killed, as by its
// time limit, leaves swap in use, and the next run takes it away.

// runsDirectory holds a directory of each run: on a disk, where that for temporary files
// may be in memory, and the same for every run.
const runsDirectory = "/var/tmp/tare-test-box"

const ledgerSuffix = ".ledger"

var (
	runDirectory string          // this run's; empty where it may make nothing
	runLedger    platform.Ledger // nil there
)

// listed runs the tests with a ledger, after what dead runs have left is gone.
func listed(tests func() int) int {
	if os.Geteuid() != 0 {
		return tests()
	}
	err := file.Private(runsDirectory)
	if err == nil {
		err = clearDead(runsDirectory)
	}
	if err == nil {
		err = beginRun(runsDirectory)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "what an earlier run of these tests has left:", err)
		return 1
	}
	code := tests()
	if err := clearRun(runDirectory); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

func beginRun(runs string) error {
	self, err := process.Identify(os.Getpid())
	if err != nil {
		return err
	}
	pid, start := self.Strings()
	runDirectory = filepath.Join(runs, pid+"-"+start)
	if err := os.MkdirAll(runDirectory, 0o700); err != nil {
		return err
	}
	runLedger, err = crashtest.Open(filepath.Join(runDirectory, "run"+ledgerSuffix), crashtest.Moment{})
	return err
}

// clearDead clears the runs that are over.
func clearDead(runs string) error {
	dirs, err := filepath.Glob(filepath.Join(runs, "*-*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		pid, start, _ := strings.Cut(filepath.Base(dir), "-")
		id, err := process.ParseIdentity(pid, start)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if now, err := process.Identify(id.PID); err == nil && now == id {
			continue // it goes on
		}
		errs = append(errs, clearRun(dir))
	}
	return errors.Join(errs...)
}

// clearRun removes what a run's ledgers still list, newest first, and its directory.
func clearRun(dir string) error {
	ledgers, err := filepath.Glob(filepath.Join(dir, "*"+ledgerSuffix))
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range ledgers {
		open, _, err := crashtest.Entries(file)
		errs = append(errs, err)
		for _, e := range slices.Backward(open) {
			if err := Remover(dir).Remove(context.Background(), e); err != nil {
				errs = append(errs, fmt.Errorf("remove %s %s: %w", e.Kind, e.ID, err))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// A run of tests that was killed is cleared by the next, and one that goes on is not.
func TestADeadRunIsCleared(t *testing.T) {
	runs := t.TempDir()
	self, err := process.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	pid, start := self.Strings()
	file := func(run string) string {
		dir := filepath.Join(runs, run)
		path := filepath.Join(dir, swapDirectory, "box-1")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(platform.Entry{Platform: Entered, Kind: kindFile, ID: path})
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{path: "", filepath.Join(dir, "run"+ledgerSuffix): "+" + string(line) + "\n"} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	alive, dead := file(pid+"-"+start), file(pid+"-1")
	if err := clearDead(runs); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(alive); err != nil {
		t.Errorf("of a run that goes on: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(filepath.Dir(dead))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a dead run: %v, want it gone", err)
	}
}
