package process

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// A program in namespaces of its own goes on in those of the first process, with the command line
// and the environment that it began with.
func TestEnterHost(t *testing.T) {
	const began = "TARE_TEST_BEGAN_APART"
	_, inside, err := ofHost()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv(began) != "" {
		t.Logf("with the host's mounts: %t, PATH %s", inside, os.Getenv("PATH"))
		t.Setenv("PATH", "/none")
		if err := EnterHost(); err != nil {
			t.Fatal(err)
		}
		return
	}
	if os.Geteuid() != 0 || !inside {
		t.Skip("requires root, and the host's mount namespace")
	}
	if err := EnterHost(); err != nil {
		t.Errorf("where it is already: %v", err)
	}
	child := exec.Command("/proc/self/exe", "-test.run=^TestEnterHost$", "-test.v")
	child.Env = append(os.Environ(), began+"=1")
	child.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWCGROUP}
	out, err := child.CombinedOutput()
	apart := strings.Index(string(out), "mounts: false")
	if again := strings.Index(string(out), "mounts: true, PATH "+os.Getenv("PATH")); err != nil || apart < 0 || again < apart {
		t.Errorf("%v\n%s", err, out)
	}
}
