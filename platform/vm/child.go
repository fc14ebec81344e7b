package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"tare/kernel/cgroup"
	"tare/kernel/process"
)

// child is an engine's process.
type child struct {
	process.Identity
	console *console
	ended   chan struct{} // closed when it has ended and is reaped
	err     error         // how, to be read after ended
}

// entering is a shell's script that moves its own process into the groups whose files
// are named before "--", and then becomes the program named after it: so the engine is
// in its group from its first instruction. Version 1 has no other way to begin so.
const entering = `for f do
	[ "$f" = -- ] && break
	echo $$ > "$f" || exit 125
	shift
done
shift
exec "$@"`

// startChild starts an engine in its group. files are inherited, from descriptor 3 on.
// The process ends with this program, however that ends.
func startChild(
	group cgroup.Group,
	dir string,
	c *console,
	files []*os.File,
	program string,
	args []string,
) (*child, error) {
	words := append([]string{"-c", entering, "tare-vm"}, group.ProcessFiles()...)
	words = append(append(words, "--", program), args...)
	cmd := exec.Command("/bin/sh", words...)
	cmd.Dir, cmd.ExtraFiles = dir, files
	// The engine's own processes may outlive its first, with its output in hand.
	said, output, err := process.NewOutput(c)
	if err != nil {
		return nil, err
	}
	defer said.Close()
	cmd.Stdout, cmd.Stderr = said, said
	// Standard input is /dev/null, and the environment without what steers engines.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=/"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	k := &child{console: c, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The signal at the parent's death is sent at the death of the thread that
		// started the process (prctl(2)): this one lives as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			k.Identity, err = process.Identify(cmd.Process.Pid)
			if err != nil {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
		}
		started <- err
		if err != nil {
			_ = output.Close()
			return
		}
		k.err = cmd.Wait()
		_ = output.Flush() // its last words; a console takes all
		close(k.ended)
		_ = output.Close()
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	return k, nil
}

// kill ends the process, and waits until it is reaped.
func (k *child) kill(ctx context.Context) error {
	if err := k.Kill(ctx); err != nil && !errors.Is(err, process.ErrGone) {
		return err
	}
	select {
	case <-k.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// over reports whether the process has ended.
func (k *child) over() bool {
	select {
	case <-k.ended:
		return true
	default:
		return false
	}
}
