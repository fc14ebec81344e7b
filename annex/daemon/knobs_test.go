package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tare/annex"
	"tare/annex/config"
	"tare/annex/guard"
)

// A guard process that ends is replaced at once, and not when something is changed next.
func TestGuardProcessIsReplaced(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, as the guard process does")
	}
	k := newKnobs(t.Context(), guard.Options{Journal: filepath.Join(t.TempDir(), "journal")})
	g, err := k.started(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := k.close(); err != nil {
			t.Error(err)
		}
	}()
	for range 2 {
		pid := g.PID()
		process, err := os.FindProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Kill(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(10 * time.Second); g.PID() == pid || g.Alive() != nil; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("process %d was killed, and there is no other: %v", pid, g.Alive())
			}
		}
	}
	if text := k.unguarded(); text != "" {
		t.Error(text)
	}
}

// That there is no guard is told no more when one has been started, by whoever did it.
func TestGuardThatIsBackIsTold(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, as the guard process does")
	}
	k := newKnobs(t.Context(), guard.Options{Journal: filepath.Join(t.TempDir(), "journal")})
	g, err := guard.Start(t.Context(), k.options)
	if err != nil {
		t.Fatal(err)
	}
	k.set(g) // which nobody attends to
	defer func() {
		if err := k.close(); err != nil {
			t.Error(err)
		}
	}()
	process, err := os.FindProcess(g.PID())
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-g.Died()
	k.note(errors.New("it did not start"))
	if _, err := k.started(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text := k.unguarded(); text != "" {
		t.Error(text)
	}
}

// Where the journal is another daemon's, no guard starts: whoever wants to change something is
// told so, and the status does not wait meanwhile.
func TestGuardThatDoesNotStart(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, as the guard process does")
	}
	options := guard.Options{Journal: filepath.Join(t.TempDir(), "journal")}
	theirs, err := guard.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	k := newKnobs(t.Context(), options)
	ended := make(chan error)
	go func() {
		_, err := k.started(t.Context())
		ended <- err
	}()
	for len(k.starting) == 0 {
		time.Sleep(time.Millisecond)
	}
	if text := k.unguarded(); text != "" || len(k.starting) == 0 {
		t.Errorf("%q, told when the guard had started, or had not", text)
	}
	impatient, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := k.started(impatient); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one that does not wait so long: %v", err)
	}
	if _, err := theirs.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the other has let go of it: %v", err)
	}
	if err := k.close(); err != nil {
		t.Error(err)
	}

	if theirs, err = guard.Start(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	k = newKnobs(t.Context(), options)
	k.within = 10 * time.Millisecond
	inUse := new(guard.InUse)
	if err := k.Keep(t.Context(), "/sys/fs/cgroup/memory/tare/memory.swappiness", "0"); !errors.As(err, &inUse) {
		t.Errorf("the journal is another's: %v", err)
	}
}

// Nothing is changed any more once all is put back, and no guard starts for it.
func TestNoGuardAfterTheEnd(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal")
	k := newKnobs(t.Context(), guard.Options{Journal: journal})
	if err := k.close(); err != nil {
		t.Fatal(err)
	}
	unguarded := new(guard.Unguarded)
	if err := k.Keep(t.Context(), "/sys/fs/cgroup/memory/tare/memory.swappiness", "0"); !errors.As(err, &unguarded) {
		t.Errorf("a change after the end: %v", err)
	}
	if _, err := os.Lstat(journal); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a journal after the end: %v", err)
	}
}

// What was decided in a mode is told as of that mode, whatever came after.
func TestModeAt(t *testing.T) {
	now := int64(0)
	d := New(Parts{Now: func() (at annex.Moment) { return annex.Moment(now) }}, Settings{Mode: "observe"})
	for _, to := range []string{"manage", "manage", "observe", "manage"} {
		now += 10
		d.turn(config.Mode(to))
		d.settings.Mode = config.Mode(to)
	}
	for at, want := range map[int64]string{0: "observe", 9: "observe", 10: "manage", 29: "manage", 30: "observe", 39: "observe", 40: "manage", 99: "manage"} {
		if got := d.modeAt(annex.Moment(at)); string(got) != want {
			t.Errorf("at %d the mode was %s, want %s", at, got, want)
		}
	}
}
