// Package machine does what only a machine's first process may and must: name the
// machine, reap what has no parent, and switch it off.
//
// It is for a machine of tare's own, never for the host: each of its calls acts on the
// whole of it.
package machine

import (
	"errors"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// SetHostname names the machine.
func SetHostname(name string) error {
	return os.NewSyscallError("sethostname", unix.Sethostname([]byte(name)))
}

// PowerOff writes what is not on the disks yet and switches the machine off. It
// returns only where that fails.
func PowerOff() error {
	if os.Getpid() != 1 {
		return fmt.Errorf("process %d would switch the machine off, which only its first process may", os.Getpid())
	}
	unix.Sync()
	return os.NewSyscallError("reboot", unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF))
}

// ReapUntil reaps this process' children, its own and those that came to it when their
// parents ended, until the one named has ended, and says how. No other part of the
// program may wait for children of its own meanwhile.
func ReapUntil(pid int) (code, signal int, err error) {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, 0, os.NewSyscallError("wait4", err)
		case got != pid:
		case status.Signaled():
			return 128 + int(status.Signal()), int(status.Signal()), nil
		case status.Exited():
			return status.ExitStatus(), 0, nil
		}
	}
}

// Reap reaps this process' children, its own and those that came to it, for as long as the
// program runs, and calls ended for each. No other part of the program may wait for
// children of its own meanwhile.
func Reap(ended func(pid, code int)) {
	child := make(chan os.Signal, 1)
	signal.Notify(child, unix.SIGCHLD)
	for ; ; <-child {
		for {
			var status unix.WaitStatus
			pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || pid == 0 {
				break // none, or none that has ended
			}
			if code := status.ExitStatus(); status.Signaled() {
				ended(pid, 128+int(status.Signal()))
			} else {
				ended(pid, code)
			}
		}
	}
}

// SetOpenFiles sets how many files this process and its children may have open: what a
// kernel gives its first process, 1024 and at most 4096, is less than programs get
// from any distribution.
func SetOpenFiles(most uint64) error {
	return os.NewSyscallError("setrlimit", unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: most}))
}
