package held_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"testing"

	"tare/kernel/process"
	"tare/platform"
	"tare/platform/held"
)

// story is a ledger that writes down what happens, in order.
type story struct {
	lines  []string
	refuse string
}

func (s *story) Add(e platform.Entry) (func(), error) {
	if e.ID == s.refuse {
		return nil, errors.New("no room")
	}
	s.lines = append(s.lines, "enter "+e.ID)
	return func() { s.lines = append(s.lines, "cross out "+e.ID) }, nil
}

func (s *story) take(t *held.Things, id string, making, releasing error) error {
	return t.Take(context.Background(), platform.Entry{Kind: "thing", ID: id},
		func() error { s.lines = append(s.lines, "make "+id); return making },
		func(context.Context) error { s.lines = append(s.lines, "release "+id); return releasing })
}

func (s *story) expect(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(s.lines, want) {
		t.Errorf("it went\n%q, want\n%q", s.lines, want)
	}
	s.lines = nil
}

func TestTakeAndDrop(t *testing.T) {
	s := &story{}
	things := held.New(s)
	for _, id := range []string{"a", "b"} {
		if err := s.take(things, id, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	s.expect(t, "enter a", "make a", "enter b", "make b")
	for range 2 {
		if err := things.Drop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	s.expect(t, "release b", "cross out b", "release a", "cross out a")
}

func TestFailedMakingIsReleasedAtOnce(t *testing.T) {
	s := &story{}
	things := held.New(s)
	broken := errors.New("broken")
	if err := s.take(things, "a", broken, nil); !errors.Is(err, broken) {
		t.Error(err)
	}
	s.expect(t, "enter a", "make a", "release a", "cross out a")
}

func TestWhatCannotBeReleasedStaysEntered(t *testing.T) {
	s := &story{}
	things := held.New(s)
	busy := errors.New("busy")
	if err := errors.Join(s.take(things, "a", nil, nil), s.take(things, "b", nil, busy)); err != nil {
		t.Fatal(err)
	}
	s.lines = nil
	if err := things.Drop(t.Context()); !errors.Is(err, busy) {
		t.Error(err)
	}
	s.expect(t, "release b", "release a", "cross out a")
	if err := things.Drop(t.Context()); !errors.Is(err, busy) {
		t.Error(err)
	}
	s.expect(t, "release b")
}

func TestNothingIsMadeWithoutAnEntry(t *testing.T) {
	s := &story{refuse: "a"}
	if err := s.take(held.New(s), "a", nil, nil); err == nil {
		t.Error("made although the ledger refused")
	}
	s.expect(t)
}

func TestRemoveCgroupSparesOthers(t *testing.T) {
	for _, id := range []string{"/", "", "/user.slice", "/docker/tare", "/tare/../docker/x", "tare/x/.."} {
		if err := held.RemoveCgroup(t.Context(), platform.Entry{Kind: held.Cgroup, ID: id}); err == nil {
			t.Errorf("would have removed cgroup %q", id)
		}
	}
}

func TestRemoveProcessSparesARecycledID(t *testing.T) {
	cmd := exec.Command("sleep", "3600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	id, err := process.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	pid, start := id.Strings()
	for _, attrs := range []map[string]string{{held.Start: "1"}, nil} {
		err := held.RemoveProcess(t.Context(), platform.Entry{Kind: held.Process, ID: pid, Attrs: attrs})
		if attrs == nil && err == nil {
			t.Error("removed a process that may be anyone's")
		}
		if attrs != nil && err != nil {
			t.Error(err)
		}
	}
	if now, err := process.Identify(id.PID); now != id || err != nil {
		t.Fatalf("the process is gone: %v", err)
	}
	if err := held.RemoveProcess(t.Context(), platform.Entry{Kind: held.Process, ID: pid, Attrs: map[string]string{held.Start: start}}); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil || fmt.Sprint(err) != "signal: killed" {
		t.Errorf("it ended with %v", err)
	}
}
