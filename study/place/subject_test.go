package place

import (
	"os"
	"strings"
	"testing"

	"tare/kernel/process"
	"tare/kernel/procfs"
	"tare/platform"
)

// One thread that has bound itself, among others that have not, is found.
func TestBoundThread(t *testing.T) {
	status, err := procfs.Host.Process(os.Getpid()).Status()
	if err != nil {
		t.Fatal(err)
	}
	all, err := platform.ParseCPUList(status.CPUsAllowed)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 2 {
		t.Skipf("with CPU %s alone no thread can be bound to fewer", status.CPUsAllowed)
	}
	if bound, err := boundThread(os.Getpid(), all); bound != "" || err != nil {
		t.Fatalf("before any has: %q (%v)", bound, err)
	}
	first := all[:1]
	var bound string
	err = process.OnFreshThread(func() (err error) {
		if err := process.SetAffinity(first); err != nil {
			return err
		}
		bound, err = boundThread(os.Getpid(), all)
		return err
	})
	if err != nil || !strings.Contains(bound, "thread") || !strings.Contains(bound, "CPUs "+platform.FormatCPUList(first)+" ") {
		t.Errorf("of a process with one bound thread: %q (%v)", bound, err)
	}
}
