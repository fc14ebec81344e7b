package procfs

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// start runs a program until the test ends, when it has called itself by a command, where one is given.
func start(t *testing.T, uid uint32, command, program string) Process {
	t.Helper()
	cmd := exec.Command(program, "-c", `[ -z "$0" ] || echo "$0" > /proc/$$/comm; echo ready; read end`, command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Wait()
	})
	if _, err := io.ReadFull(stdout, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	return Host.Process(cmd.Process.Pid)
}

// TestRuns: neither a command that a process chose, nor a file of the right name that another user runs,
// makes it the engine's.
func TestRuns(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("running programs as another user takes root")
	}
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	named := filepath.Join(dir, "containerd-shim-runc-v2")
	if err := os.WriteFile(named, shell, 0o755); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	programs := []string{"dockerd", "containerd-shim"}
	for _, c := range []struct {
		what, command, program string
		uid                    uint32
		roots, users           bool
	}{
		{"a shell", "", "/bin/sh", 0, false, false},
		{"a shell that calls itself dockerd", "dockerd", "/bin/sh", 0, false, false},
		{"a user's shell that calls itself dockerd", "dockerd", "/bin/sh", nobody, false, false},
		{"root's shim", "", named, 0, true, false},
		{"a user's file with the name of a shim", "", named, nobody, false, true},
		{"a shim that calls itself something else", "worker", named, 0, true, false},
	} {
		p := start(t, c.uid, c.command, c.program)
		if roots, users := p.Runs(0, programs), p.Runs(nobody, programs); roots != c.roots || users != c.users {
			t.Errorf("%s: root's %v, the user's %v; want %v, %v", c.what, roots, users, c.roots, c.users)
		}
	}
	p := start(t, 0, "", named)
	if err := os.Remove(named); err != nil {
		t.Fatal(err)
	}
	if !p.Runs(0, programs) {
		t.Error("a program whose file was renewed is not recognised")
	}
	if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for {
		if stat, err := p.Stat(); err != nil || stat.Zombie() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if !p.Runs(0, programs) {
		t.Error("a shim that has ended and was not waited for is not recognised")
	}
}

// TestRunsInContainer: root of a process namespace below is not the host's.
func TestRunsInContainer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a process namespace takes root")
	}
	named := filepath.Join(t.TempDir(), "dockerd")
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(named, shell, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(named, "-c", "echo ready; read end")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	stdin, _ := cmd.StdinPipe()
	stdout, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer stdin.Close()
	if _, err := io.ReadFull(stdout, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	if Host.Process(cmd.Process.Pid).Runs(0, []string{"dockerd"}) {
		t.Error("a program in a process namespace of its own passes for the host's engine")
	}
}

// TestArgsAreBounded: a command line is as long as its process will have it.
func TestArgsAreBounded(t *testing.T) {
	cmd := exec.Command("sleep", append([]string{"60"}, strings.Split(strings.Repeat("0 ", 2*mostArgs), " ")...)...)
	cmd.Args = cmd.Args[:len(cmd.Args)-1]
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	p := Host.Process(cmd.Process.Pid)
	if err := p.AwaitProgram(t.Context()); err != nil {
		t.Fatal(err)
	}
	args, err := p.Args()
	size := len(strings.Join(args, " "))
	if err != nil || args[0] != "sleep" || size > mostArgs || size < mostArgs/2 {
		t.Errorf("%d bytes of arguments were read, %v; want at most %d", size, err, mostArgs)
	}
}

// TestTextsAreBounded: a list of what a process maps has an end for the reader at least.
func TestTextsAreBounded(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func(Process) error{
		"maps":      func(p Process) error { _, err := p.Maps(); return err },
		"mountinfo": func(p Process) error { _, err := p.Mounts(); return err },
		"environ":   func(p Process) error { _, err := p.Environ(); return err },
	} {
		if err := os.Symlink("/dev/zero", filepath.Join(root, "1", name)); err != nil {
			t.Fatal(err)
		}
		// On a busy host reading so much takes longer than the kernel's lock is waited for.
		err := read(FS(root).Process(1))
		if !errors.Is(err, ErrTooLong) && !errors.Is(err, ErrLocked) {
			t.Errorf("%s without an end: %v", name, err)
		}
	}
}
