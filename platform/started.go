package platform

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"tare/kernel/procfs"
)

// becomeBound is how long a runtime's process may take to become the program
// after the runtime has said that it did.
const becomeBound = time.Second

// AwaitProgram blocks until the process that an OCI runtime has started is the
// program's and no longer the runtime's, whose file's name is given: runtimes
// say that it is started when they have asked it to start, and what the kernel
// reports of it for some microseconds after that is theirs. There is no event for
// it, so it looks again. A program that has ended is no error.
func AwaitProgram(ctx context.Context, pid int, runtime string) error {
	for until := time.Now().Add(becomeBound); time.Now().Before(until); {
		if !BeforeProgram(pid, runtime) {
			return nil // the program, or its end, which Wait tells
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Microsecond):
		}
	}
	return nil // a program of the runtime's own name
}

// BeforeProgram reports whether the process is the runtime's, which will become
// the program; one that has ended is not.
func BeforeProgram(pid int, runtime string) bool {
	process := procfs.Host.Process(pid)
	if stat, err := process.Stat(); err == nil && stage.MatchString(stat.Comm) {
		return true
	}
	exe, err := os.Readlink(process.Path("exe"))
	return err == nil && isRuntime(exe, runtime)
}

// stage is what a process of runc, or of a runtime made like it, calls itself until it becomes
// the program: "runc:[2:INIT]". The runtime that was named may be a wrapper that executes it.
var stage = regexp.MustCompile(`^\w+:\[[0-2]:[A-Z]+\]$`)

// isRuntime tells by the link in /proc/PID/exe what runtimes run from: their
// own file, a copy of it in memory (runc), or a mount of it that is no part of
// any tree and so has no path (crun).
func isRuntime(exe, runtime string) bool {
	exe = strings.TrimSuffix(exe, " (deleted)")
	return exe == "/" || strings.HasPrefix(exe, "/memfd:") || filepath.Base(exe) == filepath.Base(runtime)
}
