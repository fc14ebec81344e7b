package oci

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"tare/kernel/process"
)

const logText = `{"level":"warning","msg":"cgroup: not there","time":"2026-01-02T03:04:05Z"}
{"level":"error","msg":"runc run failed: unable to start container process: exec: \"/nope\": no such file\n","time":"2026-01-02T03:04:05Z"}
not json
`

func TestLastError(t *testing.T) {
	if got := lastError(strings.NewReader(logText)); !strings.HasSuffix(got, `exec: "/nope": no such file`) {
		t.Errorf("%q", got)
	}
	if got := lastError(strings.NewReader("")); got != "" {
		t.Errorf("an empty log says %q", got)
	}
}

func FuzzLastError(f *testing.F) {
	f.Add(logText)
	f.Fuzz(func(t *testing.T, s string) { _ = lastError(strings.NewReader(s)) })
}

// policy reads a scheduling policy from a line of proc_pid_stat(5): its field 41.
func policy(t *testing.T, stat []byte) string {
	t.Helper()
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 39 {
		t.Fatalf("%q has no policy", stat)
	}
	return fields[38]
}

const (
	ordinary  = "0"
	firstCome = "1" // SCHED_FIFO
)

// The thread that forks the runtime is punctual, and what it forks is not.
func TestCallerIsPunctual(t *testing.T) {
	runtime.LockOSThread()
	restore, err := process.Punctual()
	if errors.Is(err, fs.ErrPermission) {
		t.Skip("real-time priorities need CAP_SYS_NICE")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	runtime.UnlockOSThread()

	c, err := new(oci).newCaller()
	if err != nil {
		t.Fatal(err)
	}
	var caller, child []byte
	err = c.do(func() (err error) {
		if caller, err = os.ReadFile("/proc/thread-self/stat"); err != nil {
			return err
		}
		child, err = exec.Command("cat", "/proc/self/stat").Output()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if p := policy(t, caller); p != firstCome {
		t.Errorf("the caller's policy is %s, want SCHED_FIFO", p)
	}
	if p := policy(t, child); p != ordinary {
		t.Errorf("the policy of what it starts is %s, want the ordinary one", p)
	}
	c.dismiss() // as the end of every container does
}

func TestCallerDismissed(t *testing.T) {
	c, err := new(oci).newCaller()
	if err != nil {
		t.Fatal(err)
	}
	c.dismiss()
	if err := <-c.ended; err != nil {
		t.Error(err)
	}
	if err := c.do(func() error { t.Error("it works still"); return nil }); err == nil {
		t.Error("a caller that was dismissed can be called")
	}
}
