package containerd

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"

	"tare/kernel/cgroup"
	"tare/platform"
)

// removeContainer removes what the entry of a container stands for: its task,
// by the way given, its place in containerd's books, and its snapshot.
func (p *Platform) removeContainer(
	ctx context.Context,
	id, mark string,
	end func(context.Context, client.Container) error,
) error {
	if id == "" || mark == "" {
		return fmt.Errorf("container %q was entered without its mark, so it cannot be distinguished from another: it is left alone", id)
	}
	doing := "remove container " + id
	var found client.Container
	err := p.look(ctx, doing, func(ctx context.Context, c *client.Client) error {
		known, err := c.LoadContainer(ctx, id)
		if err != nil {
			return err
		}
		labels, err := known.Labels(ctx)
		// Another container that took the name since is not ours.
		if err == nil && labels[labelLedger] == mark {
			found = known
		}
		return err
	})
	if err != nil && !gone(err) {
		return err
	}
	if found != nil {
		if err := end(ctx, found); err != nil {
			return err
		}
		err := p.call(ctx, doing, func(ctx context.Context, _ *client.Client) error { return found.Delete(ctx) })
		if err != nil && !gone(err) {
			return err
		}
	}
	return p.removeSnapshot(ctx, id, mark)
}

// removeTask ends the container's processes and its shim.
func (p *Platform) removeTask(ctx context.Context, container client.Container) error {
	err := p.call(ctx, "end container "+container.ID(), func(ctx context.Context, _ *client.Client) error {
		task, err := container.Task(ctx, nil)
		if err != nil {
			return err
		}
		if err := kill(ctx, task); err != nil {
			return err
		}
		_, err = task.Delete(ctx)
		return err
	})
	if gone(err) {
		return nil
	}
	return err
}

// kill ends the task's first process, and so all others of its process
// namespace. The client's own WithProcessKill asks for all in the cgroup, which
// runtimes refuse where that is removed already.
func kill(ctx context.Context, task client.Task) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	exited, err := task.Wait(waiting)
	if err != nil {
		return err
	}
	if err := task.Kill(ctx, syscall.SIGKILL); err != nil && !gone(err) && !errdefs.IsFailedPrecondition(err) {
		return err
	}
	if err := thaw(ctx, task); err != nil {
		return err
	}
	return errgrpc.ToNative((<-exited).Error()) // which ends with its context, too
}

// thaw lets a task run that was frozen behind containerd's back: version 1's freezer would
// keep it from dying.
func thaw(ctx context.Context, task client.Task) error {
	group, err := platform.OwnGroup(int(task.Pid()))
	if err != nil {
		return nil // it has ended
	}
	// The process' id may have gone to another by now.
	group.Places = slices.DeleteFunc(group.Places, func(p cgroup.Place) bool { return path.Base(p.Path) != task.ID() })
	return group.Thaw(ctx)
}

func (p *Platform) removeSnapshot(ctx context.Context, key, mark string) error {
	err := p.call(ctx, "remove snapshot "+key, func(ctx context.Context, c *client.Client) error {
		snapshots := c.SnapshotService(snapshotter)
		info, err := snapshots.Stat(ctx, key)
		if err != nil || info.Labels[labelLedger] != mark {
			return err
		}
		return snapshots.Remove(ctx, key)
	})
	if gone(err) {
		return nil
	}
	return err
}

// removeImage removes an image that we imported, with its layers and their
// snapshots, and what is left of its import.
func (p *Platform) removeImage(ctx context.Context, reference, mark string) error {
	if mark == "" {
		return fmt.Errorf("image %s was entered without its mark, so it cannot be distinguished from another: it is left alone", reference)
	}
	err := p.call(ctx, "remove the lease of image "+reference, func(ctx context.Context, c *client.Client) error {
		return c.LeasesService().Delete(ctx, leases.Lease{ID: leaseOf(mark)})
	})
	if err != nil && !gone(err) {
		return err
	}
	err = p.call(ctx, "remove image "+reference, func(ctx context.Context, c *client.Client) error {
		found, err := c.ImageService().Get(ctx, reference)
		if err != nil || found.Labels[labelLedger] != mark {
			return err
		}
		if err := removeAliases(ctx, c, found); err != nil {
			return err
		}
		// Back when the disk is free again, also of the snapshots removed before.
		return c.ImageService().Delete(ctx, reference, images.SynchronousDelete())
	})
	if gone(err) {
		return nil
	}
	return err
}

// removeAliases removes the names that containerd's CRI plugin has given an image besides: its
// configuration's digest. They stay where another name is left for the image.
func removeAliases(ctx context.Context, c *client.Client, of images.Image) error {
	same, err := c.ImageService().List(ctx, "target.digest=="+strconv.Quote(of.Target.Digest.String()))
	if err != nil {
		return err
	}
	same = slices.DeleteFunc(same, func(i images.Image) bool { return i.Name == of.Name })
	isAlias := func(i images.Image) bool { return strings.HasPrefix(i.Name, "sha256:") }
	if slices.ContainsFunc(same, func(i images.Image) bool { return !isAlias(i) }) {
		return nil
	}
	for _, alias := range same {
		if err := c.ImageService().Delete(ctx, alias.Name); err != nil && !gone(err) {
			return err
		}
	}
	return nil
}

// removeNamespace removes ours from containerd's books when nothing is in it.
// One to which somebody has given labels is somebody's.
func (p *Platform) removeNamespace(ctx context.Context) error {
	if p.namespace != namespace {
		return nil
	}
	err := p.call(ctx, "remove the namespace "+namespace, func(ctx context.Context, c *client.Client) error {
		labels, err := c.NamespaceService().Labels(ctx, namespace)
		if err != nil || len(labels) > 0 {
			return err
		}
		return c.NamespaceService().Delete(ctx, namespace)
	})
	if gone(err) || errdefs.IsFailedPrecondition(err) { // not there, or in use
		return nil
	}
	return err
}
