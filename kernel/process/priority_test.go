package process

import (
	"errors"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestPreferIsNotInherited(t *testing.T) {
	// The thread has to be there before.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	restore, err := Prefer(-5)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		t.Skip("a nice value below 0 needs CAP_SYS_NICE")
	}
	if err != nil {
		t.Fatal(err)
	}
	if nice, err := Nice(); err != nil || nice != -5 {
		t.Errorf("nice is %d (%v), want -5", nice, err)
	}
	out, err := exec.Command("nice").Output()
	if err != nil || strings.TrimSpace(string(out)) != "0" {
		t.Errorf("a child's nice is %q (%v), want 0", out, err)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	if nice, err := Nice(); err != nil || nice != 0 {
		t.Errorf("nice is %d (%v) after, want 0", nice, err)
	}
}
