package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"tare/kernel/file"
)

// impatient is for tests in which somebody holds what is waited for.
var impatient = patience{writers: 100 * time.Millisecond, readers: 50 * time.Millisecond}

// lockedForReading holds what SQLite locks of a file, as far as who may only read it can: a
// reader that was stopped, or another user who wants to keep root waiting.
func lockedForReading(t *testing.T, path string, r file.Range) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	must(t, file.LockRange(f, r, false))
}

// Whoever reads the store, and however long, keeps nothing from being written.
func TestReadersKeepNobodyWaiting(t *testing.T) {
	for name, of := range map[string]file.Range{
		"a stopped reader": {From: lockedFrom + 2, Length: 510}, "a user who locks all": {},
		"who locks what writers reserve": {From: lockedFrom + 1, Length: 1},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tare.db")
			s, err := openFor(path, impatient)
			must(t, err)
			other, err := openFor(path, impatient) // which does not know that the file is moved
			must(t, err)
			must(t, s.Begin(example("weigh-1")))
			lockedForReading(t, path, of)
			reader, err := OpenReadOnly(path)
			must(t, err)
			defer reader.Close()
			trial := func(s *Store, block int) {
				t.Helper()
				_, err := s.AddTrial("weigh-1", Trial{Condition: "redis@bare", Block: block, Attempt: 1, Started: epoch})
				must(t, err)
			}
			trial(s, 1)
			trial(other, 2)
			if mode := modeOf(t, path); mode != 0o644 {
				t.Errorf("after the first wait: mode %o", mode)
			}
			// Somebody insists.
			lockedForReading(t, path, of)
			trial(s, 3)
			if mode := modeOf(t, path); mode != 0o600 {
				t.Errorf("after the second wait: mode %o", mode)
			}
			// It stays closed as long as its writer wants that, whoever else opens it or looks at it.
			third, err := openFor(path, impatient)
			must(t, err)
			must(t, third.Close())
			names, err := Mend(path, false)
			if mode := modeOf(t, path); mode != 0o600 || err != nil || len(names) > 0 {
				t.Errorf("after another has opened it: mode %o, mended %q, %v", mode, names, err)
			}
			must(t, s.Close())
			if mode := modeOf(t, path); mode != 0o644 {
				t.Errorf("at the end: mode %o", mode)
			}
			run, err := other.Run("weigh-1")
			if err != nil || len(run.Trials) != 3 {
				t.Errorf("%d trials are kept: %v", len(run.Trials), err)
			}
			if now, err := reader.Run("weigh-1"); err != nil || len(now.Trials) != 3 {
				t.Errorf("who reads sees %d trials: %v", len(now.Trials), err)
			}
			must(t, other.Close())
			if mode := modeOf(t, path+lockSuffix); mode != 0o600 {
				t.Errorf("the lock has mode %o", mode)
			}
		})
	}
}

func modeOf(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Mode().Perm()
}

// Where another writer has the store, what is to be written is kept, and written later.
func TestABusyStoreIsWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tare.db")
	s, err := openFor(path, impatient)
	must(t, err)
	defer s.Close()
	must(t, s.Begin(example("weigh-1")))
	trial := Trial{Condition: "redis@bare", Block: 1, Attempt: 1, Started: epoch}
	busy := new(Busy)

	held, err := file.Lock(path + lockSuffix)
	must(t, err)
	if _, err := s.AddTrial("weigh-1", trial); !errors.As(err, &busy) || busy.PID != os.Getpid() {
		t.Errorf("nobody is asked: %v", err)
	}
	asked := 0
	s.OnBusy = func(*Busy) bool {
		if asked++; asked == 3 {
			must(t, held.Close())
		}
		return asked < 5
	}
	_, err = s.AddTrial("weigh-1", trial)
	if err != nil || asked != 3 {
		t.Errorf("asked %d times: %v", asked, err)
	}

	// One that knows nothing of the lock file, as an older tare.
	old, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	must(t, file.LockRange(old, file.Range{From: lockedFrom + 1, Length: 1}, true))
	before, err := os.Stat(path)
	must(t, err)
	asked = 0
	s.OnBusy = func(*Busy) bool {
		if asked++; asked == 2 {
			must(t, old.Close())
		}
		return asked < 5
	}
	trial.Block = 2
	_, err = s.AddTrial("weigh-1", trial)
	if now, serr := os.Stat(path); err != nil || asked != 2 || serr != nil || !os.SameFile(before, now) {
		t.Errorf("asked %d times, moved %v: %v", asked, !os.SameFile(before, now), err)
	}
	if run, err := s.Run("weigh-1"); err != nil || len(run.Trials) != 2 {
		t.Errorf("%d trials are kept: %v", len(run.Trials), err)
	}
}

// A reader that has the file open that was moved aside reads the one in its place, and takes
// the journal of that one for no journal of its own.
func TestAReaderFollowsAStoreThatWasMoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tare.db")
	s, err := openFor(path, impatient)
	must(t, err)
	defer s.Close()
	must(t, s.Begin(example("weigh-1")))
	reader, err := OpenReadOnly(path)
	must(t, err)
	defer reader.Close()
	lockedForReading(t, path, file.Range{From: lockedFrom + 2, Length: 510})
	_, err = s.AddTrial("weigh-1", Trial{Condition: "redis@bare", Block: 1, Attempt: 1, Started: epoch})
	must(t, err)
	if !reader.isMoved() {
		t.Fatal("the store was not moved")
	}
	if run, err := reader.Run("weigh-1"); err != nil || len(run.Trials) != 1 {
		t.Errorf("%d trials: %v", len(run.Trials), err)
	}
	// It is moved between the look at it and the reading, which then finds another's journal.
	lockedForReading(t, path, file.Range{From: lockedFrom + 2, Length: 510})
	times := 0
	must(t, reader.alone("read", func() error {
		if times++; times > 1 {
			return nil
		}
		_, err := s.AddTrial("weigh-1", Trial{Condition: "redis@bare", Block: 2, Attempt: 1, Started: epoch})
		return errors.Join(err, &Unsettled{Path: path})
	}))
	if run, err := reader.Run("weigh-1"); err != nil || len(run.Trials) != 2 {
		t.Errorf("%d trials: %v", len(run.Trials), err)
	}
}

// What ends the run ends its wait, and a store that nobody holds is written even then.
func TestAWaitEndsWithTheRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tare.db")
	s, err := Open(path)
	must(t, err)
	defer s.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	s.Waits = ctx
	s.OnBusy = func(*Busy) bool { return ctx.Err() == nil }
	held, err := file.Lock(path + lockSuffix)
	must(t, err)
	time.AfterFunc(time.Millisecond, func() { cancel(errors.New("the host is short of memory")) })
	busy := new(Busy)
	if err := s.Begin(example("weigh-1")); !errors.As(err, &busy) || busy.PID != os.Getpid() {
		t.Errorf("%v", err)
	}
	must(t, held.Close())
	must(t, s.Begin(example("weigh-1")))
}

// The next opening puts right what a killed writer has left, and so does Mend.
func TestWhatAKilledWriterLeaves(t *testing.T) {
	for name, next := range map[string]func(path string) error{
		"opening": func(path string) error {
			s, err := Open(path)
			if err != nil {
				return err
			}
			return s.Close()
		},
		"mending": func(path string) error {
			for _, dry := range []bool{true, false} {
				names, err := Mend(path, dry)
				if want := []string{"file " + path + nextSuffix, "mode 0600 of " + path + ", which was 0644"}; err != nil ||
					!slices.Equal(names, want) {
					return fmt.Errorf("dry %v: %q, want %q: %w", dry, names, want, err)
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tare.db")
			killed(t, "die with the store closed", path)
			must(t, os.WriteFile(path+nextSuffix, nil, 0o600))
			if mode := modeOf(t, path); mode != 0o600 {
				t.Fatalf("it was left with mode %o", mode)
			}
			must(t, next(path))
			if mode := modeOf(t, path); mode != 0o644 {
				t.Errorf("mode %o", mode)
			}
			if _, err := os.Lstat(path + nextSuffix); !errors.Is(err, os.ErrNotExist) {
				t.Error("a copy is left", err)
			}
			if names, err := Mend(path, true); err != nil || len(names) > 0 {
				t.Errorf("something is left still: %q, %v", names, err)
			}
		})
	}
	// What the owner has chosen since stays.
	path := filepath.Join(t.TempDir(), "tare.db")
	killed(t, "die with the store closed", path)
	must(t, os.Chmod(path, 0o640))
	s, err := Open(path)
	must(t, err)
	must(t, s.Close())
	if mode := modeOf(t, path); mode != 0o640 {
		t.Errorf("mode %o", mode)
	}
	// A note that cannot be read was one of a store that others could read.
	for _, note := range []string{"x", "garbage", "064", "0000\n", "06444\n"} {
		path := filepath.Join(t.TempDir(), "tare.db")
		killed(t, "die with the store closed", path)
		must(t, os.WriteFile(path+lockSuffix, []byte(note), 0o600))
		names, err := Mend(path, false)
		if again, serr := Mend(path, true); modeOf(t, path) != 0o644 || err != nil || serr != nil || len(names) != 1 || len(again) > 0 {
			t.Errorf("%q: mode %o, %q, %v; then %q, %v", note, modeOf(t, path), names, err, again, serr)
		}
	}
	// A copy that a writer is at is none that was left, and is not looked at while it has the store.
	held, err := file.Lock(path + lockSuffix)
	must(t, err)
	must(t, os.WriteFile(path+nextSuffix, nil, 0o600))
	busy := new(Busy)
	if names, err := (&Store{path: path, patience: impatient}).mend(true); !errors.As(err, &busy) || len(names) > 0 {
		t.Errorf("named while a writer has it: %q, %v", names, err)
	}
	must(t, held.Close())
	if names, err := Mend(filepath.Join(t.TempDir(), "none.db"), false); err != nil || len(names) > 0 {
		t.Errorf("without a store: %q, %v", names, err)
	}
}

// dieWithTheStoreClosed has somebody lock the store until it is closed to others.
func dieWithTheStoreClosed(path string) error {
	s, err := openFor(path, impatient)
	if err != nil {
		return err
	}
	if err := s.Begin(example("weigh-1")); err != nil {
		return err
	}
	for block := range 2 {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		if err := file.LockRange(f, file.Range{From: lockedFrom + 2, Length: 510}, false); err != nil {
			return err
		}
		trial := Trial{Condition: "redis@bare", Block: block + 1, Attempt: 1, Started: epoch}
		if _, err := s.AddTrial("weigh-1", trial); err != nil {
			return err
		}
	}
	fmt.Println("now")
	select {}
}
