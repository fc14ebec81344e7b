package conformance

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"tare/kernel/process"
	"tare/platform"
	"tare/platform/held"
)

// full is the richest setting that the platform supports, so that a launch
// makes every kind of thing it can.
func (st *stage) full(spec platform.Spec) platform.Spec {
	for _, better := range []func(*platform.Setting){
		func(s *platform.Setting) { s.Network = platform.NetworkBridge },
		func(s *platform.Setting) { s.Storage = platform.StorageTmpfs },
		func(s *platform.Setting) { s.Storage = platform.StorageBind },
		func(s *platform.Setting) { s.Storage = platform.StorageVolume },
		func(s *platform.Setting) { s.Memory = 128 << 20 },
	} {
		setting := spec.Setting
		better(&setting)
		if st.platform.Supports(setting) == nil {
			spec.Setting = setting
		}
	}
	spec.Data = []string{"/data"}
	return spec
}

// testLaunchCancelled cancels a launch before each thing that it makes.
func testLaunchCancelled(t *testing.T, s suite) {
	st := s.set(t)
	steps := s.countSteps(st)
	for step := 0; step <= steps; step++ {
		ctx, cancel := context.WithCancel(st.ctx)
		first := st.book.entered
		st.book.onAdd = func(n int) error {
			if n-first == step {
				cancel()
			}
			return nil
		}
		if step == 0 {
			cancel()
		}
		spec := st.full(st.spec("sleep", "3600"))
		inst, err := st.platform.Launch(ctx, spec)
		cancel()
		st.book.onAdd = nil
		if err == nil {
			// The last step was past the point of no return: then it is launched.
			if step < steps {
				t.Errorf("cancelled before thing %d of %d: launched nevertheless", step, steps)
			}
			st.stop(inst, spec.Name)
			continue
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled before thing %d of %d: %v, want one that wraps context.Canceled", step, steps, err)
		}
		st.noTraces(spec.Name)
		st.nothingEntered()
	}
}

// countSteps is how many things a launch enters, which is none where a machine is there
// already.
func (s suite) countSteps(st *stage) int {
	st.Helper()
	before := st.book.entered
	spec := st.full(st.spec("sleep", "3600"))
	inst, err := st.platform.Launch(st.ctx, spec)
	if err != nil {
		st.Fatal(err)
	}
	steps := st.book.entered - before
	st.stop(inst, spec.Name)
	if steps == 0 && !s.has(OtherKernel) {
		st.Fatal("a launch enters nothing in the ledger")
	}
	return steps
}

// nothingEntered checks that what an instance entered is crossed out; images
// stay until Release.
func (st *stage) nothingEntered() {
	st.Helper()
	for _, e := range st.book.left() {
		if e.Kind != "image" {
			st.Errorf("the ledger still has the %s %s", e.Kind, e.ID)
		}
	}
}

// testLedgerRefuses lets each of a launch's entries be refused in turn, as by a
// full disk: nothing may be made without its entry, nor left.
func testLedgerRefuses(t *testing.T, s suite) {
	st := s.set(t)
	full := errors.New("the ledger is full")
	steps := s.countSteps(st)
	for step := 1; step <= steps; step++ {
		first := st.book.entered
		st.book.onAdd = func(n int) error {
			if n-first == step {
				return full
			}
			return nil
		}
		spec := st.full(st.spec("sleep", "3600"))
		inst, err := st.platform.Launch(st.ctx, spec)
		st.book.onAdd = nil
		if err == nil {
			st.stop(inst, spec.Name)
		}
		if !s.tells(err, full) {
			t.Errorf("entry %d of %d refused: %v", step, steps, err)
		}
		st.noTraces(spec.Name)
		st.nothingEntered()
	}
}

// tells reports whether an error is a ledger's.
func (s suite) tells(err, ledgers error) bool {
	if s.has(LedgerAcross) {
		return err != nil && strings.Contains(err.Error(), ledgers.Error())
	}
	return errors.Is(err, ledgers)
}

// testCrash abandons an instance, as a killed program would, and lets another
// platform remove what the ledger lists: in its order and the other way
// round, and twice.
func testCrash(t *testing.T, s suite) {
	s.skipWithMachine(t)
	for _, order := range []string{"latest first", "earliest first"} {
		t.Run(order, func(t *testing.T) {
			st := s.set(t)
			l := newLines()
			spec := st.full(st.shell("setsid sleep 3600 & echo ready; wait"))
			spec.Stdout = l
			inst, err := st.platform.Launch(st.ctx, spec)
			if err != nil {
				t.Fatal(err)
			}
			l.await(st, "ready")
			entries := st.book.left()
			if order == "earliest first" {
				for i, j := 0, len(entries)-1; i < j; i, j = i+1, j-1 {
					entries[i], entries[j] = entries[j], entries[i]
				}
			}
			st.removeTwice(s.newPlatform(t, &book{t: t}), entries)
			st.noTraces(spec.Name)
			// What the abandoned side does when it finds everything gone.
			st.stop(inst, spec.Name)
		})
	}
}

// removeTwice lets the next platform remove what the entries name, and again.
func (st *stage) removeTwice(next platform.Platform, entries []platform.Entry) {
	st.Helper()
	for range 2 {
		for _, e := range entries {
			if e.Platform != next.Name() {
				st.Errorf("the %s %s is entered for platform %q, which cannot be found", e.Kind, e.ID, e.Platform)
			}
			if e.Kind == "image" {
				continue // in use by the platform that is still there, and Release's
			}
			if err := next.Remove(st.ctx, e); err != nil {
				st.Errorf("Remove %s %s: %v", e.Kind, e.ID, err)
			}
		}
	}
	for _, e := range entries {
		if leftOver(e) {
			st.Errorf("the %s %s survived Remove", e.Kind, e.ID)
		}
	}
}

// skipWithMachine skips a test of what an instance leaves on this host, where that is a
// machine's part.
func (s suite) skipWithMachine(t *testing.T) {
	t.Helper()
	if s.has(OtherKernel) {
		t.Skip("what a crash leaves here is the machine, and not the program's")
	}
}

// testRemoveSparesOthers: an entry whose id belongs to another thing by now
// removes nothing.
func testRemoveSparesOthers(t *testing.T, s suite) {
	st := s.set(t)
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
	pid, _ := id.Strings()
	// A platform that enters no processes may say so; it must not touch this one.
	_ = st.platform.Remove(st.ctx, platform.Entry{
		Platform: st.platform.Name(), Kind: held.Process, ID: pid, Attrs: map[string]string{held.Start: "1"},
	})
	outside := t.TempDir()
	for _, e := range []platform.Entry{
		{Kind: held.Directory, ID: outside}, {Kind: held.Directory, ID: "/"},
		{Kind: held.Cgroup, ID: "/"}, {Kind: held.Link, ID: "lo", Attrs: map[string]string{held.MAC: "02:00:00:00:00:01"}},
		{Kind: "no-such-kind", ID: "x"},
	} {
		e.Platform = st.platform.Name()
		_ = st.platform.Remove(st.ctx, e)
		if there, known := exists(e); known && !there {
			t.Errorf("removed the %s %s, which was never ours", e.Kind, e.ID)
		}
	}
	if now, err := process.Identify(id.PID); now != id || err != nil {
		t.Error("ended a process that only has the same id")
	}
}
