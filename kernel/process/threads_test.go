package process

import (
	"errors"
	"os/exec"
	"slices"
	"testing"
)

func TestAffinityOfAnotherProcess(t *testing.T) {
	allowed, err := Affinity()
	if err != nil {
		t.Fatal(err)
	}
	if len(allowed) < 2 {
		t.Skip("this program may run on one CPU alone: there is nothing to restrict")
	}
	cmd := exec.Command("sleep", "3600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	tids, err := Threads(pid)
	if err != nil || !slices.Equal(tids, []int{pid}) {
		t.Errorf("threads %v, %v; want the first alone", tids, err)
	}
	last := allowed[len(allowed)-1:]
	if err := SetAffinityOf(pid, last); err != nil {
		t.Error(err)
	}
	if got, err := AffinityOf(pid); err != nil || !slices.Equal(got, last) {
		t.Errorf("it may run on %v (%v), want %v", got, err, last)
	}
	if own, err := Affinity(); err != nil || !slices.Equal(own, allowed) {
		t.Errorf("this program's own CPUs changed to %v (%v)", own, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if _, err := Threads(pid); !errors.Is(err, ErrGone) {
		t.Errorf("threads of what has ended: %v", err)
	}
	if err := SetAffinityOf(pid, last); !errors.Is(err, ErrGone) {
		t.Errorf("restricting what has ended: %v", err)
	}
	if _, err := AffinityOf(pid); !errors.Is(err, ErrGone) {
		t.Errorf("asking what has ended: %v", err)
	}
}
