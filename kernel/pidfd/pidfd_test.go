package pidfd_test

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"tare/kernel/pidfd"
)

// start runs a program that ends when its standard input does.
func start(t *testing.T) (cmd *exec.Cmd, end func()) {
	t.Helper()
	cmd = exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("needs cat on PATH: %v", err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd, func() { stdin.Close() }
}

func open(t *testing.T, pid int) *pidfd.Process {
	t.Helper()
	p, err := pidfd.Open(pid)
	if errors.Is(err, syscall.ENOSYS) {
		t.Skip("needs Linux 5.3 for pidfd_open")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func await(t *testing.T, p *pidfd.Process) <-chan error {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- p.Await() }()
	return result
}

func TestAwaitTellsTheEndOfAProcess(t *testing.T) {
	cmd, end := start(t)
	p := open(t, cmd.Process.Pid)
	result := await(t, p)
	if p.Ended() {
		t.Fatal("Ended is true of a process that runs")
	}
	select {
	case err := <-result:
		t.Fatalf("Await returned %v while the process ran", err)
	default:
	}
	end()
	if err := receive(t, result); err != nil {
		t.Fatal(err)
	}
	if !p.Ended() {
		t.Error("Ended is false of a zombie")
	}
}

func TestKill(t *testing.T) {
	cmd, _ := start(t)
	p := open(t, cmd.Process.Pid)
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, await(t, p)); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if err := p.Kill(); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("Kill of a process that is gone: %v, want ESRCH", err)
	}
}

func TestCloseEndsAwait(t *testing.T) {
	cmd, _ := start(t)
	p := open(t, cmd.Process.Pid)
	result := await(t, p)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, result); err == nil {
		t.Error("Await succeeded though the process runs")
	}
}

func TestOpenNobody(t *testing.T) {
	cmd, end := start(t)
	end()
	cmd.Wait()
	if _, err := pidfd.Open(cmd.Process.Pid); !errors.Is(err, syscall.ESRCH) && !errors.Is(err, syscall.ENOSYS) {
		t.Errorf("Open of a reaped process: %v, want ESRCH", err)
	}
}

func receive(t *testing.T, result <-chan error) error {
	t.Helper()
	select {
	case err := <-result:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("the end was never told")
		return nil
	}
}
