package descriptor

import (
	"errors"
	"os"
	"testing"
	"time"
)

func TestAwaitable(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	again, err := Awaitable(int(r.Fd()), "a pipe")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := again.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	second := func(uintptr) bool { asked++; return asked > 1 }
	if err := again.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatalf("the runtime does not wait for it: %v", err)
	}
	if err := conn.Read(second); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("waiting ended by %v", err)
	}
	if err := again.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	asked = 0
	if err := conn.Read(second); err != nil || asked != 2 {
		t.Errorf("asked %d times, then %v", asked, err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	var one [1]byte
	if n, err := r.Read(one[:]); n != 1 {
		t.Errorf("the first descriptor is gone too: %v", err)
	}
	if _, err := Awaitable(-1, "nothing"); err == nil {
		t.Error("no descriptor can be awaited")
	}
}
