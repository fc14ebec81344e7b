package bound

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/annex/guard"
	"tare/kernel/cgroup"
)

// alone puts this program into a control group of its own, as far as the processors go, and
// back when the test has ended. It gives that group's knob, and what that holds.
func alone(t *testing.T, l cgroup.Layout) (file string, whole int) {
	t.Helper()
	before, _, err := l.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	from, ok := before.For("cpu")
	if !ok || os.Geteuid() != 0 {
		t.Skip("takes root, and a hierarchy with the cpu controller")
	}
	at, _ := l.At(fmt.Sprintf("annex-own-test-%d", os.Getpid())).For("cpu")
	g := cgroup.Group{Places: []cgroup.Place{at}}
	if err := g.Create("cpu"); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := (cgroup.Group{Places: []cgroup.Place{from}}).Add(os.Getpid()); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := g.Remove(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := g.Add(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	name := "cpu.weight"
	if at.Version == 1 {
		name = "cpu.shares"
	}
	file = at.File(name)
	whole, err = strconv.Atoi(contents(t, file))
	if err != nil {
		t.Fatal(err)
	}
	return file, whole
}

// The program's own group weighs a share of what it did, until it is to weigh that again, and
// what somebody else has set stays.
func TestOwnYields(t *testing.T) {
	b, err := New(Options{})
	if err != nil {
		t.Skip(err)
	}
	file, whole := alone(t, b.layout)
	if b, err = New(Options{Knobs: guarded(t)}); err != nil {
		t.Fatal(err)
	}
	own := b.Own()
	const theirs = 600
	for _, step := range []struct {
		what string
		do   func() error
		want int
	}{
		{"half", func() error { return own.Yield(0.5) }, whole / 2},
		{"half, again", func() error { return own.Yield(0.5) }, whole / 2},
		{"a tenth, of the whole", func() error { return own.Yield(0.1) }, whole / 10},
		{"all", own.Resume, whole},
		{"all, again", own.Resume, whole},
		{"half, once more", func() error { return own.Yield(0.5) }, whole / 2},
		{"what somebody else sets", func() error { return os.WriteFile(file, []byte(strconv.Itoa(theirs)), 0) }, theirs},
		{"half of that, when it is looked at", func() error { return own.Yield(0.5) }, theirs / 2},
		{"all of that", own.Resume, theirs},
		{"half, for the third time", func() error { return own.Yield(0.5) }, theirs / 2},
		{"all, with whatever else is put back", b.Release, theirs},
		{"half, when it is looked at", func() error { return own.Yield(0.5) }, theirs / 2},
		{"all in the end", own.Resume, theirs},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if got := contents(t, file); got != strconv.Itoa(step.want) {
			t.Fatalf("%s: it weighs %s, want %d", step.what, got, step.want)
		}
	}
	shared := new(Shared)
	if err := own.Yield(1); !errors.As(err, &shared) { // there is nothing to give up
		t.Errorf("all of it: %v, want a *Shared", err)
	}
	if ran, waited, err := own.Time(); err != nil || ran <= 0 || waited < 0 {
		t.Errorf("it ran %v and waited %v: %v", ran, waited, err)
	}
}

// Where the program and its guard were both killed, the next start has the group weigh again
// what it did, ahead of all else.
func TestOwnIsRecovered(t *testing.T) {
	b, err := New(Options{})
	if err != nil {
		t.Skip(err)
	}
	file, whole := alone(t, b.layout)
	journal := filepath.Join(t.TempDir(), "journal")
	g, err := guard.Start(t.Context(), guard.Options{Journal: journal})
	if err != nil {
		t.Fatal(err)
	}
	if b, err = New(Options{Knobs: g}); err != nil {
		t.Fatal(err)
	}
	if err := b.Own().Yield(0.5); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Close(); err != nil {
		t.Fatal(err)
	}
	// As it was when both were there.
	if err := errors.Join(os.WriteFile(file, []byte(strconv.Itoa(whole/2)), 0), os.WriteFile(journal, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	outcomes, err := guard.Recover(t.Context(), guard.Options{Journal: journal})
	if err != nil || len(outcomes) != 1 || outcomes[0].Ending != guard.Restored {
		t.Errorf("recovered %v, %v", outcomes, err)
	}
	holds(t, file, strconv.Itoa(whole))
}

// A group that others are in, or that is everybody's, is not changed.
func TestOwnIsShared(t *testing.T) {
	b, err := New(Options{})
	if err != nil {
		t.Skip(err)
	}
	root, _, err := b.layout.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if place, ok := root.For("cpu"); ok && place.Path == "/" {
		knobless, err := New(Options{Knobs: guarded(t)})
		if err != nil {
			t.Fatal(err)
		}
		shared := new(Shared)
		if err := knobless.Own().Yield(0.1); !errors.As(err, &shared) {
			t.Errorf("in the root group: %v, want a *Shared", err)
		}
	}
	file, whole := alone(t, b.layout)
	// A child's child is another's: its guard alone is a program's own.
	other := exec.Command("sh", "-c", "sleep 60 & echo $!; exec sleep 60")
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	var grandchild int
	if _, err := fmt.Fscan(out, &grandchild); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = other.Process.Kill()
		_ = other.Wait()
		if child, err := os.FindProcess(grandchild); err == nil {
			_ = child.Kill()
		}
	})
	if b, err = New(Options{Knobs: guarded(t)}); err != nil {
		t.Fatal(err)
	}
	shared := new(Shared)
	err = b.Own().Yield(0.1)
	if !errors.As(err, &shared) || !strings.Contains(err.Error(), strconv.Itoa(grandchild)) || strings.Contains(err.Error(), "\n") {
		t.Errorf("beside process %d: %v, want a *Shared of one line that names it", grandchild, err)
	}
	holds(t, file, strconv.Itoa(whole))
}

// Without a guard nothing is changed, and nobody is to think so.
func TestOwnWithoutAGuard(t *testing.T) {
	b, err := New(Options{})
	if err != nil {
		t.Skip(err)
	}
	if own := b.Own(); own != nil {
		t.Errorf("%+v", own)
	}
}
