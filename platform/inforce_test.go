package platform_test

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"testing"

	"tare/platform"
)

// A process of the host: everything in force for it is known beforehand.
func TestReadInForce(t *testing.T) {
	cmd := exec.Command("sleep", "3600")
	cmd.Env = []string{"Z=26", "A=1"}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	force, err := platform.ReadInForce(pid, []string{"/", "/proc"})
	if err != nil {
		t.Error(err)
	}
	group, err := platform.OwnGroup(pid)
	if err != nil {
		t.Error(err)
	}
	if _, err := platform.ReadUsage(group); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()

	if !slices.Equal(force.Env, []string{"A=1", "Z=26"}) {
		t.Errorf("environment %q", force.Env)
	}
	if force.Stdin != "/dev/null" || force.Stdout != "pipe" {
		t.Errorf("standard streams %q, %q", force.Stdin, force.Stdout)
	}
	if force.NetworkNS != "host" || len(force.Namespaces) != 0 {
		t.Errorf("network %q, namespaces %v of a process of the host", force.NetworkNS, force.Namespaces)
	}
	if len(force.DataFS) != 2 || force.DataFS[0] != force.RootFS || force.DataFS[1] != "proc" {
		t.Errorf("root on %q, data on %v", force.RootFS, force.DataFS)
	}
	if _, err := platform.ParseCPUList(force.CPUSet); err != nil || force.CPUSet == "" {
		t.Errorf("CPUs %q: %v", force.CPUSet, err)
	}
	if len(force.Cgroups) == 0 || force.OpenFiles == 0 || force.Capability == "" {
		t.Errorf("nothing known: %+v", force)
	}

	if _, err := platform.ReadInForce(pid, nil); !errors.Is(err, platform.ErrGone) {
		t.Errorf("of a process that ended: %v, want one that wraps ErrGone", err)
	}
	if _, err := platform.OwnGroup(pid); !errors.Is(err, platform.ErrGone) {
		t.Errorf("group of a process that ended: %v, want one that wraps ErrGone", err)
	}
}

func TestReadInForceMissingData(t *testing.T) {
	_, err := platform.ReadInForce(os.Getpid(), []string{"/nowhere-at-all"})
	if err == nil {
		t.Fatal("no error for a directory that is not there")
	}
}
