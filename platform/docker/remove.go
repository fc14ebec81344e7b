package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"tare/platform"
)

// The other kinds of ledger entries. A container and a volume are named by
// their name and recognised by the label that the entry recorded.
const (
	kindContainer = "container"
	kindVolume    = "volume"
	kindDir       = "dir"
)

// stillBeingMade is how long a container that another process entered is looked
// for: an engine makes one in a tenth of that, and under load in some tenths.
const stillBeingMade = 2 * time.Second

// stillBeingLoaded is likewise for images: what an engine has of an archive when
// its client is killed it unpacks to the end, some 100 MB in a second.
const stillBeingLoaded = 4 * time.Second

// entered tells whether this process entered the container or image in the ledger, or found it:
// none of these is still being made.
func (p *Platform) entered(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made[name]
}

func (p *Platform) found(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made[name] = true
}

// Remove removes what a ledger entry names, if it is there and still ours.
func (p *Platform) Remove(ctx context.Context, e platform.Entry) error {
	switch e.Kind {
	case kindContainer:
		err := p.removeContainer(ctx, e.ID, e.Attrs[labelLedger])
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.live) == 0 { // after a crash: else the last to leave does it
			removeParent()
		}
		return err
	case kindService:
		return p.removeService(ctx, e.ID, e.Attrs[labelLedger])
	case kindVolume:
		return p.removeVolume(ctx, e.ID, e.Attrs[labelLedger])
	case kindImage:
		return p.removeImage(ctx, e.ID)
	case kindDir:
		return p.removeDir(e.ID)
	}
	return fmt.Errorf("%s makes nothing of kind %q; the ledger entry %s is not its own", p.name, e.Kind, e.ID)
}

func (p *Platform) removeContainer(ctx context.Context, name, mark string) error {
	doing := "remove container " + name
	var found container.InspectResponse
	inspect := func() error {
		return p.look(ctx, doing, func(ctx context.Context) error {
			answer, err := p.client.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
			found = answer.Container
			return err
		})
	}
	err := inspect()
	// A tare that was killed may have asked for it a moment ago: the engine goes
	// on making it, and it appears after we have looked.
	until := time.Now().Add(stillBeingMade)
	for ; gone(err) && !p.entered(name) && time.Now().Before(until); err = inspect() {
		select {
		case <-time.After(stillBeingMade / 20):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
		}
	}
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	// Another container that took the name since is not ours.
	if mark == "" || found.Config == nil || found.Config.Labels[labelLedger] != mark {
		return nil
	}
	p.found(strings.TrimPrefix(found.Name, "/"))
	if err := thaw(ctx, found); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	err = p.call(ctx, doing, func(ctx context.Context) error {
		_, err := p.client.ContainerRemove(
			ctx,
			found.ID,
			client.ContainerRemoveOptions{Force: true, RemoveVolumes: true},
		)
		return err
	})
	// "Removal in progress": somebody else has asked; be back when it is done.
	if errdefs.IsConflict(err) {
		return p.call(ctx, doing, func(ctx context.Context) error {
			removed := p.client.ContainerWait(
				ctx,
				found.ID,
				client.ContainerWaitOptions{Condition: container.WaitConditionRemoved},
			)
			select {
			case <-removed.Result:
				return nil
			case err := <-removed.Error:
				if gone(err) {
					return nil
				}
				return err
			}
		})
	}
	if gone(err) {
		return nil
	}
	return err
}

func (p *Platform) removeVolume(ctx context.Context, name, mark string) error {
	doing := "remove volume " + name
	ours := false
	err := p.look(ctx, doing, func(ctx context.Context) error {
		answer, err := p.client.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
		ours = mark != "" && answer.Volume.Labels[labelLedger] == mark
		return err
	})
	remove := func(ctx context.Context) error {
		_, err := p.client.VolumeRemove(ctx, name, client.VolumeRemoveOptions{})
		return err
	}
	if err == nil && ours {
		err = p.call(ctx, doing, remove)
		// Its container is there still, where entries are removed in another
		// order than the reverse of making. It is of the same instance.
		if errdefs.IsConflict(err) {
			if err = p.removeMarked(ctx, mark); err == nil {
				err = p.call(ctx, doing, remove)
			}
		}
	}
	if gone(err) {
		return nil
	}
	return err
}

// removeMarked removes the containers of one instance.
func (p *Platform) removeMarked(ctx context.Context, mark string) error {
	var names []string
	err := p.call(ctx, "list containers", func(ctx context.Context) error {
		answer, err := p.client.ContainerList(ctx, client.ContainerListOptions{
			All: true, Filters: client.Filters{}.Add("label", labelLedger+"="+mark),
		})
		for _, c := range answer.Items {
			names = append(names, c.ID)
		}
		return err
	})
	for _, name := range names {
		err = errors.Join(err, p.removeContainer(ctx, name, mark))
	}
	return err
}

// removeImage takes our name off the image; the engine deletes it with its last name.
func (p *Platform) removeImage(ctx context.Context, reference string) error {
	if !strings.HasPrefix(reference, ourImages) {
		return fmt.Errorf("image %s is not one that tare loads (%s...); left alone", reference, ourImages)
	}
	// That takes minutes where there are many layers; the engine answers others meanwhile.
	remove := func() error {
		return p.requests.Transfer(ctx, "remove image "+reference, func(ctx context.Context) error {
			_, err := p.client.ImageRemove(ctx, reference, client.ImageRemoveOptions{PruneChildren: true})
			return err
		})
	}
	err := remove()
	// As with containers: one that was being loaded appears when it is unpacked.
	until := time.Now().Add(stillBeingLoaded)
	for ; gone(err) && !p.entered(reference) && time.Now().Before(until); err = remove() {
		select {
		case <-time.After(stillBeingLoaded / 20):
		case <-ctx.Done():
			return fmt.Errorf("remove image %s: %w", reference, context.Cause(ctx))
		}
	}
	if gone(err) {
		return nil
	}
	return err
}

// removeDir removes a directory of data, only below our own state directory.
func (p *Platform) removeDir(dir string) error {
	// Versions before kept those of every engine in one place.
	former := filepath.Join(filepath.Dir(p.stateDir), Name)
	if parent := filepath.Dir(filepath.Clean(dir)); parent != filepath.Clean(p.stateDir) && parent != former {
		return fmt.Errorf("directory %s is not in %s; left alone", dir, p.stateDir)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the bound directory: %w", err)
	}
	return nil
}
