package bound

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

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
		if err := g.Remove(t.Context()); err != nil && t.Context().Err() == nil {
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
	for range 2 { // one after the other it is of the whole each time
		if err := own.Yield(0.1); err != nil {
			t.Fatal(err)
		}
		holds(t, file, strconv.Itoa(whole/10))
	}
	if err := own.Resume(); err != nil {
		t.Fatal(err)
	}
	holds(t, file, strconv.Itoa(whole))
	if err := own.Yield(0.1); err != nil {
		t.Fatal(err)
	}
	const theirs = 60
	if err := os.WriteFile(file, []byte(strconv.Itoa(theirs)), 0); err != nil {
		t.Fatal(err)
	}
	if err := own.Resume(); err != nil {
		t.Errorf("of what somebody else has set: %v", err)
	}
	holds(t, file, strconv.Itoa(theirs))
	if err := own.Yield(0.1); err != nil {
		t.Fatal(err)
	}
	holds(t, file, strconv.Itoa(theirs/10))
	if err := own.Yield(1); err != nil { // nothing to give up
		t.Fatal(err)
	}
	holds(t, file, strconv.Itoa(theirs))
	if err := own.Yield(0.0001); err != nil { // the kernel takes no less than its least
		t.Fatal(err)
	}
	if left := contents(t, file); left != "1" && left != "2" {
		t.Errorf("it weighs %s, want the least there is", left)
	}
	if err := b.Release(); err != nil { // with whatever else was set
		t.Fatal(err)
	}
	holds(t, file, strconv.Itoa(theirs))
	if ran, waited, err := own.Time(); err != nil || ran <= 0 || waited < 0 {
		t.Errorf("it ran %v and waited %v: %v", ran, waited, err)
	}
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
		if child, err := os.FindProcess(grandchild); err == nil {
			_ = child.Kill()
		}
		_ = other.Process.Kill()
		_ = other.Wait()
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
