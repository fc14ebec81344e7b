package lab

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
	if err := l.file.Close(); err != nil {
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
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("the file is still there: %v (%v)", files, err)
	}
}

// What a dead run has left stays in its ledger, whatever a later one of the same name, by a
// process of the same number, makes and removes.
func TestALedgerIsOneRunsAlone(t *testing.T) {
	dir := t.TempDir()
	dead, err := OpenLedger(dir, "weigh")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dead.Add(entry("left")); err != nil {
		t.Fatal(err)
	}
	die(t, dead)
	next, err := OpenLedger(dir, "weigh")
	if err != nil {
		t.Fatal(err)
	}
	done, err := next.Add(entry("its own"))
	if err != nil {
		t.Fatal(err)
	}
	done()
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
	r := &remover{}
	cleaned, err := Clean(t.Context(), dir, func(string) (platform.Platform, error) { return r, nil }, false)
	if err != nil || len(r.removed) != 1 || r.removed[0] != "left" {
		t.Errorf("removed %v of %+v: %v", r.removed, cleaned, err)
	}
}

// What is resumed, or runs beside, has names of its own: tare clean would remove by them.
func TestNamesAreOfOneRunner(t *testing.T) {
	var l Lab
	run := newRun("weigh-20260102-150405-7f3a")
	first, resumed := newRunner(&l, Design{}, run), newRunner(&l, Design{}, run)
	if first.name == resumed.name || !strings.HasPrefix(first.name, "7f3a-") {
		t.Errorf("names %q and %q", first.name, resumed.name)
	}
}

// While a run goes on, nothing is cleaned beside it; to look is allowed.
func TestCleanWaitsForTheHost(t *testing.T) {
	state := t.TempDir()
	lock := filepath.Join(state, "host.lock")
	session, _, err := OpenSession(t.Context(), lock, state, "weigh")
	if err != nil {
		t.Fatal(err)
	}
	dead, err := OpenLedger(LedgerDir(state), "dead")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dead.Add(platform.Entry{Platform: "no such", Kind: "dir", ID: "left"}); err != nil {
		t.Fatal(err)
	}
	die(t, dead)
	var busy *Busy
	if done, err := CleanHost(t.Context(), lock, state, false); !errors.As(err, &busy) || len(done.Failed) > 0 {
		t.Errorf("beside a run: %+v, %v", done, err)
	}
	if done, err := CleanHost(t.Context(), lock, state, true); err != nil || len(done.Removed) != 1 || len(done.Alive) != 1 {
		t.Errorf("to look: %+v, %v", done, err)
	}
	if err := session.Close(); err != nil {
		t.Fatal(err)
	}
	if done, err := CleanHost(t.Context(), lock, state, false); err != nil || len(done.Failed) != 1 {
		t.Errorf("after it: %+v, %v", done, err)
	}
}

// The host's lock is one that nobody else can open, and to look at it takes nothing.
func TestTheHostsLockIsRootsAlone(t *testing.T) {
	state := t.TempDir()
	lock := filepath.Join(state, "host.lock")
	if err := os.WriteFile(lock, []byte("process 1\n"), 0o644); err != nil { // as it was made before
		t.Fatal(err)
	}
	if Measuring(lock) {
		t.Error("a file that nobody holds is a measurement")
	}
	for range 2 {
		session, _, err := OpenSession(t.Context(), lock, state, "weigh")
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(lock); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v: %v", info.Mode(), err)
		}
		if !Measuring(lock) {
			t.Error("it is not seen to measure")
		}
		var busy *Busy
		if _, _, err := OpenSession(t.Context(), lock, state, "weigh"); !errors.As(err, &busy) || !strings.Contains(err.Error(), "process ") {
			t.Errorf("a second one: %v", err)
		}
		if err := session.Close(); err != nil {
			t.Fatal(err)
		}
		if Measuring(lock) {
			t.Error("it is seen to measure when it has ended")
		}
	}
}

// A holder in another PID namespace is seen, and its number is not taken for one of this.
func TestTheHostsLockFromAnotherPIDNamespace(t *testing.T) {
	const variable = "TARE_LAB_TEST_LOCK"
	if path := os.Getenv(variable); path != "" {
		_, err := takeHost(path)
		fmt.Println(Measuring(path), err)
		return
	}
	lock, err := takeHost(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	look := exec.Command("unshare", "-m", "-p", "-f", "--mount-proc", os.Args[0], "-test.run", t.Name())
	look.Env = append(os.Environ(), variable+"="+lock.Name())
	out, err := look.CombinedOutput()
	if err != nil {
		t.Skipf("unshare: %v: %s", err, out)
	}
	if want := fmt.Sprintf("true another tare is measuring on this host (process %d of another PID namespace)", os.Getpid()); !strings.Contains(string(out), want) {
		t.Errorf("%q is not in %s", want, out)
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
		"0::/tare\n":                 true,
		"0::/tare \n":                false,
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

// FuzzInOurCgroup: a group is tare's by the first part of its path alone.
func FuzzInOurCgroup(f *testing.F) {
	f.Add("4:memory:/tare/x-1\n0::/\n")
	f.Add("0::/user/tare\n:::\n1:a")
	f.Fuzz(func(t *testing.T, text string) {
		if inOurCgroup(text) && !strings.Contains(text, ":/tare") && !strings.Contains(text, ":tare") {
			t.Errorf("%q is said to be tare's", text)
		}
	})
}
