package kit

import (
	"context"
	"os"
	"slices"
	"time"

	"tare/container"
	"tare/probe/bursts"
)

// Wait lets time go by; false where ctx ended before.
func Wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Target is what the probe of bursts watches of a container: its control group, or, where it has
// none of its own, its processes but tare itself. The error is a *[container.Ended] where none
// of these is left.
func Target(c container.Container) (bursts.Target, error) {
	if c.Cgroup != "" {
		return bursts.Target{Name: c.Name, Cgroup: c.Cgroup}, nil
	}
	pids, err := c.Processes()
	if err != nil {
		return bursts.Target{}, err
	}
	pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == os.Getpid() })
	if len(pids) == 0 {
		return bursts.Target{}, &container.Ended{Name: c.Name}
	}
	return bursts.Target{Name: c.Name, PIDs: pids}, nil
}
