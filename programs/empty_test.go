package programs_test

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"
)

// awaitSleep waits until a process sleeps. The kernel tells nobody of that, so
// it is asked again and again.
func awaitSleep(t *testing.T, pid int) {
	t.Helper()
	state := regexp.MustCompile(`(?m)^State:\t([A-Z])`)
	for ; t.Context().Err() == nil; time.Sleep(time.Millisecond) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		m := state.FindSubmatch(status)
		if m == nil || string(m[1]) == "Z" {
			t.Fatalf("process %d ended: %s", pid, status)
		}
		if string(m[1]) == "S" {
			return
		}
	}
}

func TestEmptyEndsAtOnceWithAnArgument(t *testing.T) {
	program := filepath.Join(buildIn(t, "empty", "empty"), "empty")
	if out, err := exec.CommandContext(t.Context(), program, "now").CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %q", err, out)
	}
}

// Each of the signals ends it with status 0: it was waited for, and did not
// kill. That it waits at all shows in its being there to take them.
func TestEmptyWaitsForASignal(t *testing.T) {
	program := filepath.Join(buildIn(t, "empty", "empty"), "empty")
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// It sleeps in its wait and nowhere else; before, a signal would kill it.
		awaitSleep(t, cmd.Process.Pid)
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v", signal, err)
		}
	}
}

// Nothing is loaded but the program, and nothing interprets it.
func TestEmptyNeedsNothing(t *testing.T) {
	program := filepath.Join(buildIn(t, "empty", "empty"), "empty")
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("it has a %v", p.Type)
		}
	}
}
