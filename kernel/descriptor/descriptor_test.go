package descriptor

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestUntil(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	fd := int(r.Fd())
	a, err := Await(fd, "a pipe")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Until(time.Unix(1, 0), func() bool { return false }); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("waiting ended by %v", err)
	}
	// Who asks looks for what there is: of what came before it began to wait the kernel reports
	// once, and that may be over.
	asked, answers := make(chan struct{}, 16), make(chan error, 1)
	var one [1]byte
	go func() {
		answers <- a.Until(time.Time{}, func() bool {
			asked <- struct{}{}
			n, err := unix.Read(fd, one[:])
			return n == 1 && err == nil
		})
	}()
	<-asked
	if _, err := w.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if err := <-answers; err != nil {
		t.Errorf("what came ended the waiting by %v", err)
	}
	ended := make(chan error)
	go func() { ended <- a.Until(time.Time{}, func() bool { return false }) }()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("waiting ended well, though what was awaited was closed")
	}
	if _, err := w.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Read(fd, one[:]); n != 1 {
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
