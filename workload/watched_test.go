package workload

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"tare/image"
)

// watchedTrial is a program that does not end by itself, run by changing into its
// image's root, with what it has printed so far.
type watchedTrial struct {
	trial
	stdout string // file
	pid    int
}

func (t *watchedTrial) Output() (stdout, stderr []byte) {
	stdout, _ = os.ReadFile(t.stdout)
	return stdout, nil
}

// watch starts a sustained workload's program; it is killed, and waited for, when
// the test ends, and what it made is removed.
func watch(t *testing.T, w Workload, p Params, img image.Image, made ...string) *watchedTrial {
	t.Helper()
	program, err := w.Program(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, file := range made {
			_ = os.Remove(filepath.Join(img.Root, file))
		}
	})
	tr := &watchedTrial{stdout: filepath.Join(t.TempDir(), "stdout")}
	tr.params, tr.ended = p, make(chan struct{})
	out, err := os.Create(tr.stdout)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.CommandContext(t.Context(), program.Args[0], program.Args[1:]...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin"}
	// Fio has a process for its job, in a session of its own: only in a namespace do
	// all end with the first.
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: img.Root, Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWPID}
	cmd.Stdout, cmd.Stderr = out, out
	started := make(chan error, 1)
	go func() {
		// The signal of a parent's death comes when the thread ends, not the process.
		runtime.LockOSThread()
		started <- cmd.Start()
		if cmd.Process == nil {
			return
		}
		_ = cmd.Wait() // its state says how it ended
		tr.exit = Exit{Code: cmd.ProcessState.ExitCode()}
		close(tr.ended)
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	tr.pid = cmd.Process.Pid
	t.Cleanup(func() { <-tr.ended }) // the test's context has ended by then
	return tr
}
