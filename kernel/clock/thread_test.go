package clock

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestThreadUsesTime(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := Thread()
	for Thread() == before {
	}
	if after := Thread(); after <= before {
		t.Errorf("%v after %v", after, before)
	}
}

func TestExactSetsTheSlackOfTheThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	slack := func() int {
		t.Helper()
		ns, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return ns
	}
	before := slack()
	restore, err := Exact()
	if err != nil {
		t.Fatal(err)
	}
	if got := slack(); got != 1 {
		t.Errorf("slack %d ns, want 1", got)
	}
	if err := restore(); err != nil || slack() != before {
		t.Errorf("slack %d ns after %d, %v", slack(), before, err)
	}
}
