package containerd

import (
	"context"
	"time"

	"github.com/containerd/containerd/v2/client"

	"tare/kernel/accounting"
	"tare/kernel/process"
	"tare/kernel/procfs"
)

const (
	// aftermath is how long containerd may take for a request whose client has
	// died: it goes on for some milliseconds, and makes what it was asked for.
	aftermath = 100 * time.Millisecond
	// orphaned is how long a shim may be without a task before it is known for
	// one that containerd has given up: it takes a start that was broken off for
	// failed, and removes its files, but may leave the shim (1.6 does).
	orphaned = 3 * time.Second
)

// removeAbandoned removes a container whose maker is gone, perhaps only just.
func (p *Platform) removeAbandoned(ctx context.Context, id, mark string) error {
	if err := p.removeContainer(ctx, id, mark, p.settle); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(aftermath):
	}
	return p.removeContainer(ctx, id, mark, p.settle)
}

// settle removes the container's task, if it has one, and returns when no shim
// serves it: one whose client died while it started it may be at it still, and
// makes the task, or gives up, a moment after it was looked for.
func (p *Platform) settle(ctx context.Context, container client.Container) error {
	ours := func(id string) bool { return id == container.ID() }
	for began := time.Now(); ; {
		if err := p.removeTask(ctx, container); err != nil {
			return err
		}
		all, err := accounting.Take("/proc")
		if err != nil {
			return err
		}
		left := shims(all, ours)
		if len(left) == 0 {
			return nil
		}
		if time.Since(began) > orphaned {
			for _, pid := range left {
				if err := killShim(ctx, pid, ours); err != nil {
					return err
				}
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond): // a shim's end is no event to others
		}
	}
}

// killShim ends the shim, if the process is still one of such a container.
func killShim(ctx context.Context, pid int, of func(id string) bool) error {
	identity, err := process.Identify(pid)
	if procfs.Gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	// Asked after it was identified: what it is now, it is when it is killed.
	args, err := procfs.Host.Process(pid).Args()
	if procfs.Gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if id, ok := shimServes(args); !ok || !of(id) {
		return nil
	}
	return identity.Kill(ctx)
}
