package machine_test

import (
	"os/exec"
	"testing"

	"tare/kernel/machine"
)

// A host is not to be switched off by a mistake.
func TestPowerOffIsForTheFirstProcess(t *testing.T) {
	if err := machine.PowerOff(); err == nil {
		t.Error("it succeeded")
	}
}

func TestReapUntil(t *testing.T) {
	// Two that nobody waits for, and the one that decides.
	for range 2 {
		if err := exec.Command("true").Start(); err != nil {
			t.Skip(err)
		}
	}
	for script, want := range map[string][2]int{"exit 7": {7, 0}, "kill -9 $$": {137, 9}} {
		cmd := exec.Command("sh", "-c", script)
		if err := cmd.Start(); err != nil {
			t.Skip(err)
		}
		code, signal, err := machine.ReapUntil(cmd.Process.Pid)
		if err != nil || code != want[0] || signal != want[1] {
			t.Errorf("%s: %d, %d, %v", script, code, signal, err)
		}
	}
}

// It is the last test here: nobody else can wait for children after it.
func TestReap(t *testing.T) {
	type end struct{ pid, code int }
	ends := make(chan end, 8)
	go machine.Reap(func(pid, code int) { ends <- end{pid, code} })
	for script, want := range map[string]int{"exit 7": 7, "kill -9 $$": 137} {
		cmd := exec.Command("sh", "-c", script)
		if err := cmd.Start(); err != nil {
			t.Skip(err)
		}
		if got := <-ends; got != (end{cmd.Process.Pid, want}) {
			t.Errorf("%s: %+v, want status %d of %d", script, got, want, cmd.Process.Pid)
		}
	}
}
