package mount

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tare/kernel/procfs"
)

// Patience is how long a file system is waited for that a user's path lies on.
const Patience = 10 * time.Second

// NoAnswer is the error of a path whose file system does not answer.
type NoAnswer struct {
	Path  string
	Bound time.Duration // that was waited
}

func (n *NoAnswer) Error() string {
	return fmt.Sprintf("%s: its file system has not answered for %v: see to its server, or unmount it with umount --force --lazy",
		n.Path, n.Bound)
}

// Answers asks the file system of a path for it, and waits no longer than bound. The error is a
// [*NoAnswer], or that of ctx. Whether there is anything at the path makes no difference.
//
// A process whose request a FUSE server has taken cannot end before the answer, not even by SIGKILL
// (fs/fuse/dev.c, request_wait_answer). So a child process asks, and is left to end when it can.
// Where no file system is mounted that could be silent, nothing is asked.
func Answers(ctx context.Context, path string, bound time.Duration) error {
	mounts, err := procfs.Host.Process(os.Getpid()).Mounts()
	if err != nil || !slices.ContainsFunc(mounts, mayBeSilent) {
		return err
	}
	child := exec.Command("/proc/self/exe")
	child.Args = []string{askerName, path}
	child.Env = []string{}                                  // which may have settings of the Go runtime
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's signals are its parent's
	if err := child.Start(); err != nil {
		return fmt.Errorf("asking for %s: %w", path, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	late := time.NewTimer(bound)
	defer late.Stop()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-late.C:
		err = &NoAnswer{path, bound}
	}
	if killing := child.Process.Kill(); !errors.Is(killing, os.ErrProcessDone) {
		err = errors.Join(err, killing)
	}
	return err
}

// mayBeSilent reports whether somebody outside of this kernel is asked for the files of a mount.
func mayBeSilent(m procfs.Mount) bool {
	return Served(m.FSType) || slices.Contains([]string{"virtiofs", "nfs", "nfs4", "cifs", "smb3", "9p", "ceph"}, m.FSType)
}

// askerName is the name by which a program runs itself as a child that asks.
const askerName = "tare-asks-for"

// init is before any main, so that the tests' programs have it too.
func init() {
	if len(os.Args) != 2 || os.Args[0] != askerName {
		return
	}
	var st unix.Statx_t
	for path := os.Args[1]; ; path = filepath.Dir(path) {
		// What the kernel still knows of it is no answer.
		err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_FORCE_SYNC, unix.STATX_TYPE, &st)
		if err != unix.ENOENT || path == filepath.Dir(path) {
			os.Exit(0)
		}
	}
}
