package procfs

import (
	"context"
	"fmt"
	"time"
)

// AwaitProgram blocks until the process runs a program whose arguments and
// environment can be read. execve closes descriptors, which is how a parent
// learns that it has succeeded, some microseconds before the kernel has laid
// out the new program's arguments; in between both files read as empty. There
// is no event to wait for, so it looks again.
func (p Process) AwaitProgram(ctx context.Context) error {
	for {
		args, err := p.Args()
		if err != nil {
			return err
		}
		if len(args) > 0 {
			return nil
		}
		stat, err := p.Stat()
		if err != nil {
			return err
		}
		if stat.Zombie() {
			return fmt.Errorf("process %d has ended: %w", p.PID, errGone)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d has not started its program: %w", p.PID, ctx.Err())
		case <-time.After(100 * time.Microsecond):
		}
	}
}
