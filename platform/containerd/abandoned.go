package containerd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/defaults"

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
	if err := p.removeContainer(ctx, id, mark, p.settle); err != nil {
		return err
	}
	return p.removeSocket(ctx, id)
}

// removeSocket removes the socket of a shim that did not come to do so itself:
// of one that was killed, or whose start was broken off.
func (p *Platform) removeSocket(ctx context.Context, id string) error {
	file := p.shimSocket(id)
	if err := reachable(ctx, file); !errors.Is(err, syscall.ECONNREFUSED) {
		return nil // it is not there, or somebody listens
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what the shim of container %s has left: %w", id, err)
	}
	return nil
}

// shimSocket is where the container's shim listens, by containerd's own rule
// (pkg/shim, SocketAddress): whoever configured containerd otherwise, or reaches
// it by another path than it names itself, has no file of that name.
func (p *Platform) shimSocket(id string) string {
	name := sha256.Sum256([]byte(filepath.Join(p.address, namespace, id)))
	return filepath.Join(defaults.DefaultStateDir, "s", hex.EncodeToString(name[:]))
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
		left := shims(all, namespace, ours)
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
	if id, ok := shimServes(args, namespace); !ok || !of(id) {
		return nil
	}
	return identity.Kill(ctx)
}
