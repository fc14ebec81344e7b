package fusetest

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// apartVariable tells a test that its mounts are its own.
const apartVariable = "TARE_TEST_APART"

// Apart runs a test in a process whose mounts no other program sees. It is true there, and false in the
// process that has run it.
func Apart(t *testing.T) bool {
	t.Helper()
	if os.Getenv(apartVariable) != "" {
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("mounts of its own need root")
	}
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v"}
	again := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	again.Env = append(os.Environ(), apartVariable+"=1")
	again.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := again.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("in a process of its own: %v", err)
	}
	return false
}
