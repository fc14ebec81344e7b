package lab

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/image"
	"tare/platform"
)

// remover is a platform that only removes, and remembers.
type remover struct {
	fakePlatform
	removed []string
	refuse  string
}

func (r *remover) Remove(_ context.Context, e platform.Entry) error {
	if e.ID == r.refuse {
		return errors.New("busy")
	}
	r.removed = append(r.removed, e.ID)
	return nil
}

func (r *remover) Prepare(context.Context, image.Image) error { return nil }

func entry(id string) platform.Entry {
	return platform.Entry{Platform: "fake", Kind: "dir", ID: id}
}

// die lets go of a ledger as a killed process does: its file stays as it is.
func die(t *testing.T, l *Ledger) {
	t.Helper()
	if err := l.lock.Unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestCleanRemovesWhatACrashLeftNewestFirst(t *testing.T) {
	dir := t.TempDir()
	l, err := OpenLedger(dir, "r")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b", "c", "d"} {
		done, err := l.Add(entry(id))
		if err != nil {
			t.Fatal(err)
		}
		if id == "b" {
			done()
			done()
		}
	}
	r := &remover{}
	platforms := func(string) (platform.Platform, error) { return r, nil }

	alive, err := Clean(context.Background(), dir, platforms, false)
	if err != nil || len(alive.Alive) != 1 || len(r.removed) != 0 {
		t.Fatalf("a living run's ledger was touched: %+v, %v, removed %v", alive, err, r.removed)
	}
	die(t, l)

	if _, err := Clean(context.Background(), dir, platforms, true); err != nil || len(r.removed) != 0 {
		t.Fatalf("a dry run removed %v (%v)", r.removed, err)
	}
	r.refuse = "c"
	done, err := Clean(context.Background(), dir, platforms, false)
	if err != nil || len(done.Failed) != 1 || strings.Join(r.removed, "") != "da" {
		t.Fatalf("removed %v, failed %+v, %v; want d then a, and c refused", r.removed, done.Failed, err)
	}
	r.refuse = ""
	if done, err = Clean(context.Background(), dir, platforms, false); err != nil || len(done.Failed) != 0 {
		t.Fatalf("second try: %+v, %v", done, err)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 0 {
		t.Errorf("left: %v", files)
	}
}

func TestALedgerWithNothingInItGoes(t *testing.T) {
	dir := t.TempDir()
	l, err := OpenLedger(dir, "r")
	if err != nil {
		t.Fatal(err)
	}
	done, err := l.Add(entry("a"))
	if err != nil {
		t.Fatal(err)
	}
	done()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "r"+ledgerSuffix)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there (%v)", err)
	}
}

func TestATornLineIsOfAThingThatWasNotMade(t *testing.T) {
	first := `{"n":1,"entry":{"platform":"fake","kind":"dir","id":"a"}}` + "\n"
	third := `{"n":3,"entry":{"platform":"fake","kind":"dir","id":"c"}}` + "\n"
	left, torn, err := parseLedger(bufio.NewScanner(strings.NewReader(first + `{"n":2,"entry":{"pla` + "\n" + third)))
	if err != nil || torn != 1 || len(left) != 2 || left[0].entry.ID != "c" || left[1].entry.ID != "a" {
		t.Errorf("got %v, %d torn, %v; want c and a", left, torn, err)
	}
}

// A full disk takes part of a line; the lines after it must stand by themselves.
func TestALedgerOnAFullDiskStaysReadable(t *testing.T) {
	dir := t.TempDir()
	l, err := OpenLedger(dir, "r")
	if err != nil {
		t.Fatal(err)
	}
	doneA, err := l.Add(entry("a"))
	if err != nil {
		t.Fatal(err)
	}
	// The part of a line that a full disk left, and its failure.
	if _, err := l.file.WriteString(`{"n":2,"ent`); err != nil {
		t.Fatal(err)
	}
	l.torn = true
	if _, err := l.Add(entry("b")); err != nil {
		t.Fatal(err)
	}
	doneA()
	die(t, l)
	r := &remover{}
	done, err := Clean(context.Background(), dir, func(string) (platform.Platform, error) { return r, nil }, false)
	if err != nil || len(done.Removed) != 1 || strings.Join(r.removed, "") != "b" {
		t.Errorf("removed %v (%v), want b alone", r.removed, err)
	}
}

func FuzzParseLedger(f *testing.F) {
	f.Add([]byte(`{"n":1,"entry":{"platform":"fake","kind":"dir","id":"a"}}` + "\n" + `{"n":1,"done":true}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		left, _, err := parseLedger(bufio.NewScanner(bytes.NewReader(text)))
		if err != nil {
			return
		}
		for i := 1; i < len(left); i++ {
			if left[i-1].n <= left[i].n {
				t.Errorf("not newest first: %v", left)
			}
		}
	})
}

func TestOurCgroups(t *testing.T) {
	for text, want := range map[string]bool{
		"4:memory:/tare/x-1\n0::/\n": true,
		"0::/tare-load/g-1\n":        true,
		"0::/tare.slice/docker-1":    true,
		"4:memory:/docker/abc\n0::/": false,
		"0::/user/tare/x":            false,
		"0::/target":                 false,
		"":                           false,
	} {
		if got := inOurCgroup(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// Root carries out what a ledger says: one that others could write is left alone.
func TestCleanRefusesAnothersLedgers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ledger")
	platforms := func(string) (platform.Platform, error) { return nil, errors.New("nothing is to be removed") }
	if done, err := Clean(context.Background(), dir, platforms, true); err != nil || len(done.Removed) > 0 {
		t.Errorf("no ledgers: %+v, %v", done, err)
	}
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	if _, err := Clean(context.Background(), dir, platforms, true); err == nil || !strings.Contains(err.Error(), "can be written by others") {
		t.Errorf("one that others can write: %v", err)
	}
}
