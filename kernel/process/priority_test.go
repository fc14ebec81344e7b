package process

import (
	"errors"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// policy is the scheduling policy of a thread, the calling one for 0.
func policy(t *testing.T, tid int) uint32 {
	t.Helper()
	attr, err := unix.SchedGetAttr(tid, 0)
	if err != nil {
		t.Fatal(err)
	}
	return attr.Policy
}

func TestPunctualIsNotInherited(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	restore, err := Punctual()
	if errors.Is(err, unix.EPERM) {
		t.Skip("real-time priorities need CAP_SYS_NICE")
	}
	if err != nil {
		t.Fatal(err)
	}
	if p := policy(t, 0); p != unix.SCHED_FIFO {
		t.Errorf("the thread's policy is %d, want SCHED_FIFO", p)
	}
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if p := policy(t, child.Process.Pid); p != unix.SCHED_NORMAL {
		t.Errorf("a child's policy is %d, want the ordinary one", p)
	}
	if err := errors.Join(in.Close(), child.Wait()); err != nil {
		t.Error(err)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	if p := policy(t, 0); p != unix.SCHED_NORMAL {
		t.Errorf("the thread's policy is %d after, want the ordinary one", p)
	}
}
