package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"tare/kernel/procfs"
)

// Adopt makes this program the parent of those of its descendants whose own
// parents end before them (PR_SET_CHILD_SUBREAPER). It holds for the whole
// program until its end: whoever calls it answers for reaping them, by
// [Handle.Reap] or [ReapKilled].
func Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", err)
	}
	return nil
}

// Ending is how a process ended.
type Ending struct {
	Code   int // exit status; 128 + signal where a signal ended it, as shells have it
	Signal int // 0 where none did
}

// Reap waits for a child of this program (born or adopted) to end and takes
// its status. It may be called once.
func (h *Handle) Reap(ctx context.Context) (Ending, error) {
	if err := h.Await(ctx); err != nil {
		return Ending{}, err
	}
	var status unix.WaitStatus
	for {
		pid, err := unix.Wait4(h.PID, &status, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid != h.PID {
			return Ending{}, fmt.Errorf("waiting for process %d: %w", h.PID, err)
		}
		return EndingOf(status.ExitStatus(), int(status.Signal()), status.Signaled()), nil
	}
}

// EndingOf makes an ending of the parts of a wait status.
func EndingOf(code, signal int, signaled bool) Ending {
	if signaled {
		return Ending{128 + signal, signal}
	}
	return Ending{Code: code}
}

// ReapKilled reaps those of a cgroup's processes that have become this
// program's children (it adopts) and that have been killed, all of the group:
// killed are those it held when they were, group is its path. Others that ended
// in it before are reaped too. Its own first process, which somebody waits
// for, is named by except.
func ReapKilled(ctx context.Context, group string, killed []int, except int) error {
	// A process leaves its cgroup before it becomes a zombie, and is adopted
	// only when its own parent has ended: for an instant there is nothing yet
	// to wait for.
	for wait := 100 * time.Microsecond; ; wait = min(2*wait, 10*time.Millisecond) {
		pending := slices.DeleteFunc(slices.Clone(killed), func(pid int) bool {
			return pid == except || settled(pid, killed)
		})
		if len(pending) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("reaping processes %v: %w", pending, ctx.Err())
		case <-time.After(wait):
		}
	}
	children, err := procfs.Host.Process(os.Getpid()).Children()
	if err != nil {
		return err
	}
	for _, pid := range children {
		if pid == except || !zombieOf(pid, group) {
			continue
		}
		if _, err := unix.Wait4(pid, nil, unix.WNOHANG, nil); err != nil && !errors.Is(err, unix.ECHILD) {
			return fmt.Errorf("reaping process %d: %w", pid, err)
		}
	}
	return nil
}

// settled reports whether a killed process is gone, reaping it where it is a
// child of this program, or is somebody else's to reap.
func settled(pid int, killed []int) bool {
	stat, err := procfs.Host.Process(pid).Stat()
	switch {
	case err != nil:
		return true
	case stat.Parent == os.Getpid():
		got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		return got == pid || errors.Is(err, unix.ECHILD)
	}
	// Its parent dies too, and then it is adopted; or it is not in our line.
	return !slices.Contains(killed, stat.Parent)
}

func zombieOf(pid int, group string) bool {
	process := procfs.Host.Process(pid)
	stat, err := process.Stat()
	if err != nil || !stat.Zombie() {
		return false
	}
	b, err := os.ReadFile(process.Path("cgroup"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		_, after, _ := strings.Cut(line, ":/")
		path := "/" + strings.TrimSuffix(after, "\n")
		// The kernel marks a group that is gone. One may have such a name, too.
		if path == group || strings.TrimSuffix(path, " (deleted)") == group || strings.HasPrefix(path, group+"/") {
			return true
		}
	}
	return false
}
