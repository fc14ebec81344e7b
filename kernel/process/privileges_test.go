package process_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"tare/kernel/process"
)

func TestForgoPrivileges(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to have something to forgo")
	}
	status := func() string {
		out, err := exec.Command("cat", "/proc/self/status").Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	const none = "0000000000000000"
	var after string
	if err := process.OnFreshThread(func() error {
		if err := process.ForgoPrivileges(); err != nil {
			return err
		}
		after = status()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if !strings.Contains(after, field+":\t"+none) {
			t.Errorf("a program has %s of\n%s", field, after)
		}
	}
	if !strings.Contains(after, "NoNewPrivs:\t1") {
		t.Errorf("a program may gain privileges:\n%s", after)
	}
	if other := status(); strings.Contains(other, "CapBnd:\t"+none) || strings.Contains(other, "NoNewPrivs:\t1") {
		t.Errorf("other threads have forgone theirs:\n%s", other)
	}
}
