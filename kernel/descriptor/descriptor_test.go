package descriptor

import (
	"errors"
	"os"
	"testing"
	"time"
)

func TestUntil(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	a, err := Await(int(r.Fd()), "a pipe")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	second := func() bool { asked++; return asked > 1 }
	if err := a.Until(time.Unix(1, 0), second); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("waiting ended by %v", err)
	}
	if _, err := w.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	asked = 0
	if err := a.Until(time.Time{}, second); err != nil || asked != 2 {
		t.Errorf("asked %d times, then %v", asked, err)
	}
	ended := make(chan error)
	go func() { ended <- a.Until(time.Time{}, func() bool { return false }) }()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("waiting ended well, though what was awaited was closed")
	}
	var one [1]byte
	if n, err := r.Read(one[:]); n != 1 {
		t.Errorf("the first descriptor is gone too: %v", err)
	}
}

func TestAwaitOfWhatCannotBe(t *testing.T) {
	if _, err := Await(-1, "nothing"); err == nil {
		t.Error("no descriptor can be awaited")
	}
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := Await(int(f.Fd()), "a file"); err == nil {
		t.Error("a file on a disk can be awaited")
	}
}
