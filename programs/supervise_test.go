package programs_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tare/programs"
)

func TestSuperviseFlagsAreTheMakefiles(t *testing.T) {
	makefile, err := os.ReadFile("supervise/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"CFLAGS  ?= " + strings.Join(programs.SuperviseFlags, " ") + "\n",
		"-o $@ " + strings.Join(programs.SuperviseSources, " ") + "\n",
	} {
		if !strings.Contains(string(makefile), want) {
			t.Errorf("the Makefile does not have %q", want)
		}
	}
}

func buildSupervise(t *testing.T) string {
	return filepath.Join(buildIn(t, "supervise", "supervise"), "supervise")
}

// supervised runs it to its end.
func supervised(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), buildSupervise(t), args...)
	var out, complaints strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaints
	_ = cmd.Run() // its state says how it ended
	return cmd.ProcessState.ExitCode(), out.String(), complaints.String()
}

// needPrograms skips where the host lacks the small tools that are supervised.
func needPrograms(t *testing.T, paths ...string) {
	t.Helper()
	for _, p := range paths {
		if _, err := os.Stat(p); err != nil {
			t.Skip("needs " + p)
		}
	}
}

// The end of one is the end of all, with its status.
func TestSuperviseEndsWithTheFirst(t *testing.T) {
	needPrograms(t, "/bin/sh", "/bin/cat", "/bin/sleep")
	input := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(input, []byte("what comes first\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		args   []string
		status int
		stdout string
		stderr string
	}{
		{"status", []string{"/bin/sh", "-c", "exit 7", "--", "/bin/sleep", "1000"}, 7, "", ""},
		{"last of them", []string{"/bin/sleep", "1000", "--", "/bin/sh", "-c", "exit 3"}, 3, "", ""},
		{"signal", []string{"/bin/sleep", "1000", "--", "/bin/sh", "-c", "kill -SEGV $$"}, 128 + int(syscall.SIGSEGV), "", ""},
		{"first, then the rest", []string{"--first", input, "/bin/cat", "--", "/bin/sh", "-c", "echo and then"}, 0, "what comes first\nand then\n", ""},
		{"first alone", []string{"--first", input, "/bin/cat"}, 0, "what comes first\n", ""},
		{"first fails", []string{"--first", input, "/bin/sh", "-c", "exit 5", "--", "/bin/sh", "-c", "echo never"}, 5, "", ""},
		{"no input", []string{"--first", input + "-not", "/bin/cat", "--", "/bin/sh", "-c", "echo never"}, 126, "", "No such file"},
		{"no program", []string{"/bin/sleep", "1000", "--", "/no/such/program"}, 126, "", "/no/such/program: No such file"},
		{"nothing", nil, 2, "", "usage:"},
		{"empty part", []string{"/bin/cat", "--"}, 2, "", "usage:"},
		{"empty first part", []string{"--", "/bin/cat"}, 2, "", "usage:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, stdout, stderr := supervised(t, c.args...)
			if status != c.status || stdout != c.stdout || !strings.Contains(stderr, c.stderr) {
				t.Errorf("status %d, %q, %q; want %d, %q, %q", status, stdout, stderr, c.status, c.stdout, c.stderr)
			}
		})
	}
}

// Told to end, it ends what it runs, also what will not hear; and it has nothing
// left when it is killed itself.
func TestSuperviseEndsAll(t *testing.T) {
	needPrograms(t, "/bin/sh", "/bin/sleep")
	const deaf = `trap "" TERM; echo deaf; while :; do /bin/sleep 1; done`
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		one    string
	}{
		{"terminated", syscall.SIGTERM, `echo $$; exec /bin/sleep 1000`},
		{"interrupted", syscall.SIGINT, `echo $$; exec /bin/sleep 1000`},
		{"killed", syscall.SIGKILL, `echo $$; exec /bin/sleep 1000`},
		{"one is deaf", syscall.SIGTERM, deaf},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), buildSupervise(t), "/bin/sh", "-c", c.one, "--", "/bin/sh", "-c", `echo $$; exec /bin/sleep 1000`)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for range 2 { // both run
				if !lines.Scan() {
					t.Fatal("it ended: ", lines.Err())
				}
			}
			if err := cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			// The pipe ends when its last writer has: nobody outlives it.
			for lines.Scan() {
			}
			_ = cmd.Wait() // its state says how it ended
			want := 128 + int(c.signal)
			if c.signal == syscall.SIGKILL {
				want = -1
			}
			if got := cmd.ProcessState.ExitCode(); got != want {
				t.Errorf("status %d, want %d", got, want)
			}
		})
	}
}
