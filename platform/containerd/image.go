package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"

	"tare/image"
	"tare/platform"
	"tare/platform/engine"
)

// snapshotter is containerd's part that provides roots.
const snapshotter = "overlayfs"

// kindImage is the kind of ledger entry for an image, with the lease under
// which it was imported and the snapshots that its layers were unpacked to.
const kindImage = "image" // ID: its reference; Attrs[labelLedger]

// Enters reports whether Prepare enters things of the kind in the ledger.
func Enters(kind string) bool { return kind == kindImage }

// The labels of everything that we make in containerd. A thing is ours if its
// labelLedger is the one that its ledger entry recorded.
const (
	labelOurs   = "tare"
	labelLedger = "tare.ledger"
)

func labels(mark string) map[string]string {
	return map[string]string{labelOurs: "1", labelLedger: mark}
}

// loaded is an image that Prepare imported.
type loaded struct {
	mark string
	done func() // of its ledger entry
}

// Prepare imports the image's archive and unpacks it, unless containerd has it.
func (p *Platform) Prepare(ctx context.Context, img image.Image) error {
	if info, err := os.Stat(img.Root); err != nil || !info.IsDir() {
		return fmt.Errorf("image %s: its root file system %q is not there: make the image again", img.Name, img.Root)
	}
	p.load.Lock()
	defer p.load.Unlock()
	unpacked, err := p.holds(ctx, img.Reference)
	if err != nil || unpacked {
		return err
	}
	p.mu.Lock()
	one, again := p.images[img.Reference]
	p.mu.Unlock()
	entry := platform.Entry{Platform: p.name, Kind: kindImage, ID: img.Reference}
	if !again { // else somebody removed what we had imported, and the entry stands
		one = loaded{mark: engine.NewMark(), done: func() {}}
	}
	entry.Attrs = map[string]string{labelLedger: one.mark}
	if !again && p.options.Ledger != nil {
		if one.done, err = p.options.Ledger.Add(entry); err != nil {
			return fmt.Errorf("enter image %s in the ledger: %w", img.Reference, err)
		}
	}
	if err = p.importImage(ctx, img, one.mark); err == nil {
		p.mu.Lock()
		p.images[img.Reference] = one
		p.mu.Unlock()
		return nil
	}
	// What failed half-way leaves nothing. Where containerd is silent, or gone,
	// the entry stays for tare clean.
	if removing := p.Remove(context.WithoutCancel(ctx), entry); removing != nil {
		return errors.Join(err, removing)
	}
	one.done()
	p.mu.Lock()
	delete(p.images, img.Reference)
	p.mu.Unlock()
	return err
}

// holds reports whether containerd has the image, unpacked.
func (p *Platform) holds(ctx context.Context, reference string) (unpacked bool, err error) {
	err = p.call(ctx, "look for image "+reference, func(ctx context.Context, c *client.Client) error {
		img, err := c.GetImage(ctx, reference)
		if err != nil {
			return err
		}
		unpacked, err = img.IsUnpacked(ctx, snapshotter)
		return err
	})
	if gone(err) {
		return false, nil
	}
	return unpacked, err
}

// importImage imports and unpacks under a lease of its own, so that containerd
// collects nothing of it meanwhile, and everything of it should we die.
func (p *Platform) importImage(ctx context.Context, img image.Image, mark string) error {
	archive, err := os.Open(img.Archive)
	if err != nil {
		return fmt.Errorf("import image %s into containerd: %w", img.Name, err)
	}
	defer archive.Close()
	return p.transfer(ctx, "import image "+img.Name+" into containerd", func(ctx context.Context, c *client.Client) error {
		lease, err := c.LeasesService().Create(ctx,
			leases.WithID(leaseOf(mark)),
			leases.WithLabels(labels(mark)), leases.WithExpiration(2*engine.TransferLimit))
		if err != nil {
			return err
		}
		if err := load(leases.WithLease(ctx, lease.ID), c, img, archive, mark); err != nil {
			return err
		}
		return c.LeasesService().Delete(ctx, lease)
	})
}

// leaseOf names the lease under which the image of the mark is imported.
func leaseOf(mark string) string { return "tare-" + mark }

func load(ctx context.Context, c *client.Client, img image.Image, archive io.Reader, mark string) error {
	imported, err := c.Import(ctx, archive, client.WithImageLabels(labels(mark)))
	if err != nil {
		return err
	}
	i := slices.IndexFunc(imported, func(i images.Image) bool { return i.Name == img.Reference })
	if i < 0 {
		return fmt.Errorf("%s holds no image tagged %s; build the image anew: %w", img.Archive, img.Reference, errdefs.ErrNotFound)
	}
	return client.NewImage(c, imported[i]).Unpack(ctx, snapshotter)
}

// parent is the snapshot that the image's last layer was unpacked to, on which
// containers are built.
func (p *Platform) parent(ctx context.Context, img image.Image) (digest.Digest, error) {
	p.mu.Lock()
	parent, known := p.parents[img.Reference]
	p.mu.Unlock()
	if known {
		return parent, nil
	}
	doing := "look for image " + img.Reference
	err := p.call(ctx, doing, func(ctx context.Context, c *client.Client) error {
		found, err := c.GetImage(ctx, img.Reference)
		if err != nil {
			return err
		}
		layers, err := found.RootFS(ctx)
		if err != nil {
			return err
		}
		parent = identity.ChainID(layers)
		return nil
	})
	if gone(err) {
		return "", notPrepared(doing, img.Reference, err)
	}
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	p.parents[img.Reference] = parent // of the reference for good: its tag is of the content
	p.mu.Unlock()
	return parent, nil
}

func notPrepared(doing, reference string, err error) error {
	return &engine.Error{Doing: doing, Message: "containerd has no image " + reference + "; it was not prepared, or somebody removed it", Err: err}
}

// Release removes the images that Prepare imported; the ones that were there
// before stay.
func (p *Platform) Release(ctx context.Context) error {
	p.mu.Lock()
	ours := make(map[string]loaded, len(p.images))
	for reference, one := range p.images {
		ours[reference] = one
	}
	p.mu.Unlock()
	var errs []error
	for reference, one := range ours {
		if err := p.removeImage(ctx, reference, one.mark); err != nil {
			errs = append(errs, err)
			continue
		}
		p.mu.Lock()
		delete(p.images, reference)
		p.mu.Unlock()
		one.done()
	}
	if len(ours) > 0 {
		errs = append(errs, p.removeNamespace(ctx))
	}
	return errors.Join(errs...)
}
