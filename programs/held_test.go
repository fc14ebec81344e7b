package programs_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// begin starts a program that does not end by itself, and gives what it prints;
// it is killed, and waited for, when the test ends.
func begin(t *testing.T, program string, args ...string) (cmd *exec.Cmd, lines *bufio.Reader) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), program, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, bufio.NewReader(out)
}

// mapped tells whether a process has a file mapped.
func mapped(t *testing.T, pid int, file string) bool {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(maps), file)
}

// A held function has printed its line, and has its input mapped until a signal
// ends it.
func TestFunctionsHold(t *testing.T) {
	dir := buildIn(t, "functions", "all")
	for _, function := range functions {
		program, file := filepath.Join(dir, function), filepath.Join(t.TempDir(), "input")
		if out, err := exec.CommandContext(t.Context(), program, "generate", "--data", "1", file).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		cmd, lines := begin(t, program, "--hold", file)
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("%s: %q, %v", function, line, err)
		}
		if !mapped(t, cmd.Process.Pid, file) {
			t.Errorf("%s: its input is not mapped any more", function)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
			t.Errorf("%s: after its line %q, %v", function, rest, err)
		}
		_ = cmd.Wait() // its state says how it ended
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
			t.Errorf("%s: ended by %v, want the signal", function, cmd.ProcessState)
		}
	}
}
