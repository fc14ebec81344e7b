package box

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/kernel/process"
	"tare/platform"
	"tare/platform/crashtest"
)

// The daemon itself, made of the sources beside these, in small boxes.

var built struct {
	once    sync.Once
	program string
	err     error
	said    string
}

// annexd builds it, once a run.
func annexd(t *testing.T) string {
	t.Helper()
	state := stateDirectory(t)
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	built.once.Do(func() {
		built.program = filepath.Join(state, "bin", Extender)
		cmd := exec.Command("go", "build", "-o", built.program, "../../cmd/annexd")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		var said []byte
		said, built.err = cmd.CombinedOutput()
		built.said = string(said)
	})
	if built.err != nil {
		t.Fatalf("build annexd: %v\n%s", built.err, built.said)
	}
	return built.program
}

// overfilled is a box with more in it than its memory: a critical program, and idle ones.
func overfilled(t *testing.T, m *Maker, s platform.BoxSpec) (platform.Box, []*occupant) {
	t.Helper()
	b := made(t, m, s)
	all := []*occupant{occupied(t, b.Group(platform.Critical), int(s.Memory/4))}
	for range 4 {
		all = append(all, occupied(t, b.Group(platform.Idle), int(s.Memory/4)))
	}
	return b, all
}

// annexd manages what is in the idle class, and nothing that it moves comes back as
// anything else. Killed, it harms nobody, its box is reported as one that has lost it, and
// nothing is left: neither its guard nor what it had set.
func TestAnnexdExtendsABox(t *testing.T) {
	state := stateDirectory(t)
	m := New(Options{StateDir: state, Ledger: runLedger, Extender: annexd(t)})
	s := extendedSpec(t)
	s.Memory, s.SwapSize = 128<<20, s.SwapSize+128<<20
	found := surroundings(t, state, s)
	b, occupants := overfilled(t, m, s)
	evicts := func(occupants []*occupant) func(platform.BoxReading, error) bool {
		return func(r platform.BoxReading, err error) bool {
			return err == nil && r.Extension != nil && r.Extension.Contexts == int64(len(occupants)-1) && r.Extension.Evicted > 0
		}
	}
	r, ok := reads(t, b, 5*time.Second, evicts(occupants))
	// The kernel may have made all the room before annexd knew of these, and more than its
	// headroom. What comes after them in steps of less than that is annexd's to make room for.
	for more := 0; !ok && more < 8; more++ {
		occupants = append(occupants, occupied(t, b.Group(platform.Idle), int(Headroom(s.Memory)/2)))
		r, ok = reads(t, b, 5*time.Second, evicts(occupants))
	}
	if !ok {
		t.Fatalf("annexd has had no pages leave: %+v of %+v", r.Extension, r)
	}
	if r.Extension.CPU <= 0 || r.Extension.Resident <= 0 {
		t.Errorf("it has used %v, and holds %d bytes", r.Extension.CPU, r.Extension.Resident)
	}
	if swapped := r.Classes[platform.Idle].Swapped; swapped == 0 {
		t.Error("nothing of the idle class is in swap")
	}
	for _, o := range occupants {
		o.unharmed(t)
	}
	id := daemonOf(t, m.extension(s.Name))
	if err := id.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := b.Read(t.Context())
	if err == nil || !strings.Contains(err.Error(), "annexd has ended: signal: killed") || r.Extension != nil {
		t.Errorf("%v and %+v, want that it was killed", err, r.Extension)
	}
	for _, o := range occupants {
		o.unharmed(t)
	}
	remove(t, b)
	if left := surroundings(t, state, s); left != found {
		t.Errorf("found:\n%s\nleft:\n%s", found, left)
	}
	gone(t, m.extension(s.Name), id)
}

// Killed together with the one that made the box, with pages in swap, annexd is removed by
// another, with all that it had.
func TestTareIsKilledBesideAnnexd(t *testing.T) {
	program := annexd(t)
	state := stateDirectory(t)
	s := extendedSpec(t)
	s.Memory = 48 << 20
	found := surroundings(t, state, s)
	o := victimOrders{State: state, Spec: s, Ledger: filepath.Join(state, s.Name+ledgerSuffix), Extender: program, DieInUse: true}
	crashtest.Run(t, o, true)
	if surroundings(t, state, s) == found {
		t.Error("killed with its box in use, it left nothing: this tests nothing")
	}
	// It goes with the one that started it.
	if id, err := daemonIn(New(Options{StateDir: state}).extension(s.Name)); err == nil {
		if h, err := id.Open(); err == nil {
			if err := h.Await(t.Context()); err != nil {
				t.Error(err)
			}
			_ = h.Close()
		} else if !errors.Is(err, process.ErrGone) {
			t.Error(err)
		}
	}
	clearLedger(t, state, o.Ledger)
	if left := surroundings(t, state, s); left != found {
		t.Errorf("found:\n%s\nleft:\n%s", found, left)
	}
	gone(t, New(Options{StateDir: state}).extension(s.Name), process.Identity{})
}

// One box after the other of a name: a removal leaves nothing that is in the next one's way.
func TestABoxOfAName(t *testing.T) {
	program := annexd(t)
	maker := New(Options{StateDir: stateDirectory(t), Ledger: runLedger, Extender: program})
	s := extendedSpec(t)
	for range 2 {
		b := made(t, maker, s)
		began := time.Now()
		if r := read(t, b); r.Extension == nil || r.At.Before(began) {
			t.Errorf("%+v", r.Extension)
		}
		remove(t, b)
	}
}
